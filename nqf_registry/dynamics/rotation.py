"""Rotates the neurons of weights into as few as their order parameters need: M = W Wᵀ and μ = W 1 stay as they are.

W = P W₀ + Q 1ᵀ for every rule that is linear in the gradient, and W₀ = L Oᵀ with orthonormal columns O (d, d′). So P L, which
has d′ ≤ p columns whatever the width, says all that W says. It is iterated rather than M, which squares the scales: modes that
are not yet born would drown in rounding.

Source: arXiv 2608.13335, appendix B.3.
"""

from __future__ import annotations

from math import sqrt

import torch
from torch import Tensor


def rotated(S: Tensor, mean: bool) -> Tensor:
    """S O for an orthonormal O (d, d′) whose columns span the rows of S, and with ``mean`` the vector of ones too.

    Args:
        S: weights (..., p, d), neurons last.
        mean: whether 1/√d is the first column of O, so that √d times the first column of the result is μ.

    Returns:
        (..., p, d′) in the dtype of S, with d′ = min(d, p), or min(d, p + 1) with ``mean``.
    """
    if not mean:
        return _narrowed(S)
    d = S.shape[-1]
    reflected = _ones_first(S)
    if d == 1:
        return reflected
    return torch.cat([reflected[..., :1], _narrowed(reflected[..., 1:])], -1)


def _narrowed(S: Tensor) -> Tensor:
    """S itself, or the square L of S = L Oᵀ where S is wider than high."""
    if S.shape[-1] <= S.shape[-2]:
        return S
    return torch.linalg.qr(S.double().mT, mode="r").R.mT.to(S.dtype).contiguous()


def _ones_first(S: Tensor) -> Tensor:
    """S H for the reflection H that exchanges 1/√d and the first unit vector."""
    d = S.shape[-1]
    if d == 1:
        return S
    h = torch.full((d,), 1 / sqrt(d), dtype=torch.float64, device=S.device)
    h[0] -= 1.0
    h /= h.norm()
    S64 = S.double()
    return (S64 - 2 * (S64 @ h)[..., None] * h).to(S.dtype)
