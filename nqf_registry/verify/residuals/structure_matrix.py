"""How far a declared expansion is from the measured one, part by part."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Gap:
    """The distance between a declared and a measured tensor.

    Attributes:
        residual: max over samples and outputs of max |declared − measured| / max |measured| of that sample and output.
        place: index of the worst entry, (sample, output, …).
        declared: the declared number there.
        measured: the measured number there.
    """

    residual: float
    place: tuple[int, ...]
    declared: float
    measured: float


def compare(declared: Tensor, measured: Tensor, size: Tensor) -> Gap:
    """Compares tensors (n, k, …) sample by sample and output by output, so that an error in one is not hidden by the others.

    Args:
        declared: what the layer says.
        measured: what was measured.
        size: the natural size of such a number by sample and output, (n, k); it stands in where the measured ones are all zero.
    """
    n, k = measured.shape[:2]
    flat = measured.abs().reshape(n, k, -1).amax(-1)
    denominator = torch.maximum(flat, 1e-3 * flat.max().expand(n, k)).maximum(1e-3 * size).clamp_min(1e-300)
    gaps = (declared - measured).abs() / denominator.reshape(n, k, *[1] * (measured.ndim - 2))
    worst = int(gaps.nan_to_num(torch.inf).argmax())
    place = tuple(int(i) for i in torch.unravel_index(torch.tensor(worst), gaps.shape))
    return Gap(float(gaps[place].nan_to_num(torch.inf)), place, float(declared[place]), float(measured[place]))
