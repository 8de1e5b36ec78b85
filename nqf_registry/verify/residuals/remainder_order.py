"""The order of the remainder R(ε) = f(εW) − expansion(εW), and whether f is a quadratic polynomial at every scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log10
from typing import Any

import torch
from scipy import stats
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.verify.residuals.given import given_directions, given_weights
from nqf_registry.verify.setting import Setting

Expansion = Callable[[Tensor], Tensor]  # (R, p, d) to (R, n, k)

OCTAVES = 34
DECADES = 4.0
ABOVE = 100.0


@dataclass(frozen=True)
class Slope:
    """The slope of log |R| against log ε.

    Attributes:
        slope: by least squares over the lowest decades in which R stands above the measured rounding; None where R never does.
        low: lower end of its 95 % interval; None where there are too few sizes for one, or R is the same at all of them.
        high: upper end, likewise.
        decades: how many decades of ε went into it.
        largest: max |R| / (|f| + |f(0)|) over all sizes measured, from far below the length scale to far above.
        smallest: the smallest ε that went into it, in length scales; below it R is lost in rounding.
        floor: the measured rounding there, relative to the largest |f|.
    """

    slope: float | None
    low: float | None
    high: float | None
    decades: float
    largest: float
    smallest: float = 0.0
    floor: float = 0.0


def remainder_slope(setting: Setting, expansion: Expansion, rays: Tensor, error: float = 0.0) -> Slope:
    """Measures R along rays (q, p, d) at sizes an octave apart.

    The slope is taken over four decades, or over as many as R stands above rounding: there are ten below the length scale, so
    that fewer than three mean that rounding covers the rest.

    Args:
        setting: the layer and its inputs.
        expansion: evaluates the expansion at stacked weights.
        rays: directions of entries about 1.
        error: relative error of the expansion, where it was measured by differences; R below it is not looked at.

    Raises:
        InvalidInput: no setting, or rays that do not fit it, are none, or are zero.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", activation="tanh")
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> form = nqf.quadratic_form(layer, setting.x)
        >>> rays = torch.randn(2, setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> seen = remainder_slope(setting, lambda W: form.evaluate(layer.unstack(W)), rays)
        >>> round(seen.slope, 2), seen.decades > 3                # tanh is odd, so the next order is four
        (4.0, True)
    """
    rays = given_directions(setting, rays, many=True)
    setting.check_exact()
    top = setting.scale / 4
    sizes = top * 2.0 ** -torch.arange(OCTAVES, dtype=torch.float64)
    value, model = _both(setting, expansion, sizes, rays)
    gap = (value - model).flatten(1).square().mean(1).sqrt()  # (J,)
    floor = setting.rounding(sizes) + 2.0**-52 * model.flatten(1).abs().amax(1)
    floor = floor + error / ABOVE * (model - setting.offset).flatten(1).abs().amax(1)
    above = int((gap > ABOVE * floor).long().cumprod(0).sum())
    largest = _largest(setting, expansion, rays)
    if above < 2:
        return Slope(None, None, None, 0.0, largest)
    keep = min(above, 1 + int(DECADES / log10(2)))
    log_size, log_gap = sizes[above - keep : above].log10(), gap[above - keep : above].log10()
    decades = (keep - 1) * log10(2)
    magnitude = value[above - 1].abs().max().clamp_min(1e-300)
    lowest = {"smallest": float(sizes[above - 1]) / setting.scale, "floor": float(floor[above - 1] / magnitude)}
    if keep < 4:
        slope = float((log_gap[0] - log_gap[-1]) / (log_size[0] - log_size[-1]))
        return Slope(slope, None, None, decades, largest, **lowest)
    fit: Any = stats.linregress(log_size.numpy(), log_gap.numpy())
    half = float(stats.t.ppf(0.975, keep - 2)) * float(fit.stderr)
    slope = float(fit.slope)
    if half != half:  # R is constant: the fit has no residual to make an interval of
        return Slope(slope, None, None, decades, largest, **lowest)
    return Slope(slope, slope - half, slope + half, decades, largest, **lowest)


def _both(setting: Setting, expansion: Expansion, sizes: Tensor, rays: Tensor) -> tuple[Tensor, Tensor]:
    """Values of f and of its expansion at every size along every ray: (J, q, n, k) each."""
    points = torch.einsum("j,qpd->jqpd", sizes, rays).flatten(0, 1)
    value = setting.values(points)
    return value.unflatten(0, (len(sizes), len(rays))), expansion(points).unflatten(0, (len(sizes), len(rays)))


def _largest(setting: Setting, expansion: Expansion, rays: Tensor) -> float:
    """Max |R| / (|f| + |f(0)| + |expansion|) at sizes from 2⁻⁸ to 2¹⁶ length scales, where f is finite."""
    sizes = setting.scale * 2.0 ** torch.arange(-8, 17, 2, dtype=torch.float64)
    value, model = _both(setting, expansion, sizes, rays[:2])
    sum_of = value.abs() + model.abs() + setting.offset.abs()
    size = sum_of.amax((1, 2, 3), keepdim=True)  # by size: a sample that nearly cancels is measured against the others
    ratio = ((value - model).abs() / size.clamp_min(1e-300)).amax((1, 2, 3))
    ratio = ratio[ratio.isfinite()]
    return float(ratio.max()) if ratio.numel() else float("nan")


def quadratic_polynomial(setting: Setting, starts: Tensor, steps: Tensor) -> float:
    """How far f is from a polynomial of degree two, the only smooth functions whose third differences along lines vanish.

    No derivative enters, so it holds for functions that autodiff misreads.

    Args:
        setting: the layer and its inputs.
        starts: points (q, p, d), of entries about 1.
        steps: directions (q, p, d).

    Returns:
        max |f(a+3b) − 3f(a+2b) + 3f(a+b) − f(a)| / Σ |f| at sizes from 2⁻¹² to 2¹⁶ length scales, where f is finite; nan where
        it is at none.

    Raises:
        InvalidInput: no setting, points and directions that do not fit it or each other, or directions that are none or zero.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("quadratic-network")
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> starts = torch.ones(1, setting.p, setting.d, dtype=torch.float64)
        >>> quadratic_polynomial(setting, starts, starts.cumsum(1)) < 1e-12
        True
    """
    starts, steps = given_weights(setting, starts, "starts", many=True), given_directions(setting, steps, "steps", many=True)
    if len(starts) != len(steps):
        raise InvalidInput(
            f"{setting.layer.key}: starts and steps must be as many, one for each point; got {len(starts)} and {len(steps)}."
        )
    setting.check_exact()
    sizes = setting.scale * 2.0 ** torch.arange(-12, 17, 2, dtype=torch.float64)
    lines = torch.stack([starts + j * steps for j in range(4)])  # (4, q, p, d)
    points = torch.einsum("s,jqpd->sjqpd", sizes, lines)
    values = setting.values(points.flatten(0, 2)).unflatten(0, points.shape[:3])  # (sizes, 4, q, n, k)
    weights = torch.tensor([-1.0, 3.0, -3.0, 1.0], dtype=torch.float64)
    third = torch.einsum("sjqnk,j->sqnk", values, weights).abs().amax((1, 2, 3))
    size = (values.abs() * weights.abs()[:, None, None, None]).sum(1).amax((1, 2, 3))
    ratio = third / size.clamp_min(1e-300)
    ratio = ratio[ratio.isfinite()]
    return float(ratio.max()) if ratio.numel() else float("nan")
