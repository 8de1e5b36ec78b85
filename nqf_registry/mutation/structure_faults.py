"""Faults of what a layer declares of its expansion: A(x), g(x), B(x) and f(0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from nqf_registry.couplings import Coupling, layout
from nqf_registry.layer import Inputs, Layer, declares
from nqf_registry.mutation.mutants import Mutant, altered
from nqf_registry.structure import Structure, dense

EXPECTED = ("structure-matrix", "remainder-order")
SAMPLES = 4
SMALL = 0.01

Fault = Callable[[Layer, Structure, Inputs], Structure]


def structure_faults(layer: Layer) -> list[Mutant]:
    """The mutants of each part that a layer declares; none of what it leaves out."""
    x = layer.sample(SAMPLES, torch.Generator().manual_seed(0))
    found = _of_structure(layer, x) if declares(layer, "structure") else []
    if declares(layer, "offset"):
        wrong = altered(layer, offset=_offset(type(layer)))
        found.append(Mutant("offset wrong", wrong, EXPECTED, description="f(0) + 0.1 declared"))
    return found + _general(layer, x)


def _of_structure(layer: Layer, x: Inputs) -> list[Mutant]:
    found = [
        Mutant(f"structure × {factor:g}", _with(layer, _scaled(factor)), EXPECTED, description=f"{factor:g} A")
        for factor in (1.01, 2.0, -1.0)
    ]
    own: Any = layer
    A = own.structure(x).dense()
    optional: list[tuple[str, str, Fault | None]] = [
        ("coefficient transposed", "axes of a coefficient exchanged", _transposed(own.structure(x))),
        (
            "Kronecker factors swapped",
            "blocks stacked column by column",
            _column_major if any(_axes(shape) > 1 for shape in layer.blocks().values()) else None,
        ),
        ("block dropped", "no coupling between two coupled blocks", _dropped(layer, A)),
        ("blocks exchanged", "two blocks of one size in each other's place", _exchanged(layer)),
        ("error in one output", "A of the last output × 1.01", _in_one_output if A.shape[1] > 1 else None),
        ("error in one sample", "A of the last sample × 1.01", _in_one_sample),
        ("samples in another order", "each sample has the A of the one before", _rolled),
        ("error in one entry", "the largest entry × 1.01", _in_one_entry),
        ("matrix not symmetric", "the same form in one triangle", _skewed),
        ("coupling too many", "one entry more, a hundredth of the largest", _extra),
        ("error at one width", "A × 1.01 at width 3", _at_one_width if layer.resized(3).width == 3 else None),
        ("error where a sample is alone", "A × 1.01 where n = 1", _alone),
        ("inputs clamped", "A of inputs cut off at 1", _clamped(layer)),
    ]
    return found + [
        Mutant(kind, _with(layer, fault), EXPECTED, description=what) for kind, what, fault in optional if fault is not None
    ]


def _with(layer: Layer, fault: Fault) -> Layer:
    original: Any = type(layer).structure  # type: ignore[attr-defined]

    def structure(self: Layer, x: Inputs) -> Structure:
        return fault(self, original(self, x), x)

    return altered(layer, structure=structure)


def _scaled(factor: float) -> Fault:
    return lambda layer, structure, x: factor * structure


def _changed(change: Callable[[Tensor, Layer], Tensor]) -> Fault:
    """A fault written on the dense A, (n, k, p, p)."""
    return lambda layer, structure, x: dense(change(structure.dense().clone(), layer))


def _axes(shape: tuple[int, ...]) -> int:
    return sum(size > 1 for size in shape)


def _transposed(structure: Structure) -> Fault | None:
    """The coefficient with its axes exchanged: one of two equal axes transposed, or two vectors in each other's place."""
    term = structure.terms[0]
    if not isinstance(term, Coupling):
        return None
    for word, c in zip(term.letters[1:-1], term.coefficients, strict=True):
        inner = [i for i, a in enumerate(word) if a not in term.output]
        if len(inner) >= 2 and c.shape[inner[0]] == c.shape[inner[1]]:
            return lambda layer, s, x: Structure((_with_axes(s.terms[0], word, inner), *s.terms[1:]))
    vectors = [i for i, c in enumerate(term.coefficients) if c.ndim == 2]
    if len(vectors) >= 2 and term.coefficients[vectors[0]].shape == term.coefficients[vectors[1]].shape:
        return lambda layer, s, x: Structure((_with_places(s.terms[0], vectors), *s.terms[1:]))
    return None


def _with_axes(term: Any, word: str, inner: list[int]) -> Coupling:
    changed = list(term.coefficients)
    place = term.letters[1:-1].index(word)
    changed[place] = changed[place].transpose(inner[0], inner[1])
    return replace(term, coefficients=tuple(changed))


def _with_places(term: Any, places: list[int]) -> Coupling:
    changed = list(term.coefficients)
    changed[places[0]], changed[places[1]] = changed[places[1]], changed[places[0]]
    return replace(term, coefficients=tuple(changed))


