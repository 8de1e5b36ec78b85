"""What a layer declares of its expansion, part by part: dense for small p, and along rays for any."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.verify.setting import Setting


def declared_part(setting: Setting, name: str, like: Tensor) -> Tensor:
    """One declared part, dense and in float64, of the shape of the measured one."""
    own: Any = setting.layer
    if name == "structure" or name == "cross":
        return getattr(own, name)(setting.x).dense(torch.float64).expand_as(like)
    if name == "linear":
        given = own.linear(setting.x)
        n, k = like.shape[:2]
        parts = [
            given[block].reshape(n, k, -1) if block in given else like.new_zeros(n, k, int(torch.Size(shape).numel()))
            for block, shape in setting.layer.blocks().items()
        ]
        return torch.cat([part.to(torch.float64) for part in parts], -1)
    value = own.offset(setting.x)
    number = value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    return number.to(torch.float64).expand_as(like)


def declared_along(setting: Setting, name: str, rays: Tensor) -> Tensor:
    """What one declared part contributes at weights (q, p, d): (q, n, k).

    Σ_i w_iᵀ Ā w_i for "structure", g·μ for "linear", Σ_{i≠j} w_iᵀ B w_j for "cross". Nothing of size p × p is formed.
    """
    own: Any = setting.layer
    blocks = setting.layer.unstack(rays)
    if name == "structure":
        return own.structure(setting.x).evaluate(blocks)
    if name == "cross":
        B = own.cross(setting.x)
        mu = {block: tensor.sum(-1, keepdim=True) for block, tensor in blocks.items()}
        return B.evaluate(mu) - B.evaluate(blocks)
    total = rays.new_zeros(len(rays), *setting.offset.shape)
    for block, g in own.linear(setting.x).items():
        total = total + torch.einsum("nkp,qp->qnk", g.flatten(2).to(torch.float64), blocks[block].sum(-1).flatten(1))
    return total


def asymmetry_of(setting: Setting) -> float:
    """|A − Aᵀ| / |A| of what a layer declares."""
    own: Any = setting.layer
    return own.structure(setting.x).asymmetry()
