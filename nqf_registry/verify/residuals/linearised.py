"""How far a written ``linearise`` is from the layer: its outputs from forward's, its pullback from the gradient by autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.arguments import check_gradient
from nqf_registry.verify.residuals.given import check_declared, given_weights
from nqf_registry.verify.setting import Setting


def linearised(setting: Setting, stacked: Tensor, seed: int = 0) -> tuple[float, float]:
    """Both relative differences, of the outputs and of the gradient.

    Args:
        setting: the layer and its inputs.
        stacked: weights (R, p, d); a layer that takes a replica axis is called with all at once as well as with each alone.
        seed: of the cotangents.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or a layer that writes no ``linearise``.
        LayerError: what the pullback returns is no dict like W.
    """
    stacked = given_weights(setting, stacked, "stacked", many=True)
    check_declared(setting, "linearise")
    layer: Any = setting.layer
    generator = torch.Generator().manual_seed(seed)
    calls = [layer.unstack(one) for one in stacked] + ([layer.unstack(stacked)] if layer.batched else [])
    value_gap = gradient_gap = 0.0
    for W in calls:
        leaves = {name: block.detach().clone().requires_grad_() for name, block in W.items()}
        with torch.enable_grad():
            expected = layer(leaves, setting.x)
        cotangent = torch.randn(expected.shape, generator=generator, dtype=expected.dtype)
        with torch.no_grad():
            value, pull = layer.linearise({name: block.clone() for name, block in W.items()}, setting.x)
            given = check_gradient(layer.key, pull(cotangent), W, "linearise")
        value_gap = max(value_gap, _gap(value, expected.detach()))
        if not expected.requires_grad:
            continue
        grads = torch.autograd.grad(expected, list(leaves.values()), cotangent, allow_unused=True)
        truth = {name: torch.zeros_like(W[name]) if g is None else g for name, g in zip(leaves, grads, strict=True)}
        gradient_gap = max(gradient_gap, _gap(*(torch.cat([g[name].flatten() for name in truth]) for g in (given, truth))))
    return value_gap, gradient_gap


def _gap(given: Tensor, truth: Tensor) -> float:
    if given.shape != truth.shape:
        return float("inf")
    gap = float((given - truth).abs().max()) / max(float(truth.abs().max()), 1e-300)
    return float("inf") if gap != gap else gap
