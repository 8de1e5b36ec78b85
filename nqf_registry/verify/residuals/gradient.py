"""How far the gradient that autograd takes of a layer is from the slope that f has.

A tensor that is detached, values taken through numpy, or an autograd function with a wrong backward leave f right and its
gradient wrong, and training follows the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.verify.jets import jets
from nqf_registry.verify.residuals.given import given_directions, given_weights
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.tolerances import DIFFERENCES


@dataclass(frozen=True)
class Slope:
    """The slope of Σ c f along one ray, c a random cotangent.

    Attributes:
        residual: |autograd − differences| over the size of f at the length scale, above what rounding explains.
        autograd: as autograd gives it.
        differences: as fits of f give it.
    """

    residual: float
    autograd: float
    differences: float


def gradient(setting: Setting, stacked: Tensor, rays: Tensor, seed: int = 0) -> Slope | None:
    """The worst of several rays.

    Args:
        setting: the layer and its inputs.
        stacked: weights (p, d) that the slopes are taken at, well within the length scale.
        rays: directions (rays, p, d) of entries about 1.
        seed: of the cotangent.

    Returns:
        The slopes along the worst ray; None where f has no slope along any, or autograd refuses the layer.

    Raises:
        InvalidInput: no setting, weights that do not fit it, no rays, or one of length zero.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> rays = torch.randn(3, setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> gradient(setting, setting.scale * rays[0] / 4, rays[1:]).residual < 1e-8
        True
    """
    stacked, rays = given_weights(setting, stacked, "stacked"), given_directions(setting, rays, many=True)
    setting.check_exact()
    generator = torch.Generator().manual_seed(seed)
    cotangent = torch.randn(setting.offset.shape, generator=generator, dtype=torch.float64)
    slopes = _by_autograd(setting, stacked, rays, cotangent)
    fitted = jets(setting, stacked, rays)
    size = float((setting.spread * cotangent.abs()).sum())
    rounding = float(fitted.rounding[1]) * float(cotangent.abs().sum())
    kinked = ~(torch.einsum("rnk,nk->r", fitted.jump(1), cotangent.abs()) <= rounding + DIFFERENCES * size)  # or not finite
    if slopes is None or bool(kinked.all()):
        return None
    measured = torch.einsum("rnk,nk->r", fitted.central(1), cotangent)
    gaps = ((slopes - measured).abs() - rounding).clamp_min(0) / size
    worst = int(torch.where(kinked, -1.0, gaps.nan_to_num(torch.inf)).argmax())
    found = float(gaps[worst].nan_to_num(torch.inf))
    return Slope(found, float(slopes[worst]) / setting.scale, float(measured[worst]) / setting.scale)


def _by_autograd(setting: Setting, stacked: Tensor, rays: Tensor, cotangent: Tensor) -> Tensor | None:
    """Slopes (rays,) by one length scale; None where a backward pass raises."""
    layer = setting.layer
    leaves = {name: block.detach().clone().requires_grad_() for name, block in layer.unstack(stacked).items()}
    with torch.enable_grad():
        out = layer(leaves, setting.x)
    if not out.requires_grad:
        return torch.zeros(len(rays), dtype=torch.float64)
    try:
        grads = torch.autograd.grad(out, list(leaves.values()), cotangent, allow_unused=True)
    except (RuntimeError, NotImplementedError):  # an operation without a backward pass: training refuses it aloud
        return None
    given = {name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), grads, strict=True)}
    return setting.scale * torch.einsum("pd,rpd->r", layer.stack(given), rays)
