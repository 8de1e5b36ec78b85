"""``find_neurons``: every set of parameter axes of a module whose joint permutation leaves its outputs unchanged."""

from __future__ import annotations

import string
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.errors import named
from nqf_registry.modules.axes import Dim
from nqf_registry.modules.call import ModuleCall, Output, module_call
from nqf_registry.modules.partition import Partition, declared, orders, permuted
from nqf_registry.modules.tracing import Traced, follow

DECLARE = "If it decides by values what it computes, declare its neurons: nqf.from_module(module, example, neurons={…})."
RANDOM = ("bernoulli", "native_dropout", "rand_like", "randn_like", "rand", "randn", "normal", "uniform", "exponential")
EQUAL = 1e-9  # two evaluations of one number, relative


@dataclass(frozen=True)
class Neurons:
    """One group of interchangeable units.

    Attributes:
        partition: the parameters that make them up.
        residual: the largest relative change of the outputs over the permutations tried.
        inside: how many factors stand before this one on a packed axis; 0 for the outermost of nested groups.
    """

    partition: Partition
    residual: float
    inside: int = 0

    @property
    def width(self) -> int:
        """d, the number of units."""
        return self.partition.width

    def __str__(self) -> str:
        lengths = ", ".join(f"{name} = {size}" for name, size in self.partition.sizes.items())
        return f"{self.width} units ({lengths}): " + "; ".join(f"{n}: {p}" for n, p in self.partition.patterns.items())


@dataclass(frozen=True)
class Found:
    """What a module's parameters can be permuted along.

    Attributes:
        groups: the groups that were tested and found to be interchangeable, the widest part of the module first.
        fixed: by parameter and axis, why it is in no group.
        inert: parameters that do not act on the outputs at this example.
        refuted: what the graph allowed and the numbers refuted, as sentences: an operation is handled wrongly here.
        undecided: what could not be followed, as sentences.
    """

    groups: tuple[Neurons, ...]
    fixed: dict[str, str] = field(default_factory=dict)
    inert: tuple[str, ...] = ()
    refuted: tuple[str, ...] = ()
    undecided: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [str(group) for group in self.groups] or ["no interchangeable units"]
        lines += [f"{name} does not act on the outputs at this example" for name in self.inert]
        if not self.groups:
            lines += [f"  {axis}: {reason}" for axis, reason in self.fixed.items()]
        return "\n".join([*lines, *(f"refuted: {text}" for text in self.refuted), *(f"undecided: {t}" for t in self.undecided)])


def find_neurons(module: nn.Module, example: Any, output: Output = None) -> Found:
    """Proposes every set of parameter axes whose joint permutation leaves f unchanged, each tested.

    The axes are followed through one call of the module, operation by operation; those that never meet an axis of the input or
    the output, or anything that goes by position, are permuted at random weights in float64, by exchanges of neighbours and at
    random. What passes is reported, what does not is said to be refuted.

    Args:
        module: any module; it is not touched.
        example: its inputs with a leading sample axis: a tensor, a tuple, or a dict of keywords.
        output: which of several outputs; see :func:`nqf_registry.from_module`.

    Raises:
        InvalidInput: this is no module, or the example does not fit.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> print(find_neurons(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)), torch.randn(5, 3)))
        8 units (d = 8, a = 3, b = 2): 0.weight: d a -> d a; 0.bias: d -> d; 2.weight: b d -> d b
    """
    call, x = module_call(module, example, output)
    parameters = {name: p.double() if p.is_floating_point() else p for name, p in call.parameters.items()}
    x = {name: t.double() if t.is_floating_point() else t for name, t in x.items()}
    if not parameters:
        return Found((), undecided=("the module has no parameters",))
    drawn = _drawn(parameters)
    try:
        traced = follow(call, drawn, x)
    except Exception as error:  # torch refuses in many ways what depends on values
        return Found((), undecided=(f"the module cannot be traced: {named(error)} {DECLARE}",))
    inert = _inert(call, drawn, x)
    groups, refuted = [], []
    for atom in _atoms(traced):
        patterns, sizes, inside = _patterns(traced, atom)
        patterns = {name: pattern for name, pattern in patterns.items() if name not in inert}
        if not patterns:
            continue
        partition = declared(patterns, drawn, sizes)
        residual = _residual(call, partition, drawn, x)
        if residual <= EQUAL:
            groups.append(Neurons(partition, residual, inside))
        else:
            refuted.append(f"{partition.width} units of {', '.join(patterns)} change the outputs by {residual:.1e}")
    groups.sort(key=lambda group: (group.inside, -len(group.partition.patterns)))
    undecided = tuple(_unknown(name) for name in traced.unknown)
    return Found(tuple(groups), _fixed(traced), inert, tuple(refuted), undecided)


