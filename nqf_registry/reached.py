"""Which entries of a neuron's blocks a quadratic form reaches, in words: whole blocks, or slices of packed ones."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import torch
from torch import Tensor

RANGES = 3  # an index set of more ranges than this is counted, not written out


def inert_parts(reached: Mapping[str, Tensor]) -> tuple[str, ...]:
    """The blocks, and the slices of blocks along one axis, of which nothing is reached.

    Args:
        reached: by block, booleans of its shape.

    Returns:
        Names such as ``K``, ``in_proj_weight[0:2]`` or ``u[:, 3]``, an index being along the axis that says most.

    Example:
        >>> import torch
        >>> packed = torch.zeros(3, 2, 4, dtype=torch.bool)
        >>> packed[2] = True
        >>> inert_parts({"qkv": packed, "out": torch.ones(2, dtype=torch.bool), "bias": torch.zeros(2, dtype=torch.bool)})
        ('qkv[0:2]', 'bias')
    """
    return tuple(
        named for name, where in reached.items() for named in ([name] if not bool(where.any()) else _slices(name, where))
    )


def active_ranges(reached: Tensor) -> tuple[tuple[int, int], ...]:
    """By axis, the first and one past the last index at which anything is reached."""
    found = []
    for axis in range(reached.ndim):
        where = _along(reached, axis).nonzero().flatten().tolist()
        found.append((where[0], where[-1] + 1) if where else (0, 0))
    return tuple(found)


def ranges_of(indices: list[int]) -> list[tuple[int, int]]:
    """Ascending numbers as half-open ranges.

    >>> ranges_of([0, 1, 4, 5, 6])
    [(0, 2), (4, 7)]
    """
    breaks = [0, *(i + 1 for i, (a, b) in enumerate(pairwise(indices)) if b != a + 1), len(indices)]
    return [(indices[a], indices[b - 1] + 1) for a, b in pairwise(breaks)] if indices else []


def _along(reached: Tensor, axis: int) -> Tensor:
    """By index along an axis, whether anything is reached."""
    others = [a for a in range(reached.ndim) if a != axis]
    return reached.any(dim=others) if others else reached


def _slices(name: str, reached: Tensor) -> list[str]:
    """The one axis along which the largest part is not reached."""
    zero = [(~_along(reached, axis)).nonzero().flatten().tolist() for axis in range(reached.ndim)]
    shares = [len(indices) / size for indices, size in zip(zero, reached.shape, strict=True)]
    if not any(shares):
        return []
    axis = int(torch.tensor(shares).argmax())
    parts = ranges_of(zero[axis])
    if len(parts) > RANGES:
        return [f"{name}: {len(zero[axis])} of {reached.shape[axis]} along axis {axis}"]
    index = ", ".join(str(a) if b == a + 1 else f"{a}:{b}" for a, b in parts)
    return [f"{name}[{':, ' * axis}{index}]"]
