"""The expansion along rays, for layers whose p × p matrices would not fit the budget.

A matrix that is wrong is wrong along almost every direction, so its quadratic form along a few random rays of one neuron, by
sample and output, tells as much as the matrix. Two nested forward passes give it exactly, and a polynomial fit says whether
they are right.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.verify.jets import jets
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.tolerances import AUTODIFF, DIFFERENCES, MEMORY

RAYS = 4


@dataclass(frozen=True, eq=False)
class Along:
    """f(tR) = f(0) + t slope + t² curvature + O(t³) along rays.

    Attributes:
        rays: directions (q, p, d).
        slope: (q, n, k).
        curvature: half the second derivative, (q, n, k).
        source: "autodiff" or "differences".
        error: relative error that the source allows.
    """

    rays: Tensor
    slope: Tensor
    curvature: Tensor
    source: str
    error: float


def dense_bytes(setting: Setting) -> int:
    """Memory that the dense second derivatives would take while they are measured."""
    n, k = setting.offset.shape
    return 8 * n * k * setting.p * setting.p * 2 * 4


def too_large(setting: Setting) -> bool:
    """Whether the dense second derivatives are over the budget."""
    return dense_bytes(setting) > MEMORY


def measure_along(setting: Setting, rays: Tensor) -> Along:
    """Measures slope and curvature along rays (q, p, d), by autodiff where a fit agrees with it, else by the fit."""
    fitted = jets(setting, setting.zero, rays)
    s = setting.scale
    slope, curvature = fitted.central(1) / s, fitted.central(2) / s**2
    try:
        exact = [_nested(setting, ray) for ray in rays]
        first, second = torch.stack([pair[0] for pair in exact]), torch.stack([pair[1] for pair in exact])
    except Exception:  # a layer may refuse forward mode in any way; the fit remains
        return Along(rays, slope, curvature, "differences", DIFFERENCES)
    gaps = ((first - slope).abs() * s / setting.spread).max(), ((second - curvature).abs() * s**2 / setting.spread).max()
    if max(map(float, gaps)) <= DIFFERENCES:
        return Along(rays, first, second, "autodiff", AUTODIFF)
    return Along(rays, slope, curvature, "differences", DIFFERENCES)


def _nested(setting: Setting, ray: Tensor) -> tuple[Tensor, Tensor]:
    def f(stacked: Tensor) -> Tensor:
        return setting.layer(setting.layer.unstack(stacked), setting.x)

    def first(at: Tensor) -> Any:
        return torch.func.jvp(f, (at,), (ray,))[1]

    with sdpa_kernel(SDPBackend.MATH):
        slope, second = torch.func.jvp(first, (setting.zero,), (ray,))[:2]
    return slope.detach(), second.detach() / 2


def one_neuron_rays(setting: Setting, seed: int) -> Tensor:
    """Random directions (RAYS, p, d) of the first neuron alone."""
    generator = torch.Generator().manual_seed(seed)
    rays = torch.zeros(RAYS, setting.p, setting.d, dtype=torch.float64)
    rays[:, :, 0] = torch.randn(RAYS, setting.p, generator=generator, dtype=torch.float64)
    return rays