def _unknown(name: str) -> str:
    """What an operation that cannot be followed means."""
    if name.rstrip("_") in RANDOM:
        return f"{name} draws random numbers, so the module is no function of its parameters: call module.eval(), or fix them"
    return f"{name} is not known here: the axes that it touches count as fixed"


def _drawn(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """Random weights, since those of a fresh module may be equal: biases are often zero, scales one."""
    generator = torch.Generator().manual_seed(0)
    found = {}
    for name, p in parameters.items():
        noise = torch.randn(p.shape, generator=generator, dtype=torch.float64)
        size = max(1, p[0].numel()) if p.ndim > 1 else 1
        found[name] = (noise / size**0.5).to(p.device, p.dtype)
    return found


def _atoms(traced: Traced) -> list[int]:
    """The free factors of the parameters, in the order of their first appearance."""
    found: dict[int, None] = {}
    for dims in traced.parameters.values():
        for dim in dims:
            for atom in traced.axes.leaves(dim):
                if not traced.axes.reason(atom):
                    found[atom] = None
    return list(found)


def _patterns(traced: Traced, neuron: int) -> tuple[dict[str, str], dict[str, int], int]:
    """Einops patterns of the parameters that have a factor, the lengths of all factors in them, and how far inside it lies."""
    letters = (letter for letter in string.ascii_lowercase if letter != "d")
    names: dict[Any, str] = {neuron: "d"}
    patterns, sizes, inside = {}, {"d": traced.axes.size((neuron,))}, 0
    for name, dims in traced.parameters.items():
        leaves = [traced.axes.leaves(dim) for dim in dims]
        if not any(neuron in factors for factors in leaves):
            continue
        left, rest, used = [], [], False
        for axis, factors in enumerate(leaves):
            written = []
            for place, factor in enumerate(factors or ((name, axis),)):
                if factor == neuron and not used:
                    used, inside = True, max(inside, sum(not traced.axes.reason(f) for f in factors[:place]))
                    written.append("d")
                    continue
                letter = _letter(names, (name, axis, place) if factor == neuron else factor, letters)
                sizes[letter] = traced.axes.size((factor,)) if isinstance(factor, int) else 1
                written.append(letter)
                rest.append(letter)
            left.append(written[0] if len(written) == 1 else f"({' '.join(written)})")
        patterns[name] = f"{' '.join(left)} -> {' '.join(['d', *rest])}"
    return patterns, sizes, inside


def _letter(names: dict[Any, str], factor: Any, letters: Any) -> str:
    if factor not in names:
        names[factor] = next(letters)
    return names[factor]


def _fixed(traced: Traced) -> dict[str, str]:
    """By axis of a parameter, why no factor of it is free."""
    found = {}
    for name, dims in traced.parameters.items():
        for axis, dim in enumerate(dims):
            factors: Dim = traced.axes.leaves(dim)
            reasons = [traced.axes.reason(factor) for factor in factors]
            if factors and all(reasons):
                found[f"{name}, axis {axis}"] = reasons[0]
    return found


def _inert(call: ModuleCall, parameters: dict[str, Tensor], x: dict[str, Tensor]) -> tuple[str, ...]:
    """The parameters that can be anything: permutations of them would prove nothing."""
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        value = call(parameters, x)
        return tuple(
            name
            for name, p in parameters.items()
            if p.is_floating_point() and torch.equal(call({**parameters, name: 1.5 * p + 0.1}, x), value)
        )


def _residual(call: ModuleCall, partition: Partition, parameters: dict[str, Tensor], x: dict[str, Tensor]) -> float:
    """The largest relative change of the outputs over permutations of the units."""
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        value = call(parameters, x)
        size = float(value.abs().max())
        gaps = [
            float((call(permuted(partition, parameters, order), x) - value).abs().max()) for order in orders(partition.width)
        ]
    return max(gaps) / size if size else max(gaps)
