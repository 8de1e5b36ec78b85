"""``from_module``: an ordinary torch module as a Layer, its neurons declared or found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Claims, Inputs, Layer, Weights, Workspace
from nqf_registry.modules.call import ModuleCall, Output, module_call
from nqf_registry.modules.find import Found, Neurons, find_neurons
from nqf_registry.modules.partition import Partition, declared

Sampler = Callable[[int, torch.Generator], Any]


@dataclass(frozen=True)
class ModuleLayer(Layer):
    """A module seen as a sum over the neurons of a partition; what lies outside it is held.

    The module itself is never touched: it is called with other tensors in the place of its parameters and buffers.

    Attributes:
        width: d, as the module has it; its shapes leave no other.
        call: the module as a function.
        partition: its neurons.
        held: the parameters outside the partition, with the values that they are held at.
        draw: draws inputs.
    """

    width: int = field(init=False)
    call: ModuleCall = field(repr=False, compare=False)
    partition: Partition = field(repr=False, compare=False)
    held: Mapping[str, Tensor] = field(repr=False, compare=False)
    draw: Callable[[int, torch.Generator], dict[str, Tensor]] = field(repr=False, compare=False)

    claims = Claims()

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self.partition.width)

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """The partition, by parameter."""
        return dict(self.partition.shapes)

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Inputs like the example, or those of the given sampler."""
        return self.draw(n, generator)

    def forward(self, W: Weights, x: Inputs) -> Tensor:
        """The module with these weights, (n, k): all outputs of a sample in one row."""
        like = next(iter(W.values()))
        parameters = {name: value.to(like) if value.is_floating_point() else value for name, value in self.held.items()}
        missing = self.width - like.shape[-1]  # fewer neurons are as many of which the others are zero
        if missing < 0:
            raise InvalidInput(f"{self.key} has {self.width} neurons, as its module has; got weights of {like.shape[-1]}.")
        parameters |= {
            name: self.partition.parameter(name, F.pad(block, (0, missing)) if missing else block) for name, block in W.items()
        }
        return self.call(parameters, x)

    def workspace(self) -> Workspace:
        """Zero parameters, and the views of them that are the blocks."""
        whole = {name: torch.zeros_like(self.call.parameters[name], dtype=torch.float64) for name in self.blocks()}
        held = {name: t.double() if t.is_floating_point() else t for name, t in self.held.items()}
        blocks = {name: self.partition.block(name, parameter) for name, parameter in whole.items()}
        return Workspace(blocks, lambda x: self.call({**held, **whole}, x))

    def state(self) -> dict[str, Tensor]:
        r"""The module's own weights as W, blocks (\*shape, d)."""
        parameters = self.call.parameters
        return {name: self.partition.block(name, parameters[name]) for name in self.blocks()}


def from_module(
    module: nn.Module,
    example: Any,
    neurons: Mapping[str, str] | Neurons | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    held: Mapping[str, float | Tensor] | None = None,
    output: Output = None,
    sample: Sampler | None = None,
    key: str = "",
    claims: Claims | None = None,
) -> Layer:
    """Makes a Layer of an ordinary module: the form in which it can be verified, expanded and trained.

    Args:
        module: any ``torch.nn.Module``; it is not touched.
        example: its inputs with a leading sample axis: a tensor, a tuple of them, or a dict of keywords.
        neurons: the partition, by parameter an einops pattern with the neuron first after the arrow, such as
            ``{"fc1.weight": "d i -> d i", "fc2.weight": "o d -> d o"}``; or one of the groups of
            :func:`nqf_registry.find_neurons`. Left out, they are found.
        sizes: lengths of the factors of packed axes, ``{"h": 8}`` for ``"(t h k) m -> h t k m"``.
        held: values that parameters outside the partition are held at, a number or a tensor; by default their own.
        output: which of several outputs: a position, a name, or a function of what the module gives; by default the first.
        sample: draws inputs, sample(n, generator), in the form of the example; by default normal numbers with the mean and
            spread of the example, and integers between its smallest and largest; what is the same for every sample of the
            example, such as a mask, stays as it is.
        key: name of the layer; by default that of the module's class.
        claims: what the layer promises; by default symmetry, zero gradient at zero and smoothness.

    Returns:
        The layer, of the module's own width.

    Raises:
        InvalidInput: this is no module, the example does not fit, a pattern does not fit its parameter, or no neurons were
            given and none, or several independent groups, were found.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> from torch import nn
        >>> layer = from_module(nn.Sequential(nn.Linear(3, 6, bias=False), nn.Tanh(), nn.Linear(6, 2)), torch.randn(5, 3))
        >>> layer.width, layer.blocks()
        (6, {'0.weight': (3,), '2.weight': (2,)})
        >>> nqf.verify(layer).classification
        'nqf'
    """
    call, x = module_call(module, example, output)
    parameters = call.parameters
    if not parameters:
        raise InvalidInput(f"{type(call.module).__name__} has no parameters, so it has no neurons.")
    if neurons is None:
        partition = _only(find_neurons(module, example, output), call).partition
    elif isinstance(neurons, Neurons):
        partition = neurons.partition
    else:
        partition = declared(neurons, parameters, sizes)
    coarse = [name for name in partition.patterns if not parameters[name].is_floating_point()]
    if coarse:
        raise InvalidInput(f"{', '.join(coarse)} must be floating to belong to neurons, got {parameters[coarse[0]].dtype}.")
    cls = type(
        f"{type(call.module).__name__}Layer",
        (ModuleLayer,),
        {
            "key": key or layer_key(type(call.module).__name__),
            "title": type(call.module).__name__,
            "claims": claims or Claims(),
        },
    )
    layer = cls(call, partition, _held(held or {}, parameters, partition), _sampler(sample, call, x))
    layer.forward(layer.state(), x)  # an output that is none is told here, not in the middle of something else
    return layer


