"""Where a declared tensor differs from the measured one, in words: by one factor, transposed, in one sample or output only."""

from __future__ import annotations

import torch
from torch import Tensor

SAME = 1e-6  # how closely a ratio must be the same everywhere to be called one factor


def pattern(declared: Tensor, measured: Tensor, size: Tensor, tolerance: float) -> str:
    """One sentence on the pattern of an error, "" where there is none to tell.

    Args:
        declared: (n, k, …), with one axis of parameters or two.
        measured: the same shape.
        size: what errors are measured against, (n, k).
        tolerance: of errors relative to it.

    >>> measured = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    >>> pattern(3 * measured, measured, torch.ones(2, 1), 1e-9)
    'Every entry is 3 times what it should be: look for one factor.'
    """
    indices = tuple(range(2, declared.ndim))
    wide = size.reshape(*size.shape, *[1] * len(indices))
    bad = ~((declared - measured).abs() <= tolerance * wide)
    if not bad.any() or not declared.isfinite().all():
        return ""
    if not indices:
        return _only(bad, ("sample", "output"))
    if factor := _factor(declared, measured, wide * tolerance):
        return f"Every entry is {factor:.4g} times what it should be: look for one factor."
    if len(indices) == 2 and not bool(((declared.mT - measured).abs() > tolerance * wide).any()):
        return "It is the transpose of what it should be: look at the order of the two neurons' indices."
    return _only(bad.flatten(2).any(-1), ("sample", "output")) or _few(bad.flatten(2).any(0).any(0), declared.shape[2:])


def _factor(declared: Tensor, measured: Tensor, rounding: Tensor) -> float:
    """The one ratio of all entries, 0 where there is none."""
    there = (declared.abs() > rounding) | (measured.abs() > rounding)
    if not bool((measured[there] != 0).all()):
        return 0.0
    ratios = declared[there] / measured[there]
    return float(ratios[0]) if float((ratios - ratios[0]).abs().max()) <= SAME * float(ratios[0].abs()) else 0.0


def _only(bad: Tensor, names: tuple[str, str]) -> str:
    """Whether an error (n, k) is in one sample or one output only."""
    for axis, name in enumerate(names):
        where = bad.any(1 - axis).nonzero().flatten().tolist()
        if len(where) == 1 and bad.shape[axis] > 1:
            return f"Only {name} {where[0]} is off: look at what is told apart by {name}."
    return ""


def _few(bad: Tensor, shape: torch.Size) -> str:
    """How many entries are off, where most are right."""
    count, total = int(bad.sum()), bad.numel()
    if 2 * count >= total:
        return ""
    return f"{count} of {total} entries {'are' if count != 1 else 'is'} off, the others agree."
