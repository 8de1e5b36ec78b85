"""``remainder-order``: what the declared expansion leaves out is O(ε³), O(ε⁴) for a layer even in each neuron, or nothing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import declares
from nqf_registry.quadratic_form import offset as declared_offset
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.verify.checks.structure_matrix import declared_part
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.remainder_order import Expansion, Slope, quadratic_polynomial, remainder_slope
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import EVEN_SLOPE, EXACT, SLOPE

NAME = "remainder-order"
DECADES = 3.0


def check(context: Context) -> Check:
    """Runs the check, and measures beside it whether f is a quadratic polynomial and what its leading order is."""
    claims = context.layer.claims
    required = EVEN_SLOPE if claims.sign_symmetric else SLOPE
    name = "declared" if declares(context.layer, "structure") else "derived"
    polynomial: list[float] = []
    orders: list[float | None] = []
    decades: list[float] = []

    def measure(draw: Draw) -> Measurement | None:
        own = context.instances[draw.instance].claims
        if draw.instance and (own.exact, own.sign_symmetric, own.zgz) != (claims.exact, claims.sign_symmetric, claims.zgz):
            return None
        setting = context.exact_setting(draw)
        rays = context.rays(draw, setting, 4)
        off = quadratic_polynomial(setting, rays[:2], rays[2:])
        if draw.instance == 0:
            polynomial.append(off)
            orders.append(setting.order)
        seen = remainder_slope(setting, expansion_of(context, draw, setting), rays)
        advice = _advice_exact(off) if claims.exact else _advice(seen.slope, name)
        details = {
            "advice": advice,
            "slope": seen.slope,
            "low": seen.low,
            "high": seen.high,
            "decades": seen.decades,
            "largest": seen.largest,
        }
        data: dict[str, Any] = {"weights_seed": draw.weights} | {
            key: value for key, value in details.items() if key != "advice"
        }
        counterexample = lambda: context.describe(draw, setting, **data)  # noqa: E731
        if claims.exact:
            return Measurement(seen.largest, EXACT, counterexample=counterexample, details=details)
        if seen.slope is None:  # R never rises above rounding below the length scale: of every order
            return Measurement(float("inf"), required, True, counterexample, details)
        if seen.decades < 1 and seen.slope < required:
            raise Undecided(_narrow(seen))
        decades.append(seen.decades)
        return Measurement(seen.slope, required, True, counterexample, details | {"said": _said(seen)})

    outcome = context.run(measure, every_width=True, samples=(4,), share=0.5)
    if polynomial:
        context.facts.exact = max(polynomial) <= EXACT
        known = [order for order in orders if order is not None]
        context.facts.order = min(known) if known else None
    promised = claims.smooth
    if claims.exact:
        holds, broken = f"f equals its {name} quadratic form at every scale", "f differs from it by {largest} (relative)"
    else:
        order = "ε⁴" if claims.sign_symmetric else "ε³"
        holds = f"what the {name} expansion leaves out is O({order}), a slope of at least {required}"
        broken = "the slope of log |R| against log ε is {said}"
    verdict = context.conclude(NAME, outcome, promised or claims.exact, holds=holds, broken=broken, advice="{advice}")
    if not claims.exact and verdict.residual == float("inf"):
        words = (
            f"what the {name} expansion leaves out is zero to rounding below the length scale ({outcome.examples} examples)."
        )
        verdict = Check(NAME, verdict.status, None, None, verdict.examples, words, bound="at least", details=verdict.details)
    elif decades and min(decades) < DECADES and verdict.status == "pass":
        context.notes[f"the remainder stands above rounding over {min(decades):.1f} decades of ε only"] = None
    return verdict


def _advice_exact(off: float) -> str:
    """What to do where an exact form is not: by how far f is from a quadratic polynomial."""
    if off <= EXACT:
        return "f is a quadratic polynomial, but not the one that is declared: see structure-matrix for the part that is wrong."
    return "f has terms of higher order, so leave exact out of the claims; what is declared may still be right."


def _advice(slope: float | None, name: str) -> str:
    """What leaves a remainder of this order."""
    if slope is None or abs(slope - round(slope)) > 0.1 or not 0 <= round(slope) <= 3:
        return "No part of the expansion leaves such an order: look for a kink or a fractional power, see smoothness."
    return (
        "f(0) is not what offset(x) says: give the value that forward has at W = 0.",
        "A part of first order is left out: see zero-gradient-at-zero; declare linear(x) and claim zgz=False, or take it out.",
        f"A part of second order is {'wrong' if name == 'declared' else 'left out'}: see structure-matrix for A, "
        "zero-gradient-at-zero for neurons that are coupled, smoothness for a kink.",
        "A part of third order is there, so a neuron is not even: leave sign_symmetric out of the claims, see sign-symmetry.",
    )[round(slope)]


def _said(seen: Slope) -> str:
    """The slope with what it rests on."""
    interval = "" if seen.low is None or seen.high is None else f"95 % interval {seen.low:.3g} to {seen.high:.3g}, "
    constant = ": R does not vanish at W = 0, so f(0) is wrong" if seen.slope is not None and abs(seen.slope) < 0.5 else ""
    return f"{seen.slope:.3g} ({interval}{seen.decades:.3g} decades){constant}"


def _narrow(seen: Slope) -> str:
    return f"the remainder stands above rounding over {seen.decades:.1f} decades of ε only, which is no slope."


def expansion_of(context: Context, draw: Draw, setting: Setting) -> Expansion:
    """The declared expansion, each part that the layer leaves out as measured; under ZGZ what it need not declare is zero."""
    layer, x = setting.layer, setting.x
    general = not layer.claims.zgz
    names = ("structure", "linear", "cross") if general else ("structure",)
    if general and all(declares(layer, name) for name in names):
        form = quadratic_form(layer, x, torch.float64)
        return lambda stacked: form.evaluate(layer.unstack(stacked))
    if all(declares(layer, name) for name in names):
        structure, start = layer.structure(x), declared_offset(layer, x, torch.float64)  # type: ignore[attr-defined]

        def declared(stacked: Tensor) -> Tensor:
            return structure.evaluate(layer.unstack(stacked)) + start

        return declared
    measured = context.measured(draw)
    e = measured.expansion
    A = declared_part(setting, "structure", e.diagonal) if declares(layer, "structure") else e.diagonal
    g = declared_part(setting, "linear", e.linear) if declares(layer, "linear") else e.linear
    B = declared_part(setting, "cross", e.cross) if declares(layer, "cross") else e.cross
    f0 = declared_part(setting, "offset", e.offset) if declares(layer, "offset") else e.offset
    if not general:  # a claim of ZGZ is a claim that these vanish
        g, B = torch.zeros_like(g), torch.zeros_like(B)

    def general_form(stacked: Tensor) -> Tensor:
        mu = stacked.sum(-1)
        value = f0 + torch.einsum("nkp,rp->rnk", g, mu) + torch.einsum("nkpq,rpd,rqd->rnk", A - B, stacked, stacked)
        return value + torch.einsum("nkpq,rp,rq->rnk", B, mu, mu)

    return general_form
