"""``zero-gradient-at-zero``: the gradient by a neuron vanishes where that neuron is zero, whatever the others are."""

from __future__ import annotations

from nqf_registry.verify.context import Context, parameter_name
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.zero_gradient_at_zero import zero_gradient
from nqf_registry.verify.strategies import Draw, simplify
from nqf_registry.verify.tolerances import DIFFERENCES, EQUAL

NAME = "zero-gradient-at-zero"


def check(context: Context) -> Check:
    """Runs the check. Autodiff decides where one-sided differences agree with it, differences where they do not."""

    def measure(draw: Draw) -> Measurement | None:
        if draw.instance and context.instances[draw.instance].claims.zgz != context.layer.claims.zgz:
            return None
        setting = context.exact_setting(draw)
        W, neuron = context.weights(draw, setting), draw.neuron % setting.d
        directions = context.rays(draw, setting, 2)[..., 0]  # (2, p)
        seen = zero_gradient(setting, W, neuron, directions)
        trusted = seen.autodiff is not None and seen.disagreement <= DIFFERENCES
        if seen.autodiff is None:
            context.notes[f"the gradient by a zero neuron is from differences: autodiff refused ({seen.refusal})"] = None
        elif not trusted and seen.differences <= DIFFERENCES:
            context.notes["autodiff and finite differences disagree on the gradient by a zero neuron; differences decide"] = (
                None
            )
        residual, tolerance = (seen.autodiff or 0.0, EQUAL) if trusted else (seen.differences, DIFFERENCES)

        def counterexample() -> dict:
            def fails(w):
                again = zero_gradient(setting, w, neuron, directions)
                return (again.autodiff or 0.0) > tolerance if trusted else again.differences > tolerance

            small = simplify(W, draw.factor * setting.scale, fails)
            small[:, neuron] = 0
            again = zero_gradient(setting, small, neuron, directions)
            return context.describe(
                draw, setting, small, neuron=neuron, parameter=parameter_name(setting.layer, again.parameter)
            )

        source = "autodiff" if trusted else "one-sided differences"
        details = {"source": source, "neuron": neuron}
        if not residual <= tolerance:
            alone = zero_gradient(setting, setting.zero, neuron, directions)
            details |= _COUPLED if ((alone.autodiff or 0.0) if trusted else alone.differences) <= tolerance else _LINEAR
        return Measurement(residual, tolerance, counterexample=counterexample, details=details)

    outcome = context.run(measure, factors=(1.0, 0.1, 3.0), every_width=True, samples=(4,))
    context.facts.zgz = None if outcome.worst is None or (outcome.reason and not outcome.failed) else not outcome.failed
    return context.conclude(
        NAME,
        outcome,
        context.layer.claims.zgz,
        holds="the gradient by a neuron vanishes where that neuron is zero, with the others at random values",
        broken="the gradient by neuron {neuron} at zero is {residual} of |f(W) − f(0)| / |W| {others} ({source})",
        advice="{advice}",
    )


_DECLARE = "If it is meant, claim zgz=False and declare linear(x) and cross(x)."
_LINEAR = {
    "others": "even with the others at zero",
    "advice": (
        f"Look for a part of f of first order in one neuron: φ(0) ≠ 0, a bias, a kink such as |a| (see smoothness). {_DECLARE}"
    ),
}
_COUPLED = {
    "others": "while the others are not zero",
    "advice": (
        f"Look for neurons that meet inside f: a nonlinearity of their sum, a product or a normalisation over them. {_DECLARE}"
    ),
}
