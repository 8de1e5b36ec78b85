"""``remainder-order``: what the declared expansion leaves out is O(ε³), O(ε⁴) for a layer even in each neuron, or nothing."""

from __future__ import annotations

import dataclasses
from typing import Any

from nqf_registry.layer import declares
from nqf_registry.leading_form import HIGHEST, leading_form
from nqf_registry.partitions import label
from nqf_registry.verify.checks.elsewhere import elsewhere
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.expansions import Reference, declared_expansion, dense_expansion, left_out, matrix_free_expansion
from nqf_registry.verify.matrix_free import too_large
from nqf_registry.verify.report import FAIL, Check
from nqf_registry.verify.residuals.remainder_order import Slope, quadratic_polynomial, remainder_slope
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
    seen_slopes: list[Slope] = []

    def measure(draw: Draw) -> Measurement | None:
        own = context.instances[draw.instance].claims
        if draw.instance and (own.exact, own.sign_symmetric, own.zgz) != (claims.exact, claims.sign_symmetric, claims.zgz):
            return None
        setting = context.exact_setting(draw)
        rays = context.rays(draw, setting, 4)
        off = quadratic_polynomial(setting, rays[:2], rays[2:])
        if draw.instance == 0:
            if setting.order is None and not setting.homogeneous:
                context.facts.still = min(setting.scale, context.facts.still or setting.scale)
            polynomial.append(off)
            orders.append(setting.order)
        reference = expansion_of(context, draw, setting)
        seen = remainder_slope(setting, reference.evaluate, rays, reference.error)
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
            return Measurement(seen.largest, max(EXACT, reference.error), counterexample=counterexample, details=details)
        if seen.slope is None:  # R never rises above rounding below the length scale: of every order
            return Measurement(float("inf"), required, True, counterexample, details)
        if seen.decades < 1 and seen.slope < required:
            raise Undecided(_narrow(seen))
        seen_slopes.append(seen)
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
    advice = (elsewhere(context, outcome.draw) if outcome.failed and outcome.draw is not None else "") or "{advice}"
    verdict = context.conclude(NAME, outcome, promised or claims.exact, holds=holds, broken=broken, advice=advice)
    if not claims.exact and verdict.residual == float("inf"):
        words = (
            f"what the {name} expansion leaves out is zero to rounding below the length scale ({outcome.examples} examples)."
        )
        verdict = Check(NAME, verdict.status, None, None, verdict.examples, words, bound="at least", details=verdict.details)
    elif seen_slopes and verdict.status == "pass":
        least = min(seen_slopes, key=lambda slope: slope.decades)
        if least.decades < DECADES:
            context.notes[_few(least)] = None
    return _with_leading_form(context, verdict)


def _with_leading_form(context: Context, verdict: Check) -> Check:
    """The check with the whole leading term, by partition, where everything through order two vanishes."""
    order, facts = context.facts.order, context.facts
    if order is None or facts.exact or facts.smooth is False or not 2 < order <= HIGHEST or order != round(order):
        return verdict
    try:
        setting = context.setting(Draw(0, context.layer.width, 4))
        form = leading_form(setting.layer, setting.x)
    except Exception as error:  # the classification stands without it
        context.notes[f"the term of order {order:.0f} could not be taken apart: {error}"] = None
        return verdict
    context.notes[form.summary() + ("" if form.source == "autodiff" else ", by differences")] = None
    if verdict.status == FAIL:  # what a failure says follows from its example alone
        return verdict
    norms = {label(part): float(form.norms[part].max()) for part in form.partitions}
    return dataclasses.replace(verdict, details={**verdict.details, "leading_order": form.order, "partitions": norms})


def _advice_exact(off: float) -> str:
    """What to do where an exact form is not: by how far f is from a quadratic polynomial."""
    if off <= EXACT:
        return "f is a quadratic polynomial, but not the one that is declared: compare each part of it with f's."
    return "f has terms of higher order, so leave exact out of the claims; what is declared may still be right."


def _advice(slope: float | None, name: str) -> str:
    """What leaves a remainder of this order."""
    if slope is None or abs(slope - round(slope)) > 0.1 or not 0 <= round(slope) <= 3:
        return "No part of the expansion leaves such an order: look for a kink or a fractional power in f."
    return (
        "f(0) is not what offset(x) says: give the value that forward has at W = 0.",
        "A part of first order is left out: declare linear(x) and claim zgz=False, or take it out of forward.",
        f"A part of second order is {'wrong' if name == 'declared' else 'left out'}, by less than what other checks see of "
        "this example: compare A with half the second derivatives of f at W = 0.",
        "A part of third order is there, so a neuron is not even: leave sign_symmetric out of the claims.",
    )[round(slope)]


def _said(seen: Slope) -> str:
    """The slope with what it rests on."""
    interval = "" if seen.low is None or seen.high is None else f"95 % interval {_interval(seen.low, seen.high)}, "
    constant = ": R does not vanish at W = 0, so f(0) is wrong" if seen.slope is not None and abs(seen.slope) < 0.5 else ""
    return f"{seen.slope:.3g} ({interval}{seen.decades:.3g} decades){constant}"


def _interval(low: float, high: float) -> str:
    """An interval in as many digits as tell its ends apart, at most six."""
    digits = next((digits for digits in range(2, 7) if f"{low:.{digits}f}" != f"{high:.{digits}f}"), None)
    return "narrower than 1e-6" if digits is None else f"{low:.{digits}f} to {high:.{digits}f}"


def _few(seen: Slope) -> str:
    """Why fewer than three decades are all there are: below them rounding covers the remainder."""
    return (
        f"the remainder stands above rounding over {seen.decades:.1f} decades of ε only: below ε = {seen.smallest:.1e} length "
        f"scales it is within 100 times {seen.floor:.0e} of |f|, the measured rounding there, so no more can be had"
    )


def _narrow(seen: Slope) -> str:
    return f"the remainder stands above rounding over {seen.decades:.1f} decades of ε only, which is no slope."


def expansion_of(context: Context, draw: Draw, setting: Setting) -> Reference:
    """The declared expansion, each part that the layer leaves out as measured; under ZGZ what it need not declare is zero."""
    if not left_out(setting):
        return declared_expansion(setting)
    if too_large(setting):
        return matrix_free_expansion(setting, context.along(draw))
    return dense_expansion(setting, context.measured(draw))
