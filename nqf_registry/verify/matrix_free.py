"""The expansion along rays, for layers whose p × p matrices would not fit the budget.

A matrix that is wrong is wrong along almost every direction, so its quadratic form along a few random rays, by sample and
output, tells as much as the matrix: along rays of one neuron that of Ā, along rays of two what B adds. Two nested forward
passes give it exactly, and polynomial fits say whether they are right.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.directional import fit, slope_and_curvature
from nqf_registry.errors import InvalidInput
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.tolerances import AUTODIFF, DIFFERENCES, MEMORY

RAYS = 4
PAIRS = 16
FEW = 8  # pairs, where a call is that of a larger layer
FITTED = 1e-8  # what a fit of the second order leaves, see nqf_registry.directional


@dataclass(frozen=True, eq=False)
class Along:
    """f(tR) = f(0) + t slope + t² curvature + O(t³) along rays R.

    Attributes:
        rays: directions (q, p, d).
        slope: (q, n, k).
        curvature: half the second derivative, (q, n, k).
    """

    rays: Tensor
    slope: Tensor
    curvature: Tensor


@dataclass(frozen=True, eq=False)
class MatrixFree:
    """A layer's expansion at W = 0 as measured along any rays.

    Attributes:
        setting: the layer and its inputs.
        source: "autodiff" or "differences".
        error: relative error that the source allows.
        disagreement: relative distance between the two along random rays; nan where autodiff refused or gave nan.
    """

    setting: Setting
    source: str
    error: float
    disagreement: float

    def along(self, rays: Tensor) -> Along:
        """Slope and curvature along rays (q, p, d)."""
        return _exact(self.setting, rays) if self.source == "autodiff" else _fitted(self.setting, rays)

    def neuron_by_neuron(self, ray: Tensor) -> Tensor:
        """Σ_i w_iᵀ Ā w_i at weights (p, d), each neuron alone: (n, k)."""
        alone = torch.diag_embed(ray).movedim(-2, 0)  # (d, p, d)
        return self.along(alone).curvature.sum(0)

    def norms(self, seed: int) -> dict[str, float]:
        """Estimates of the norms of g, Ā, B and A = Ā − B, the largest over samples and outputs.

        For normal u and v the mean square of g·u is |g|², and that of uᵀ Ā v and of uᵀ B v are |Ā|² and |B|².
        """
        p, d = self.setting.p, self.setting.d
        generator = torch.Generator().manual_seed(seed)
        pairs = PAIRS if self.setting.layer.footprint <= p * d else FEW
        u, v = torch.randn(2, pairs, p, generator=generator, dtype=torch.float64)
        rays = torch.zeros(5, pairs, p, d, dtype=torch.float64)
        rays[0, :, :, 0], rays[1, :, :, 0], rays[2, :, :, 0] = u, v, u + v
        if d > 1:
            rays[3, :, :, 0], rays[3, :, :, 1] = u, v
        seen = self.along(rays.flatten(0, 1))
        c = seen.curvature.unflatten(0, (5, pairs))
        slope = seen.slope.unflatten(0, (5, pairs))[0]
        within = (c[2] - c[0] - c[1]) / 2  # uᵀ Ā v
        across = (c[3] - c[0] - c[1]) / 2 if d > 1 else torch.zeros_like(within)  # uᵀ B v
        parts = {"g": slope, "Ā": within, "B": across, "A": within - across}
        return {name: float(value.square().mean(0).sqrt().max()) for name, value in parts.items()}


def dense_bytes(setting: Setting) -> int:
    """Memory that the dense second derivatives would take while they are measured."""
    n, k = setting.offset.shape
    footprint = setting.layer.footprint  # of a layer that stands for a larger one, a row of them takes that one's memory
    return 8 * setting.p * 4 * max(2 * n * k * setting.p, footprint if footprint > setting.p * setting.d else 0)


def too_large(setting: Setting) -> bool:
    """Whether the dense second derivatives are over the budget."""
    return dense_bytes(setting) > MEMORY


def measure_along(setting: Setting) -> MatrixFree:
    """Decides along random rays of one and of two neurons what to take for the truth: autodiff where fits agree with it.

    Raises:
        InvalidInput: no setting.
        Undecided: f(0) is not finite, or f is no function, has no length scale, or computes in a coarser arithmetic than
            float64's.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("quadratic-network", n_in=2000, width=2)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> seen = measure_along(setting)
        >>> seen.source
        'autodiff'
        >>> rays = torch.ones(1, 2000, 2, dtype=torch.float64)
        >>> exact = 2 * setting.x["x"].sum(-1) ** 2                # Σ_i (w_i·x)² at w_i = 1
        >>> torch.allclose(seen.along(rays).curvature[0, :, 0], exact)
        True
    """
    if not isinstance(setting, Setting):
        raise InvalidInput(f"measure_along takes a Setting, a layer at given inputs; got {type(setting).__name__}.")
    if not setting.offset.isfinite().all():
        raise Undecided("f is not finite at W = 0, so it has no expansion there.")
    setting.check_exact()
    rays = torch.cat([random_rays(setting, setting.seed, 1), random_rays(setting, setting.seed + 1, 2)])
    truth = _fitted(setting, rays)
    try:
        exact = _exact(setting, rays)
    except Exception:  # a layer may refuse forward mode in any way; the fit remains
        return MatrixFree(setting, "differences", FITTED, float("nan"))
    s = setting.scale
    gaps = torch.stack(
        [
            (exact.slope - truth.slope).abs() * s / setting.spread,
            (exact.curvature - truth.curvature).abs() * s**2 / setting.spread,
        ]
    )
    gap = float(gaps.max()) if gaps.isfinite().all() else float("nan")
    if gap <= DIFFERENCES:
        return MatrixFree(setting, "autodiff", AUTODIFF, gap)
    return MatrixFree(setting, "differences", FITTED, gap)


def random_rays(setting: Setting, seed: int, neurons: int, count: int = RAYS) -> Tensor:
    """Random directions (count, p, d) of the first neurons alone."""
    generator = torch.Generator().manual_seed(seed)
    rays = torch.zeros(count, setting.p, setting.d, dtype=torch.float64)
    used = min(neurons, setting.d)
    rays[:, :, :used] = torch.randn(count, setting.p, used, generator=generator, dtype=torch.float64)
    return rays


def _exact(setting: Setting, rays: Tensor) -> Along:
    slope, curvature = slope_and_curvature(setting.layer, setting.x, rays)
    return Along(rays, slope.detach(), curvature.detach())


def _fitted(setting: Setting, rays: Tensor) -> Along:
    slope, curvature = (fit(setting.layer, setting.x, rays, order, setting.scale).value for order in (1, 2))
    return Along(rays, slope, curvature)