def _only(found: Found, call: ModuleCall) -> Neurons:
    """The outermost group where all others lie inside it."""
    name = type(call.module).__name__
    if not found.groups:
        reasons = [*found.undecided, *found.refuted, *(f"{axis}: {why}" for axis, why in found.fixed.items())]
        raise InvalidInput(
            f"{name} is no-neurons: no units were found whose exchange leaves its outputs unchanged "
            f"({'; '.join(reasons[:6])}). If it has some, declare them by neurons=."
        )
    first = found.groups[0]
    apart = [group for group in found.groups if not set(group.partition.patterns) & set(first.partition.patterns)]
    if apart:
        listed = "; ".join(f"{i}: {group}" for i, group in enumerate(found.groups))
        raise InvalidInput(
            f"{name} has several independent groups of neurons: {listed}. Give one by "
            "neurons=nqf.find_neurons(module, example).groups[i]."
        )
    return first


def _held(held: Mapping[str, float | Tensor], parameters: Mapping[str, Tensor], partition: Partition) -> dict[str, Tensor]:
    """The values that parameters are held at, of those that are given; the module keeps the others."""
    found = {}
    for name, value in held.items():
        if name not in parameters or name in partition.patterns:
            what = "belongs to the neurons" if name in partition.patterns else "is no parameter of the module"
            free = ", ".join(other for other in parameters if other not in partition.patterns) or "none"
            raise InvalidInput(f"held names {name!r}, which {what}; outside the neurons are {free}.")
        shape = parameters[name].shape
        try:
            found[name] = torch.as_tensor(value, dtype=parameters[name].dtype).expand(shape).clone()
        except (TypeError, RuntimeError, ValueError) as error:
            raise InvalidInput(f"held must give {name} a number or a tensor {tuple(shape)}, got {value!r}.") from error
    return found


def layer_key(name: str) -> str:
    """The name of a class as the key of a layer.

    >>> layer_key("MultiheadAttention"), layer_key("GRUCell"), layer_key("_Odd2")
    ('multihead-attention', 'gru-cell', 'odd2')
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|[0-9]+", name)
    return "-".join(word.lower() for word in words) or "module"


def _sampler(sample: Sampler | None, call: ModuleCall, x: Mapping[str, Tensor]) -> Callable[..., dict[str, Tensor]]:
    """Draws inputs by name."""
    if sample is not None:

        def given(n: int, generator: torch.Generator) -> dict[str, Tensor]:
            drawn = sample(n, generator)
            if isinstance(drawn, Mapping):
                return {str(name): t for name, t in drawn.items()}
            return dict(zip(call.names, drawn if isinstance(drawn, tuple | list) else (drawn,), strict=True))

        return given
    like = {name: t.detach().clone() for name, t in x.items()}

    def drawn(n: int, generator: torch.Generator) -> dict[str, Tensor]:
        return {name: _like(t, n, generator) for name, t in like.items()}

    return drawn


def _like(t: Tensor, n: int, generator: torch.Generator) -> Tensor:
    shape = (n, *t.shape[1:])
    if len(t) > 1 and bool((t == t[:1]).all()):  # the same for every sample: a mask, or positions
        return t[:1].expand(shape).clone()
    if t.is_floating_point():
        spread = float(t.double().std()) if t.numel() > 1 else 0.0
        noise = torch.randn(shape, generator=generator, dtype=torch.float64)
        return (float(t.double().mean()) + (spread or 1.0) * noise).to(t.dtype)
    low, high = int(t.min()), int(t.max())
    return torch.randint(low, high + 1, shape, generator=generator).to(t.dtype)