def _column_major(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    """A with every block stacked column by column, so that x ⊗ I stands where I ⊗ x belongs."""
    index, start = [], 0
    for shape in layer.blocks().values():
        size = prod(shape)
        own = torch.arange(size).reshape(shape)
        index.append(start + own.permute(*reversed(range(own.ndim))).reshape(-1))
        start += size
    order = torch.cat(index)
    return dense(structure.dense()[..., order, :][..., order])


def _dropped(layer: Layer, A: Tensor) -> Fault:
    """Without the couplings between the first two blocks that are coupled."""
    slices = layout(layer.blocks())
    pairs = [(a, b) for a in slices for b in slices if bool(A[..., slices[a], slices[b]].any())]
    first, second = (slices[name] for name in pairs[0]) if pairs else (slice(0), slice(0))

    def change(dense_A: Tensor, _: Layer) -> Tensor:
        dense_A[..., first, second] = 0
        dense_A[..., second, first] = 0
        return dense_A

    return _changed(change)


def _exchanged(layer: Layer) -> Fault | None:
    """The first two blocks of one size in each other's place."""
    blocks = layer.blocks()
    equal = [(a, b) for a in blocks for b in blocks if a < b and prod(blocks[a]) == prod(blocks[b])]
    coupled = [(a, b) for a, b in equal if prod(blocks[a]) > 1]
    if not coupled:
        return None
    slices = layout(blocks)
    first, second = (slices[name] for name in coupled[0])
    order = list(range(sum(prod(shape) for shape in blocks.values())))
    order[first], order[second] = order[second], order[first]
    return _changed(lambda A, _: A[..., order, :][..., order])


def _in_one_output(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    A = structure.dense().clone()
    A[:, -1] *= 1 + SMALL
    return dense(A)


def _in_one_sample(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    A = structure.dense().clone()
    A[-1] *= 1 + SMALL
    return dense(A)


def _rolled(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    return dense(structure.dense().roll(1, 0))


def _in_one_entry(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    """The largest entry, and its mirror image."""
    A = structure.dense().clone()
    i, j = divmod(int(A.abs().amax((0, 1)).argmax()), A.shape[-1])
    A[..., i, j] *= 1 + SMALL
    A[..., j, i] = A[..., i, j]
    return dense(A)


def _skewed(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    """The same quadratic form, written in the upper triangle alone."""
    A = structure.dense()
    return dense(2 * A.triu(1) + torch.diag_embed(A.diagonal(dim1=-2, dim2=-1)) + 1e-3 * (A.triu() - A.tril()))


def _extra(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    """The first parameter of a neuron coupled to itself, a hundredth as strongly as the largest coupling."""
    A = structure.dense().clone()
    A[..., 0, 0] += SMALL * A.abs().amax((-1, -2)).clamp_min(torch.finfo(A.dtype).tiny)
    return dense(A)


def _at_one_width(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    return (1 + SMALL) * structure if layer.width == 3 else structure


def _alone(layer: Layer, structure: Structure, x: Inputs) -> Structure:
    return (1 + SMALL) * structure if next(iter(x.values())).shape[0] == 1 else structure


def _clamped(layer: Layer) -> Fault | None:
    """A of inputs cut off at 1, which is right for small ones."""
    if all(port.integer for port in layer.ports().values()):
        return None
    original: Any = type(layer).structure  # type: ignore[attr-defined]
    return lambda own, structure, x: original(own, {k: t.clamp(-1, 1) if t.is_floating_point() else t for k, t in x.items()})


def _general(layer: Layer, x: Inputs) -> list[Mutant]:
    """The mutants of g and B, where a layer declares some that are not zero."""
    own: Any = layer
    found = []
    if declares(layer, "linear") and any(bool(part.any()) for part in own.linear(x).values()):
        g = type(layer).linear  # type: ignore[attr-defined]
        scaled = altered(layer, linear=lambda self, x: {name: (1 + SMALL) * part for name, part in g(self, x).items()})
        found.append(Mutant("linear part × 1.01", scaled, EXPECTED, description="1.01 g"))
        found.append(
            Mutant("linear part dropped", altered(layer, linear=lambda self, x: {}), EXPECTED, description="g = 0 declared")
        )
    if declares(layer, "cross") and bool(own.cross(x).dense().any()):
        B = type(layer).cross  # type: ignore[attr-defined]
        for factor in (1 + SMALL, 0.0):
            kind = "cross part × 1.01" if factor else "cross part dropped"
            wrong = altered(layer, cross=lambda self, x, factor=factor: factor * B(self, x))
            found.append(Mutant(kind, wrong, EXPECTED, description=f"{factor:g} B"))
    return found


def _offset(original: Any) -> Callable[[Layer, Inputs], Any]:
    return lambda self, x: original.offset(self, x) + 0.1
