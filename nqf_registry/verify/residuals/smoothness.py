"""One-sided derivatives up to order three: they must agree from both sides, and be forms of their degree in the direction.

Rays alone are not enough: max_i q_i(W) with quadratic q_i is even along every ray, and no quadratic form. So order one must be
additive, order two obey the parallelogram law, and order three the third difference C(a+2b) − 3C(a+b) + 3C(a) − C(a−b) = 6 C(b).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.verify.jets import Jets, jets
from nqf_registry.verify.setting import Setting

REACH = 2.0**-6


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
        """The largest violation, and what it is in words."""
        found = [(self.hole, "f jumps at zero itself")]
        for order in range(4):
            found.append((self.sides[order], f"the one-sided derivatives of order {order} along a ray differ"))
            found.append((self.forms[order], f"the derivative of order {order} is no form of degree {order} in the direction"))
            found.append((self.drift[order], f"the one-sided derivative of order {order} has no limit at zero"))
        return max(found, key=lambda pair: pair[0])


def smoothness(setting: Setting, base: Tensor, a: Tensor, b: Tensor) -> Kinks:
    """Fits f along a, b, a+b, a−b and a+2b from a base point.

    Args:
        setting: the layer and its inputs.
        base: weights (p, d) that the rays start from.
        a: a direction (p, d).
        b: another.
    """
    rays = torch.stack([a, b, a + b, a - b, a + 2 * b]) / 2
    near, far = jets(setting, base, rays, REACH / 4), jets(setting, base, rays, REACH)
    finite = (near.plus.isfinite() & near.minus.isfinite() & far.plus.isfinite() & far.minus.isfinite()).flatten(1).all(1)  # by ray
    size = setting.spread
    if not finite.any():
        return Kinks((0.0,) * 4, (0.0,) * 4, (0.0,) * 4, 0.0, 0)

    def relative(gap: Tensor, order: int, jet: Jets, factor: float = 1.0) -> float:
        return float(((gap.abs() - factor * jet.rounding[order]).clamp_min(0) / size).max())

    sides = tuple(relative(far.jump(order)[finite], order, far) for order in range(4))
    drift = tuple(relative(near.plus[finite, order] - far.plus[finite, order], order, near) for order in range(4))
    forms = [0.0] * 4
    if finite.all():
        for order in (1, 2, 3):
            c = far.central(order)
            if order == 1:
                gap = c[0] + c[1] - c[2]
            elif order == 2:
                gap = c[2] + c[3] - 2 * c[0] - 2 * c[1]
            else:
                gap = c[4] - 3 * c[2] + 3 * c[0] - c[3] - 6 * c[1]
            forms[order] = relative(gap, order, far, 14.0)
    hole = 0.0
    start = setting.values(base[None])[0]
    if start.isfinite().all():
        hole = relative(far.plus[finite, 0] - start, 0, far)
    return Kinks(sides, tuple(forms), drift, hole, int(finite.sum()))
