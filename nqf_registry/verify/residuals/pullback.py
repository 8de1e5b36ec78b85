"""How far a declared ``pullback`` is from the gradient that autograd takes of the layer itself."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.arguments import check_gradient
from nqf_registry.verify.residuals.given import check_declared, given_weights
from nqf_registry.verify.residuals.structure_matrix import Gap, compare
from nqf_registry.verify.setting import Setting


def pullback(setting: Setting, stacked: Tensor, seed: int = 0) -> Gap:
    """Compares both at weights (p, d), against random cotangents; the place of the gap is (parameter, neuron).

    Args:
        setting: the layer and its inputs.
        stacked: the weights.
        seed: of the cotangents.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or a layer that writes no ``pullback``.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.
        LayerError: the layer's own gradient is no dict like W.

    Example:
        >>> import nqf_registry as nqf
        >>> exact = nqf.default_registry().get("quadratic-network")
        >>> class Doubled(type(exact)):
        ...     def pullback(self, W, x, cotangent):
        ...         return {name: 2 * g for name, g in nqf.quadratic_form(exact, x).pullback(W, cotangent).items()}
        >>> setting = Setting(Doubled(), exact.sample(2, torch.Generator().manual_seed(0)))
        >>> round(pullback(setting, torch.ones(setting.p, setting.d, dtype=torch.float64)).residual, 6)
        1.0
    """
    stacked = given_weights(setting, stacked, "stacked")
    check_declared(setting, "pullback")
    setting.check_exact()
    layer: Any = setting.layer
    W = {name: block.detach().clone() for name, block in layer.unstack(stacked).items()}
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    with torch.enable_grad():
        out = layer(leaves, setting.x)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(seed), dtype=out.dtype)
    if out.requires_grad:
        grads = torch.autograd.grad(out, list(leaves.values()), cotangent, allow_unused=True)
    else:
        grads = [None] * len(W)
    expected = {name: torch.zeros_like(W[name]) if g is None else g for name, g in zip(W, grads, strict=True)}
    if layer.batched:  # then its own gradient takes the replica axis, as its forward does
        lead = {name: block[None] for name, block in W.items()}
        given = check_gradient(layer.key, layer.pullback(lead, setting.x, cotangent[None]), lead)
        given = {name: block[0] for name, block in given.items()}
    else:
        given = check_gradient(layer.key, layer.pullback(W, setting.x, cotangent), W)
    declared, measured = (layer.stack(gradient).detach().to(torch.float64) for gradient in (given, expected))
    size = setting.spread.sum().reshape(1, 1) / stacked.abs().max().clamp_min(1e-300)  # what such a slope may be
    gap = compare(declared[None, None], measured[None, None], size)
    return Gap(gap.residual, gap.place[2:], gap.declared, gap.measured)
