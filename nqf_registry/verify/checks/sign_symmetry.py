"""``sign-symmetry``: f does not change when one neuron changes sign."""

from __future__ import annotations

from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.sign_symmetry import sign_symmetry
from nqf_registry.verify.strategies import Draw, simplify
from nqf_registry.verify.tolerances import EQUAL

NAME = "sign-symmetry"


def check(context: Context) -> Check:
    """Runs the check: in every example each neuron is flipped in turn."""

    def measure(draw: Draw) -> Measurement | None:
        if context.instances[draw.instance].claims.sign_symmetric != context.layer.claims.sign_symmetric:
            return None
        setting = context.exact_setting(draw)
        W = context.weights(draw, setting)
        residual, neuron = sign_symmetry(setting, W)

        def counterexample() -> dict:
            small = simplify(W, draw.factor * setting.scale, lambda w: sign_symmetry(setting, w)[0] > EQUAL)
            return context.describe(draw, setting, small, neuron=sign_symmetry(setting, small)[1])

        return Measurement(residual, EQUAL, counterexample=counterexample, details={"neuron": neuron})

    outcome = context.run(measure, every_width=True, factors=(1.0, 4.0), share=0.75)
    return context.conclude(
        NAME,
        outcome,
        context.layer.claims.sign_symmetric,
        holds="f does not change when one neuron changes sign",
        broken="flipping neuron {neuron} changes f by {residual} of |f(W) − f(0)|",
        advice=(
            "Leave sign_symmetric out of the claims, or find what is not even in one neuron: an activation that is not odd, a "
            "bias, a product of three of its weights."
        ),
    )
