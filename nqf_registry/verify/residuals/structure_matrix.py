"""How far a declared expansion is from the measured one, part by part."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gap:
    """The distance between a declared and a measured tensor.

    Attributes:
        residual: max over samples and outputs of max |declared − measured| / max |measured| of that sample and output; of
            max |declared| where the measured ones are all zero, so that it is 1 there.
        place: index of the worst entry, (sample, output, …).
        declared: the declared number there.
        measured: the measured number there.
        relative: whether something other than zero was measured that the residual is relative to.
    """

    residual: float
    place: tuple[int, ...]
    declared: float
    measured: float
    relative: bool = True


def compare(declared: Tensor, measured: Tensor, size: Tensor) -> Gap:
    """Compares tensors (n, k, …) sample by sample and output by output, so that an error in one is not hidden by the others.

    Args:
        declared: what the layer says.
        measured: what was measured.
        size: the natural size of such a number by sample and output, (n, k); it stands in where the measured ones are all zero.

    Example:
        >>> measured = torch.eye(2).expand(1, 1, 2, 2)
        >>> gap = compare(1.01 * measured, measured, torch.ones(1, 1))
        >>> round(gap.residual, 4), gap.place
        (0.01, (0, 0, 0, 0))
    """
    n, k = measured.shape[:2]
    flat = measured.abs().reshape(n, k, -1).amax(-1)
    measurable = torch.maximum(flat, 1e-3 * flat.max().expand(n, k))
    zero = measurable < 1e-3 * size
    said = declared.expand_as(measured).abs().reshape(n, k, -1).amax(-1).nan_to_num(0.0, posinf=0.0)
    denominator = torch.where(zero, said, measurable).maximum(1e-3 * size).clamp_min(1e-300)
    gaps = (declared - measured).abs() / denominator.reshape(n, k, *[1] * (measured.ndim - 2))
    worst = int(gaps.nan_to_num(torch.inf).argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), gaps.shape))
    relative = not bool(zero[place[:2]])
    return Gap(float(gaps[place].nan_to_num(torch.inf)), place, float(declared[place]), float(measured[place]), relative)
