"""One-sided derivatives up to order three: they must agree from both sides, and be forms of their degree in the direction.

Rays alone are not enough: max_i q_i(W) with quadratic q_i is even along every ray, and no quadratic form. So order one must be
additive, order two obey the parallelogram law, and order three have the third difference
C(a+2b) − 3C(a+b) + 3C(a) − C(a−b) = 6C(b).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.verify.jets import jets
from nqf_registry.verify.residuals.given import given_directions, given_weights
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.tolerances import KINK

REACH = 2.0**-4
CLOSER = 2.0**-2
PERSISTS = 0.6  # of a kink all persists; of |t|^3.5, the third derivative of which is √|t|, half


@dataclass(frozen=True)
class Kinks:
    """Violations of smoothness, relative to how far f moves from f(0); what rounding explains is taken off.

    Attributes:
        sides: |c_j(0⁺) − c_j(0⁻)| for orders 0 to 3, with c_j the coefficients of f along a ray.
        forms: how far the coefficients of order 1, 2, 3 are from forms of that degree in the direction; index 0 is unused.
        drift: how far the one-sided coefficients of order 0 to 3 move when the fit reaches a quarter as far.
        hole: |lim f − f(0)|; 0 where f(0) is not finite, which is another check's matter.
        rays: how many rays were finite.
    """

    sides: tuple[float, ...]
    forms: tuple[float, ...]
    drift: tuple[float, ...]
    hole: float
    rays: int

    @property
    def worst(self) -> tuple[float, str]:
        """The largest violation, and what it is in words; nan where nothing was measured."""
        found = [(self.hole, "f jumps at the point itself")]
        for order in range(4):
            name = f"derivative{'s' if order else ''} of order {order}" if order else "limits of f"
            found.append((self.sides[order], f"the one-sided {name} along a ray differ"))
            found.append((self.forms[order], f"the derivative of order {order} is no form of degree {order} in the direction"))
            found.append((self.drift[order], f"the one-sided derivative of order {order} has no limit"))
        found = [pair for pair in found if pair[0] == pair[0]]
        return max(found, key=lambda pair: pair[0], default=(float("nan"), "nothing was measured"))


@dataclass(frozen=True, eq=False)
class _Look:
    """Violations at one reach: sides, forms and drift as a (3, 4) tensor, and the hole."""

    found: Tensor
    hole: float
    rays: int


def smoothness(setting: Setting, base: Tensor, a: Tensor, b: Tensor) -> Kinks:
    """Fits f along a, b, a+b, a−b and a+2b from a base point.

    A violation counts if it persists when the fit draws four times closer: a kink does. What a fit of low degree leaves does
    not, nor a kink elsewhere that only the longer fit reaches, nor a fractional power above three, which is smooth enough.

    Args:
        setting: the layer and its inputs.
        base: weights (p, d) that the rays start from.
        a: a direction (p, d), not zero.
        b: another, not along it.

    Returns:
        The violations. All are nan where f is finite along no ray, and ``forms`` where it is not along every one: nothing was
        measured then.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or a direction that is zero.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, activation="relu")
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> a, b = torch.randn(2, setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> smoothness(setting, setting.zero, a, b).worst[1]
        'the one-sided derivatives of order 2 along a ray differ'
    """
    base = given_weights(setting, base, "base")
    a, b = given_directions(setting, a, "a"), given_directions(setting, b, "b")
    setting.check_exact()
    rays = torch.stack([a, b, a + b, a - b, a + 2 * b]) / 2
    look = _look(setting, base, rays, REACH)
    found, hole = look.found, look.hole
    if bool((found > KINK).any()) or hole > KINK:
        near = _look(setting, base, rays, REACH * CLOSER)
        if near.rays:
            hole = min(hole, near.hole)
        closer = near.found
        closer = torch.where(closer.isnan(), found, closer)  # not finite so close: what was seen stands
        found = torch.where(closer > (PERSISTS * found).clamp_min(KINK), closer, torch.minimum(found, closer).clamp_max(KINK))
    sides, forms, drift = (tuple(row.tolist()) for row in found)
    return Kinks(sides, forms, drift, hole, look.rays)


def _look(setting: Setting, base: Tensor, rays: Tensor, reach: float) -> _Look:
    far, near = jets(setting, base, rays, reach), jets(setting, base, rays, reach / 4)
    finite = (
        (near.plus.isfinite() & near.minus.isfinite() & far.plus.isfinite() & far.minus.isfinite()).flatten(1).all(1)
    )  # by ray
    found = torch.zeros(3, 4, dtype=torch.float64)
    if not finite.any():
        return _Look(found.fill_(torch.nan), float("nan"), 0)
    size = setting.spread

    def relative(gap: Tensor, rounding: float) -> float:
        return float(((gap.abs() - rounding).clamp_min(0) / size).max())

    for order in range(4):
        c = far.central(order)
        form = _form(order, c) if finite.all() or order == 0 else torch.full_like(c[0], torch.nan)
        gaps = (far.jump(order)[finite], form, near.plus[finite, order] - far.plus[finite, order])
        roundings = (far.rounding[order], 14 * far.rounding[order], near.rounding[order])
        for row, (gap, rounding) in enumerate(zip(gaps, roundings, strict=True)):
            found[row, order] = relative(gap, float(rounding))
    start = setting.values(base[None])[0]
    hole = relative(far.plus[finite, 0] - start, float(far.rounding[0])) if start.isfinite().all() else 0.0
    return _Look(found, hole, int(finite.sum()))


def _form(order: int, c: Tensor) -> Tensor:
    """What vanishes if the coefficients c along a, b, a+b, a−b, a+2b are a form of this degree."""
    if order == 1:
        return c[0] + c[1] - c[2]
    if order == 2:
        return c[2] + c[3] - 2 * c[0] - 2 * c[1]
    if order == 3:
        return c[4] - 3 * c[2] + 3 * c[0] - c[3] - 6 * c[1]
    return torch.zeros_like(c[0])
