"""Whether a declared neuron is a stack of smaller units that are interchangeable across all neurons.

A neuron splits if every block has an axis that cuts into m parts, such that exchanging part a of one neuron with part b of
the same or of another neuron, in all blocks at once, leaves f alone. A symmetry inside one neuron only, like a ↔ b in
(a·x)(b·x), does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product
from math import prod

import torch
from torch import Tensor

from nqf_registry.layer import Layer
from nqf_registry.verify.residuals.permutation_symmetry import changes
from nqf_registry.verify.setting import Setting

PRIMES = (2, 3, 5, 7)
MOST = 160


@dataclass(frozen=True)
class Split:
    """One way to cut a neuron into equal parts.

    Attributes:
        parts: how many.
        cuts: by block, the axis and how the parts lie on it: "blocks" (one after another) or "interleaved".
        members: index of the parameters of each part, (parts, p / parts), in the same order in each.
    """

    parts: int
    cuts: tuple[tuple[str, int, str], ...]
    members: Tensor

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} along axis {axis}" + (" (interleaved)" if how == "interleaved" else "") for name, axis, how in self.cuts
        )
        return f"{self.parts} parts: {where}"


def splits(layer: Layer) -> Iterator[Split]:
    """Every way to cut all blocks of a neuron into the same prime number of parts."""
    blocks = layer.blocks()
    for parts in PRIMES:
        options = []
        for name, shape in blocks.items():
            here = [(name, axis, how) for axis, size in enumerate(shape) if size % parts == 0 for how in _ways(size, parts)]
            options.append(here)
        for cuts in product(*options):
            yield Split(parts, cuts, _members(blocks, parts, cuts))


def count_splits(layer: Layer) -> int:
    """How many ways there are to try; 0 where a neuron cannot be split at all."""
    return sum(1 for _ in islice(splits(layer), MOST))


def _ways(size: int, parts: int) -> tuple[str, ...]:
    return ("blocks",) if size == parts else ("blocks", "interleaved")


def _members(blocks: dict[str, tuple[int, ...]], parts: int, cuts: tuple[tuple[str, int, str], ...]) -> Tensor:
    pieces, start = [], 0
    for (_, axis, how), shape in zip(cuts, blocks.values(), strict=True):
        index = start + torch.arange(prod(shape)).reshape(shape)
        start += prod(shape)
        index = index.movedim(axis, 0)
        cut = index.unflatten(0, (parts, -1)) if how == "blocks" else index.unflatten(0, (-1, parts)).movedim(1, 0)
        pieces.append(cut.reshape(parts, -1))
    return torch.cat(pieces, 1)


def minimality(setting: Setting, W: Tensor, fresh: Tensor) -> tuple[float, Split | None]:
    """The smallest relative change of f under the exchanges of any split: near zero where the neuron is a stack of units.

    Args:
        setting: the layer and its inputs, of width two or more.
        W: weights (p, d).
        fresh: other weights (p, d), to see that f depends on what is exchanged.

    Returns:
        The smallest over the splits of the largest change over its exchanges, and that split; (inf, None) where none can be
        judged.
    """
    best: tuple[float, Split | None] = (float("inf"), None)
    for split in islice(splits(setting.layer), MOST):
        first, second = split.members[0], split.members[1]
        moved = []
        for (part_a, i), (part_b, j) in (((first, 0), (second, 1)), ((first, 0), (second, 0)), ((first, 0), (first, 1))):
            swapped = W.clone()
            swapped[part_a, i], swapped[part_b, j] = W[part_b, j], W[part_a, i]
            moved.append(swapped)
        for part in (first, second):
            touched = W.clone()
            touched[part, 0] = fresh[part, 0]
            moved.append(touched)
        gaps = changes(setting, W, torch.stack(moved))
        if float(gaps[3:].min()) < 1e-6:  # f does not depend on a part at these inputs: exchanging it says nothing
            continue
        worst = float(gaps[:3].max())
        if worst < best[0]:
            best = (worst, split)
    return best
