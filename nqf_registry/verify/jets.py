"""One-sided Taylor coefficients of a layer along rays, by polynomial fits that never touch the point itself.

Autodiff cannot see a kink: it returns the derivative of one side, or a made-up value. So the coefficients at t → 0⁺ and at
t → 0⁻ are fitted from values at t > 0 and t < 0 apart, on Chebyshev nodes in (0, h].
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.verify.setting import Setting

DEGREE = 7
NODES = 12


@dataclass(frozen=True, eq=False)
class Jets:
    """Taylor coefficients c_j of f(base + t s R), s the length scale, for t → 0 from either side.

    Attributes:
        plus: c_j for t > 0, (rays, degree + 1, n, k).
        minus: c_j for t < 0 in the same powers of t, so that they equal ``plus`` where f is smooth.
        rounding: the part of |plus − minus| that rounding alone explains, (degree + 1,).
    """

    plus: Tensor
    minus: Tensor
    rounding: Tensor

    def central(self, order: int) -> Tensor:
        """Mean of both sides, (rays, n, k)."""
        return (self.plus[:, order] + self.minus[:, order]) / 2

    def jump(self, order: int) -> Tensor:
        """|c_j(0⁺) − c_j(0⁻)|, (rays, n, k)."""
        return (self.plus[:, order] - self.minus[:, order]).abs()


@functools.lru_cache(maxsize=8)
def _fit(degree: int, nodes: int) -> tuple[Tensor, Tensor]:
    """Chebyshev nodes in (0, 1] and the matrix from values there to coefficients."""
    angles = torch.pi * (torch.arange(nodes, dtype=torch.float64) + 0.5) / nodes
    at = (1 - torch.cos(angles)) / 2
    powers = at[:, None] ** torch.arange(degree + 1, dtype=torch.float64)
    return at, torch.linalg.pinv(powers)


def jets(setting: Setting, base: Tensor, rays: Tensor, reach: float = 2.0**-4) -> Jets:
    """Fits f along rays from a base point.

    Args:
        setting: the layer and its inputs.
        base: weights (p, d) that the rays start from.
        rays: directions (rays, p, d), of entries about 1; one unit of t is the length scale of W.
        reach: h, the largest |t| used.
    """
    at, solve = _fit(DEGREE, NODES)
    steps = torch.cat([at, -at]) * reach * setting.scale
    points = base + steps[:, None, None, None] * rays  # (2 nodes, rays, p, d)
    values = setting.values(torch.cat([base[None], points.reshape(-1, *base.shape)]))
    start = values[0].where(values[0].isfinite(), 0.0)
    values = values[1:].reshape(2, NODES, len(rays), *values.shape[1:])
    powers = reach ** torch.arange(DEGREE + 1, dtype=torch.float64)
    # what f moves by is fitted: in sums of its own values the rounding of a large f(base) would be that of every coefficient
    coefficients = torch.einsum("jm,smrnk->srjnk", solve, values - start) / powers[:, None, None]
    coefficients[:, :, 0] += start
    signs = (-1.0) ** torch.arange(DEGREE + 1, dtype=torch.float64)
    largest = torch.maximum(base.abs().max(), torch.tensor(reach * setting.scale, dtype=torch.float64))
    finite = values.abs().where(values.isfinite(), 0.0)  # a ray that is not finite says nothing of the rounding of the others
    size = 2.0**-53 * float(finite.max()) + float(setting.rounding(largest))
    rounding = solve.norm(dim=1) / powers * size * 8
    return Jets(coefficients[0], coefficients[1] * signs[:, None, None], rounding)
