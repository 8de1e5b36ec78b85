"""The ways to cut one declared neuron into equal parts that might be units of their own.

A block is cut along one of its axes, as a stack of heads is; or blocks of one shape fall to different parts, as u1, v1 and
u2, v2 do in v1 φ(u1·x) + v2 φ(u2·x); or it belongs to no part. What is most often written comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, permutations
from math import prod

import torch
from torch import Tensor

Blocks = dict[str, tuple[int, ...]]
REST = 4  # how much less likely it is that a block belongs to no part


@dataclass(frozen=True, eq=False)
class Split:
    """One way to cut a neuron into equal parts.

    Attributes:
        parts: how many.
        cuts: what becomes of each block, in words.
        members: index of the parameters of each part, (parts, q), in the same order in each.
        unit: name and shape of the blocks of one part, as they would be declared.
        rest: blocks that belong to no part.
    """

    parts: int
    cuts: tuple[str, ...]
    members: Tensor
    unit: Blocks
    rest: tuple[str, ...] = ()

    def __str__(self) -> str:
        kept = f"; {', '.join(self.rest)} in no part" if self.rest else ""
        return f"{self.parts} parts: {', '.join(self.cuts)}{kept}"


@dataclass(frozen=True)
class _Piece:
    """What becomes of one block, or of several of one shape: the parameters of each part, and how it is told and declared."""

    cost: int
    names: tuple[str, ...]
    index: Tensor | None = field(compare=False)
    said: str
    shape: tuple[int, ...]
    turned: bool = False


def splits(blocks: Blocks, parts: int, whole: bool = True) -> Iterator[Split]:
    """Every way to cut a neuron into a number of parts, the likeliest first.

    Args:
        blocks: name and shape of each block of one neuron.
        parts: how many parts.
        whole: whether every parameter belongs to a part; else at least one block belongs to none.

    Example:
        >>> [str(split) for split in splits({"u": (2, 3), "v": (2,)}, 2)]
        ['2 parts: u along axis 0, v along axis 0']
        >>> [split.cuts for split in splits({"u1": (3,), "u2": (3,), "v": (2,)}, 2)]
        [('u1 | u2', 'v along axis 0'), ('u2 | u1', 'v along axis 0')]
    """
    indices = _indices(blocks)
    dearest = sum(max(REST, 2 + len(shape)) for shape in blocks.values())
    for cost in range(dearest + 1):
        for chosen in _choices(tuple(blocks), indices, parts, cost, whole):
            used = [piece for piece in chosen if piece.index is not None]
            if not used or (not whole and len(used) == len(chosen)):
                continue
            if used[0].turned and all(len(piece.names) > 1 for piece in used):
                continue  # with no cut block to say which part is which, the first blocks shared out do
            yield _split(parts, chosen)


def primes(blocks: Blocks) -> list[int]:
    """The prime numbers of parts that a cut of some axis, or a sharing out of blocks of one shape, may have."""
    shapes = list(blocks.values())
    sizes = {size for shape in shapes for size in shape} | {shapes.count(shape) for shape in shapes}
    largest = max(sizes, default=1)
    return [n for n in range(2, largest + 1) if all(n % m for m in range(2, n)) and _possible(blocks, n)]


def counts(blocks: Blocks, above: int) -> list[int]:
    """The numbers of parts above one, largest first, that whole multiples of it may have."""
    shapes = list(blocks.values())
    largest = max({size for shape in shapes for size in shape} | {len(shapes)}, default=1)
    return [n for n in range(largest, above, -1) if n % above == 0 and _possible(blocks, n)]


def _possible(blocks: Blocks, parts: int) -> bool:
    shapes = list(blocks.values())
    return any(size % parts == 0 for shape in shapes for size in shape) or any(shapes.count(s) >= parts for s in shapes)


def _indices(blocks: Blocks) -> dict[str, Tensor]:
    found, start = {}, 0
    for name, shape in blocks.items():
        found[name] = start + torch.arange(prod(shape)).reshape(shape)
        start += prod(shape)
    return found


def _choices(
    names: tuple[str, ...], indices: dict[str, Tensor], parts: int, cost: int, whole: bool
) -> Iterator[tuple[_Piece, ...]]:
    """Every choice of pieces for these blocks of exactly this cost."""
    if not names:
        if cost == 0:
            yield ()
        return
    name, *others = names
    pieces = [*_alone(name, indices[name], parts), *_shared(name, tuple(others), indices, parts)]
    if not whole:
        pieces.append(_Piece(REST, (name,), None, name, ()))
    for piece in pieces:
        if piece.cost <= cost:
            left = tuple(other for other in others if other not in piece.names)
            for rest in _choices(left, indices, parts, cost - piece.cost, whole):
                yield (piece, *rest)


def _alone(name: str, index: Tensor, parts: int) -> Iterator[_Piece]:
    """A block cut along an axis of size outer · parts · inner: one after another (outer 1), in turn (inner 1), or in runs."""
    for axis, size in enumerate(index.shape):
        if size % parts:
            continue
        inner_outer = size // parts
        for outer in sorted(
            (n for n in range(1, inner_outer + 1) if inner_outer % n == 0), key=lambda n: _oddity(n, inner_outer)
        ):
            cut = index.movedim(axis, 0).unflatten(0, (outer, parts, inner_outer // outer)).movedim(1, 0)
            said = f"{name} along axis {axis}"
            if outer > 1:
                said += " (interleaved)" if outer == inner_outer else f" (in {outer} runs of {size // outer})"
            shape = list(index.shape)
            shape[axis] = inner_outer
            if inner_outer == 1 and len(shape) > 1:
                del shape[axis]
            yield _Piece(_oddity(outer, inner_outer) + axis, (name,), cut.reshape(parts, -1), said, tuple(shape))


def _oddity(outer: int, most: int) -> int:
    return 0 if outer == 1 else 1 if outer == most else 2


def _shared(name: str, others: tuple[str, ...], indices: dict[str, Tensor], parts: int) -> Iterator[_Piece]:
    """A block and later ones of its shape, one to each part."""
    alike = [other for other in others if indices[other].shape == indices[name].shape]
    for distance, chosen in enumerate(combinations(alike, parts - 1)):
        group = (name, *chosen)
        for turn, order in enumerate(permutations(group)):
            index = torch.stack([indices[part].reshape(-1) for part in order])
            shape = tuple(indices[name].shape)
            yield _Piece(min(distance, 1) + min(turn, 1), group, index, " | ".join(order), shape, turn > 0)


def _split(parts: int, chosen: tuple[_Piece, ...]) -> Split:
    used = [piece for piece in chosen if piece.index is not None]
    unit: Blocks = {}
    for piece in used:
        name = next(iter(piece.names))
        stem = name.rstrip("0123456789").rstrip("_")
        shared = len(piece.names) > 1 and stem and stem not in unit
        unit[stem if shared else name] = piece.shape
    members = torch.cat([piece.index for piece in used if piece.index is not None], 1)
    rest = tuple(name for piece in chosen if piece.index is None for name in piece.names)
    return Split(parts, tuple(piece.said for piece in used), members, unit, rest)
