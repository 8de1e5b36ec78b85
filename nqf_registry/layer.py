"""A layer: its neuron partition, its forward pass, its structure matrix, and what it claims of itself.

Source: arXiv 2608.13335, sections 2 and 3 and appendix B.1, B.2.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from nqf_registry import couplings
from nqf_registry.arguments import cast, check_inputs, check_weights
from nqf_registry.errors import InvalidInput, LayerError
from nqf_registry.structure import Structure

Inputs = Mapping[str, Tensor]
Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Claims:
    """What a layer says of itself: True is a promise that is checked, False promises nothing and the check reports what it saw.

    Attributes:
        symmetric: f(W σ) = f(W) for every permutation σ of the neurons.
        zgz: the gradient by a neuron vanishes where that neuron is zero, whatever the others are.
        smooth: f is three times continuously differentiable near W = 0.
        sign_symmetric: f does not change when one neuron changes sign; with smoothness this implies zgz and an ε⁴ remainder.
        exact: f(0) + Tr[W Wᵀ A(x)] is the layer, not an approximation.
    """

    symmetric: bool = True
    zgz: bool = True
    smooth: bool = True
    sign_symmetric: bool = False
    exact: bool = False


@dataclass(frozen=True)
class Port:
    """One named input of a layer: its shape without the sample axis, and whether it takes integers."""

    shape: tuple[int, ...]
    integer: bool = False

    def __str__(self) -> str:
        return f"({', '.join(['n', *map(str, self.shape)])}){' integer' if self.integer else ''}"


@dataclass(frozen=True, eq=False)
class Workspace:
    r"""Weights in float64 that are written to and evaluated where they lie.

    Attributes:
        blocks: views of them (\*shape, d).
        evaluate: f at what they hold, (n, k) of inputs in float64.
    """

    blocks: Mapping[str, Tensor]
    evaluate: Callable[[Inputs], Tensor]


class Layer:
    r"""A sum over interchangeable units, declared once and used by every part of the library.

    Subclass it as a frozen dataclass whose fields are the sizes and choices, ``width`` (d, the number of neurons) among them,
    and write

    - ``blocks()``: the neuron partition, name to shape of ONE neuron's parameters;
    - ``sample(n, generator)``: n typical inputs, a dict of tensors with leading axis n;
    - ``unit(w, x)``: one neuron's contribution (n, k), or ``forward(W, x)`` where the layer is no sum or has a faster way;
    - ``structure(x)``: A(x), by :func:`nqf_registry.quadratic`, :func:`nqf_registry.dense` and ``+``. It may be left out: it is
      then derived.

    Optional: ``linear(x)`` (g, a dict of blocks (n, k, \*shape); a block left out is zero) and ``cross(x)`` (B, a Structure)
    where ZGZ fails; ``offset(x)`` (f(0), (n, k) or a number); ``linearise(W, x)`` (f(W), and the function that pulls a
    cotangent of it back to a dict like W: outputs and closed-form gradient in one pass), or ``pullback(W, x, cotangent)`` (the
    gradient alone); ``encode(features)`` (a table of feature vectors (n, m) to this layer's inputs); ``variants()`` (further
    instances to verify).

    Weights travel as a dict of blocks with the neuron axis last, W["u"]: (n_in, d). Neither ``unit`` nor ``forward`` sees a
    replica axis unless the class sets ``batched = True``.

    Attributes:
        key: name in the registry, lower-case words joined by hyphens.
        claims: what the layer says of itself.
        title: name for people.
        formula: LaTeX of f.
        structure_formula: LaTeX of A(x).
        references: structured, see :class:`nqf_registry.Reference`.
        convention: how this layer's W relates to the literature's, and other readings taken.
        notes: anything a reader of the catalogue should know.
        batched: whether ``forward`` takes a leading replica axis itself.
    """

    key: ClassVar[str] = ""
    claims: ClassVar[Claims] = Claims()
    title: ClassVar[str] = ""
    formula: ClassVar[str] = ""
    structure_formula: ClassVar[str] = ""
    references: ClassVar[tuple[Any, ...]] = ()
    convention: ClassVar[str] = ""
    notes: ClassVar[str] = ""
    batched: ClassVar[bool] = False

    width: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("structure", "cross"):
            if callable(cls.__dict__.get(name)):  # so that its result knows its blocks, and .dense() takes no argument
                setattr(cls, name, _bound(name, cls.__dict__[name]))

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """The neuron partition: name and shape of each block of one neuron."""
        raise LayerError(f"{type(self).__name__} must define blocks(self): the name and shape of each block of one neuron.")

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Typical inputs, each tensor with leading axis n."""
        raise LayerError(f"{type(self).__name__} must define sample(self, n, generator): a dict of n typical inputs.")

    def unit(self, w: Weights, x: Inputs) -> Tensor:
        """One neuron's contribution, (n, k)."""
        raise LayerError(f"{type(self).__name__} must define unit(self, w, x), one neuron's part, or forward(self, W, x).")

    def forward(self, W: Weights, x: Inputs) -> Tensor:
        """f(W), (n, k): the sum of ``unit`` over the neurons, vmapped, or looped where vmap refuses."""
        names = tuple(W)

        def one(*columns: Tensor) -> Tensor:
            return self.unit(dict(zip(names, columns, strict=True)), x)

        return mapped(self, one, [W[name] for name in names], -1).sum(0)

    def encode(self, features: Tensor) -> dict[str, Tensor]:
        """Turns a table of feature vectors (n, m) into this layer's inputs; by default its only floating input, reshaped.

        Raises:
            InvalidInput: the sizes differ, or the layer has several inputs and does not say how to fill them.
        """
        ports = self.ports()
        if features.ndim != 2:
            raise InvalidInput(f"{self.key}: features are a table (n, m), got the shape {tuple(features.shape)}.")
        m = features.shape[1]
        if len(ports) == 1:
            name, port = next(iter(ports.items()))
            if not port.integer and prod(port.shape) == m:
                return {name: features.reshape(len(features), *port.shape)}
        raise InvalidInput(
            f"{self.key} takes {', '.join(f'{name} {port}' for name, port in ports.items())}; the data has {m} features a "
            f"sample. Give the layer sizes that hold {m} numbers, or define encode(features) on it."
        )

    @property
    def n_params(self) -> int:
        """p, the number of parameters of one neuron."""
        return sum(prod(shape) for shape in self.blocks().values())

    @property
    def footprint(self) -> int:
        """Numbers that a call makes of its weights: as many as W has, unless the layer stands for a larger one."""
        return self.n_params * self.width

    def workspace(self) -> Workspace | None:
        """Kept zero weights, for a layer of fixed width, whose calls would mostly make them anew; None for the others."""
        return None

    def ports(self) -> dict[str, Port]:
        """The inputs by name, as ``sample`` gives them; asked once."""
        return dict(self._ports)

    @functools.cached_property
    def _ports(self) -> dict[str, Port]:
        x: Any = self.sample(2, torch.Generator().manual_seed(0))
        if not isinstance(x, Mapping) or not x or not all(isinstance(t, Tensor) and t.ndim for t in x.values()):
            got = {str(name): type(t).__name__ for name, t in x.items()} if isinstance(x, Mapping) else type(x).__name__
            raise LayerError(
                f"{self.key}: sample(n, generator) must return a dict of n typical inputs, tensors with leading axis n, such "
                f"as {{'x': torch.randn(n, 8, generator=generator)}}; got {got or 'an empty dict'}."
            )
        return {name: Port(tuple(t.shape[1:]), not t.is_floating_point()) for name, t in x.items()}

    def n_outputs(self) -> int:
        """k, the number of outputs, as ``forward`` gives them; of few neurons where the width is free, since k is of any."""
        self.ports()  # what is wrong with sample() is told first
        x = self.sample(2, torch.Generator().manual_seed(0))
        with torch.no_grad():
            if self.width > 2:
                with contextlib.suppress(Exception):  # a layer may refuse so small a width
                    small = self.resized(2)
                    return small(small.zeros(), x).shape[-1]
            return self(self.zeros(), x).shape[-1]

    def zeros(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        r"""W = 0, a dict of blocks (\*shape, d)."""
        return {name: torch.zeros(*shape, self.width, dtype=dtype, device=device) for name, shape in self.blocks().items()}

    def random(
        self,
        generator: torch.Generator,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> dict[str, Tensor]:
        """W with independent normal entries of standard deviation ``scale``.

        Drawn in float64 on the CPU and then moved, so that one seed gives one W in every dtype and on every device.
        """
        return {
            name: (scale * torch.randn(*shape, self.width, generator=generator, dtype=torch.float64)).to(
                device=device, dtype=dtype
            )
            for name, shape in self.blocks().items()
        }

    def stack(self, W: Weights) -> Tensor:
        """Blocks to (p, d), each row-major, in the order of ``blocks()``."""
        return couplings.stack(W, self.blocks())

    def unstack(self, stacked: Tensor) -> dict[str, Tensor]:
        """(p, d) to blocks."""
        return couplings.unstack(stacked, self.blocks())

    def resized(self, width: int) -> Layer:
        """The same layer with another number of neurons; itself where its width is fixed."""
        free = any(f.name == "width" and f.init for f in dataclasses.fields(self))  # type: ignore[arg-type]
        return dataclasses.replace(self, width=width) if free else self  # type: ignore[type-var]

    def __call__(self, W: Weights | Tensor, x: Inputs) -> Tensor:
        r"""f(W) at n inputs.

        Args:
            W: blocks (\*shape, d) or stacked (p, d); each may have one leading replica axis R.
            x: inputs with leading axis n; floating ones are cast to the dtype of W, integer ones to int64.

        Returns:
            (n, k), or (R, n, k).

        Raises:
            InvalidInput: W or x have the wrong names, shapes or kinds of number, or an integer input picks what is not there.
            LayerError: the layer returned something that is no (n, k) tensor.
        """
        W, replicas = given_weights(self, W)
        n = check_layer_inputs(self, x)
        x = cast(x, next(iter(W.values())).dtype)
        try:
            if replicas is None or self.batched:
                out = self.forward(dict(W), x)  # what forward does to a dict of its own reaches nobody else
            else:
                names = tuple(W)
                out = mapped(
                    self,
                    lambda *parts: self.forward(dict(zip(names, parts, strict=True)), dict(x)),
                    [W[name] for name in names],
                    0,
                )
        except (IndexError, RuntimeError) as error:
            integers = [name for name, t in x.items() if not t.is_floating_point()]
            # on another axis than the first torch says it by a RuntimeError
            if not integers or not (isinstance(error, IndexError) or "out of DATA bounds" in str(error)):
                raise
            raise InvalidInput(
                f"{self.key}: an index in {' or '.join(integers)} is out of range for these sizes ({error})."
            ) from error
        expected = (n,) if replicas is None else (replicas, n)
        if not isinstance(out, Tensor) or out.shape[:-1] != expected:
            what = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise LayerError(f"{self.key}: forward must return (n, k), here ({', '.join(map(str, expected))}, k); got {what}.")
        return out


def _bound(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps ``structure`` and ``cross`` so that their result knows the blocks of its layer."""

    @functools.wraps(method)
    def wrapped(self: Layer, x: Inputs) -> Structure:
        check_layer_inputs(self, x)
        result = method(self, cast(x, None))
        if not isinstance(result, Structure):
            raise LayerError(
                f"{self.key}: {name}(x) must return nqf.quadratic(…) or nqf.dense(…), got {type(result).__name__}."
            )
        return result.bind(self.blocks())

    return wrapped


def given_weights(layer: Layer, W: Weights | Tensor) -> tuple[Weights, int | None]:
    """Weights as they were given, stacked or not, as a dict of blocks, and their number of replicas (None: no such axis).

    Raises:
        InvalidInput: they do not fit the layer.
    """
    blocks = layer.blocks()
    if isinstance(W, Tensor):
        if W.shape[-2:-1] != (layer.n_params,):
            raise InvalidInput(f"{layer.key}: a stacked W is (p, d) with p = {layer.n_params}, got {tuple(W.shape)}.")
        W = couplings.unstack(W, blocks)
    return W, check_weights(layer.key, blocks, W)


def check_layer_inputs(layer: Layer, x: Inputs) -> int:
    """The number of samples of inputs that fit a layer's ports.

    Raises:
        InvalidInput: they do not.
    """
    ports: Any = None
    with contextlib.suppress(RuntimeError):  # inside a vmap, where torch draws nothing, a new layer cannot be asked
        ports = layer.ports()
    return check_inputs(layer.key, x, ports)


_looped: set[type] = set()


def is_looped(layer: Layer) -> bool:
    """Whether vmap refused this layer's class, so that its neurons or replicas are looped over."""
    return type(layer) in _looped


def mapped(layer: Layer, function: Callable[..., Tensor], parts: list[Tensor], axis: int) -> Tensor:
    """Maps over one axis by vmap, or by a loop where vmap refuses (in-place sums, control flow on values, randomness).

    The results are stacked on a new first axis. A refusal is remembered by class, see :func:`is_looped`; an error that the loop
    raises too is the layer's own and goes to the caller.
    """
    if not is_looped(layer):
        try:
            return torch.func.vmap(function, in_dims=axis)(*parts)
        except Exception:  # vmap's refusals have no class of their own
            result = torch.stack([function(*columns) for columns in zip(*(p.unbind(axis) for p in parts), strict=True)])
            _looped.add(type(layer))
            return result
    return torch.stack([function(*columns) for columns in zip(*(p.unbind(axis) for p in parts), strict=True)])


def class_hint(thing: object) -> str:
    """What to say of a class that stands where a layer was expected; "" of anything else."""
    return "; pass an instance, not the class" if isinstance(thing, type) else ""


def declares(layer: Layer, name: str) -> bool:
    """Whether a layer writes an optional method itself: structure, linear, cross, offset, linearise, pullback, unit, …"""
    own = getattr(type(layer), name, None)
    return own is not None and own is not getattr(Layer, name, None)
