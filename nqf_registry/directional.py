"""Directional derivatives of a layer at W = 0 of any order: by nested forward passes, and by fits that autodiff cannot mislead.

The first are exact and never form p^k numbers. The second see what f itself does where autodiff reports the derivative of one
side of a kink, or a made-up one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import factorial
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.layer import Inputs, Layer
from nqf_registry.length_scale import BUDGET, evaluate

TERMS = 8
ROUNDING = 8.0  # of a layer's own sums, in units of float64's
NODES = 14
REACH = 2.0**-1  # of the length scale


def directional(layer: Layer, x: Inputs, directions: Sequence[Tensor]) -> Tensor:
    """D^k f(0)[r_1, …, r_k] by k nested forward passes.

    Args:
        layer: any layer.
        x: its inputs, floating ones in the dtype of the directions.
        directions: r_1 … r_k, each (R, p, d); R derivatives are taken together.

    Returns:
        (R, n, k outputs).
    """
    zero = torch.zeros_like(directions[0][0])

    def f(stacked: Tensor) -> Tensor:
        return layer(layer.unstack(stacked), x)

    def along(*rays: Tensor) -> Tensor:
        nested: Callable[[Tensor], Any] = f
        for ray in rays:
            nested = functools.partial(_pushed, nested, ray)
        return nested(zero)

    return _in_pieces(layer, x, along, directions, 2 ** len(directions))


def slope_and_curvature(layer: Layer, x: Inputs, rays: Tensor) -> tuple[Tensor, Tensor]:
    """Df(0)[r] and ½ D²f(0)[r, r] for rays (R, p, d), by the same two nested forward passes: each (R, n, outputs)."""
    zero = torch.zeros_like(rays[0])

    def along(ray: Tensor) -> Tensor:
        def first(at: Tensor) -> Tensor:
            return torch.func.jvp(lambda stacked: layer(layer.unstack(stacked), x), (at,), (ray,))[1]

        both: Any = torch.func.jvp(first, (zero,), (ray,))
        return torch.stack([both[0], both[1] / 2])

    slope, curvature = _in_pieces(layer, x, along, [rays], 4).unbind(1)
    return slope, curvature


def _in_pieces(layer: Layer, x: Inputs, along: Callable[..., Tensor], directions: Sequence[Tensor], copies: int) -> Tensor:
    """A function of one direction each at many of them, as many together as fit the budget of numbers."""
    n = next(iter(x.values())).shape[0]
    piece = max(1, BUDGET // (max(directions[0][0].numel(), layer.footprint) * max(n, 1) * copies))
    starts = range(0, len(directions[0]), piece)
    # The fused kernels have no second derivative: neither attention's nor, where gradients are off, silu's and mish's.
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        return torch.cat([_together(along, [r[start : start + piece] for r in directions]) for start in starts])


def _pushed(function: Callable[[Tensor], Any], ray: Tensor, at: Tensor) -> Any:
    return torch.func.jvp(function, (at,), (ray,))[1]


def _together(along: Callable[..., Tensor], directions: Sequence[Tensor]) -> Tensor:
    if len(directions[0]) > 1:
        try:
            return torch.func.vmap(along)(*directions)
        except Exception:  # vmap's refusals have no class of their own; a real error comes again below
            pass
    return torch.stack([along(*rays) for rays in zip(*directions, strict=True)])


def taylor(layer: Layer, x: Inputs, rays: Tensor, order: int) -> Tensor:
    """D^k f(0)[r, …, r] / k!, the term of order k at the weights r, for rays (R, p, d): (R, n, outputs)."""
    return directional(layer, x, [rays] * order) / factorial(order)


@dataclass(frozen=True, eq=False)
class Fit:
    """The term of order k of f along rays, as f itself shows it.

    Attributes:
        value: the coefficient of t^k in f(tR) − f(0), the mean of both sides, (R, n, outputs).
        jump: half the difference between the sides t > 0 and t < 0, zero where f has k derivatives, (R, n, outputs).
        size: what a term of order k would be that moves f as far as it moves at the steps taken, (n, outputs).
        rounding: what rounding alone makes of the value and of the jump.
    """

    value: Tensor
    jump: Tensor
    size: Tensor
    rounding: float


@functools.lru_cache(maxsize=32)
def _rows(order: int, lowest: int) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes in (0, 1], and the rows that turn the two parts of f there into their coefficients of order k.

    The part of the parity of k has the powers k, k ± 2, …; the other should have k ± 1, k ± 3, … only, and is asked for |t|^k.
    """
    angles = torch.pi * (torch.arange(NODES, dtype=torch.float64) + 0.5) / NODES
    squares = (1 + 1 / 9) / 2 + (1 - 1 / 9) / 2 * torch.cos(angles)  # Chebyshev nodes for t² in (1/9, 1)
    at = squares.sqrt()
    rows = []
    for offset in (0, 1):
        first = lowest + (order + offset - lowest) % 2
        powers = torch.arange(first, max(first, order) + 2 * TERMS, 2, dtype=torch.float64)
        if offset:
            powers = torch.cat([torch.tensor([float(order)], dtype=torch.float64), powers])
        basis = at[:, None] ** (powers - order)  # weighted by t^-order, so that rounding counts alike at every node
        rows.append(torch.linalg.pinv(basis)[int((powers - order).abs().argmin())] / at**order)
    return at, rows[0], rows[1]


def fit(layer: Layer, x: Inputs, rays: Tensor, order: int, scale: float, lowest: int | None = None) -> Fit:
    """The term of order k along rays, by polynomial fits of the even and the odd part of f(tR) − f(0).

    Args:
        layer: any layer.
        x: its inputs, floating ones in float64.
        rays: (R, p, d), of entries about 1.
        order: k.
        scale: the length scale of W; t goes up to half of it.
        lowest: the lowest order that f − f(0) may have, by default 1. The fit is the better the fewer there are.
    """
    at, same, other = _rows(order, 1 if lowest is None else lowest)
    steps = at * REACH * scale
    points = torch.einsum("j,rpd->jrpd", torch.cat([steps, -steps]), rays)
    base = evaluate(layer, x, torch.zeros_like(rays[:1]))
    values = evaluate(layer, x, points.flatten(0, 1)).unflatten(0, (2, NODES, len(rays))) - base
    sign, unit = (-1) ** order, (REACH * scale) ** order
    value = torch.einsum("j,jrnk->rnk", same, values[0] + sign * values[1]) / 2 / unit
    jump = torch.einsum("j,jrnk->rnk", other, values[0] - sign * values[1]) / 2 / unit
    digits = 2.0**-53 * float((values.abs() + base.abs()).max()) / unit
    rounding = ROUNDING * digits * float(torch.maximum(same.norm(), other.norm()))
    return Fit(value, jump, values.abs().amax((0, 1, 2)) / unit, rounding)
