"""The smallest set of order parameters on which the training of a quadratic form closes, read off the letters of its couplings.

A sees W only through sums over the neurons, so the neurons may be rotated. Three more facts make the set smaller: a block that
no coupling reaches is *inert*; blocks that no coupling links form *components*, each with a rotation of its own; and an axis
that a coupling repeats in both blocks is a Kronecker identity. Where no coefficient carries its letter, the axis is *folded*
into the neurons (attention's V and v: M̄ = Σ_a W_a W_aᵀ). Where one does, it is *batched*: each index has its own M (diagonal
linear networks).

Source: arXiv 2608.13335, Theorem 2 and appendix B.3, B.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeVar

from nqf_registry.couplings import Blocks, Coupling, Matrix, Rows
from nqf_registry.structure import Structure

Node = TypeVar("Node")
Axis = tuple[str, int]  # a block and the position of one of its axes


@dataclass(frozen=True)
class Component:
    """Blocks that couplings link, directly or through each other.

    Attributes:
        blocks: their names.
        folded: by block, the axes that are folded into the neurons, in one order for all blocks.
        batched: by block, the axes of which each index has its own order parameters, likewise.
    """

    blocks: tuple[str, ...]
    folded: Mapping[str, tuple[int, ...]]
    batched: Mapping[str, tuple[int, ...]]

    def plain(self, name: str, rank: int) -> tuple[int, ...]:
        """The axes of a block that are neither folded nor batched."""
        return tuple(a for a in range(rank) if a not in self.folded[name] and a not in self.batched[name])


def components(
    structures: Sequence[Structure], linear: Mapping[str, object], blocks: Blocks, general: bool
) -> tuple[list[Component], tuple[str, ...]]:
    """The components of a quadratic form and its inert blocks.

    Args:
        structures: Ā, and B where there is one.
        linear: g by block.
        blocks: shapes of one neuron's blocks.
        general: whether μ enters, as it does without ZGZ: then nothing is folded, because μ is no sum over an axis.
    """
    terms = [term for structure in structures for term in structure.terms]
    if any(isinstance(term, Matrix) for term in terms):  # it may couple anything to anything
        none = dict.fromkeys(blocks, ())
        return [Component(tuple(blocks), none, none)], ()
    couplings = [term for term in terms if isinstance(term, Coupling)]
    links = [(term.names[0], term.names[1]) for term in couplings] + [(name, name) for name in linear]
    groups = _connected(links)
    reached = {name for group in groups for name in group}
    found = []
    for group in groups:
        names = tuple(name for name in blocks if name in group)
        inside = [term for term in couplings if term.names[0] in group]
        folded, batched = _repeated_axes(inside, names, blocks, fold=not general)
        found.append(Component(names, folded, batched))
    found.sort(key=lambda component: list(blocks).index(component.blocks[0]))
    return found, tuple(name for name in blocks if name not in reached)


def reduced(structure: Structure, parts: Sequence[Component], blocks: Blocks) -> Structure:
    """The same structure on blocks whose folded axes have become neurons."""
    folded = {name: part.folded[name] for part in parts for name in part.blocks}
    terms = []
    for term in structure.terms:
        if isinstance(term, Coupling):
            letters = list(term.letters)
            for side, name in ((0, term.names[0]), (-1, term.names[1])):
                letters[side] = "".join(a for i, a in enumerate(letters[side]) if i not in folded[name])
            terms.append(replace(term, letters=tuple(letters)))
        else:
            terms.append(term)
    # Unbound where it can be: components have widths of their own, and weights of many widths fit no check.
    return Structure(tuple(terms), blocks if any(isinstance(term, Matrix) for term in terms) else None)


def _connected(links: Iterable[tuple[Node, Node]]) -> list[set[Node]]:
    """What links join, directly or through each other."""
    groups: list[set[Node]] = []
    for a, b in links:
        touched = [group for group in groups if a in group or b in group]
        groups = [group for group in groups if group not in touched] + [{a, b}.union(*touched)]
    return groups


def _repeated_axes(
    terms: Sequence[Coupling], names: Sequence[str], blocks: Blocks, fold: bool
) -> tuple[dict[str, tuple[int, ...]], dict[str, tuple[int, ...]]]:
    """Which axes of a component's blocks are folded and which are batched: those that every term repeats in both its blocks."""
    plain: set[Axis] = set()
    carried: set[Axis] = set()
    links: list[tuple[Axis, Axis]] = []
    for term in terms:
        for here, there, letter in _sides(term):
            if there is None:
                plain.add(here)
                continue
            links.append((here, there))
            if any(letter in word for word in (*term.letters[1:-1], term.output)):
                carried.add(here)
    folded: dict[str, list[int]] = {name: [] for name in names}
    batched: dict[str, list[int]] = {name: [] for name in names}
    for group in sorted(_connected(links), key=sorted):
        one_each = sorted(name for name, _ in group) == sorted(names)  # an axis that a block lacks is no axis of its M
        if not one_each or group & plain:
            continue
        into = batched if group & carried else folded if fold else None
        if into is None:
            continue
        for name, axis in group:
            into[name].append(axis)
    return {n: tuple(axes) for n, axes in folded.items()}, {n: tuple(axes) for n, axes in batched.items()}


def _sides(term: Coupling) -> Iterator[tuple[Axis, Axis | None, str]]:
    """Each block axis of a term with the axis of the other side that has its letter, None where there is none."""
    for side in (0, 1):
        which = (term.left, term.right)[side]
        other = term.letters[-(1 - side)]
        for position, letter in enumerate(term.letters[-side]):
            picked = isinstance(which, Rows) and position == 0  # the letter is the sample's, not the axis's
            partner = None if picked or letter not in other else (term.names[1 - side], other.index(letter))
            yield (term.names[side], position), partner, letter


def count(parts: Sequence[Component], blocks: Blocks) -> int:
    """How many numbers the order parameters M of all components hold, μ not counted."""
    total = 0
    for part in parts:
        first = part.blocks[0]
        batch = prod(blocks[first][a] for a in part.batched[first])
        side = sum(prod(blocks[name][a] for a in part.plain(name, len(blocks[name]))) for name in part.blocks)
        total += batch * side * side
    return total
