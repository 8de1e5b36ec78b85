"""``permutation-symmetry``: f(Wσ) = f(W) for every permutation σ of the neurons."""

from __future__ import annotations

import torch

from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import VACUOUS, Check
from nqf_registry.verify.residuals.permutation_symmetry import permutation_symmetry
from nqf_registry.verify.strategies import Draw, permutations, simplify
from nqf_registry.verify.tolerances import EQUAL

NAME = "permutation-symmetry"


def check(context: Context) -> Check:
    """Runs the check: in every example all exchanges of neighbours, and one random permutation."""
    if not context.widths(2):
        context.facts.symmetric = True
        return Check(NAME, VACUOUS, message="the width is 1: there is nothing to permute.", why="the width is 1")

    def measure(draw: Draw) -> Measurement | None:
        if not context.instances[draw.instance].claims.symmetric and draw.instance:
            return None
        setting = context.exact_setting(draw)
        W = context.weights(draw, setting)
        orders = permutations(setting.d, torch.Generator().manual_seed(draw.weights))
        residual, worst = permutation_symmetry(setting, W, orders)

        def counterexample() -> dict:
            small = simplify(
                W, draw.factor * setting.scale, lambda w: permutation_symmetry(setting, w, [orders[worst]])[0] > EQUAL
            )
            values = setting.values(torch.stack([small, small[:, orders[worst]]]))
            sample, output = divmod(int((values[0] - values[1]).abs().argmax()), values.shape[-1])
            found = {"permutation": orders[worst], "sample": sample, "output": output}
            found |= {"f(W)": float(values[0, sample, output]), "f(Wσ)": float(values[1, sample, output])}
            return context.describe(draw, setting, small, **found)

        return Measurement(residual, EQUAL, counterexample=counterexample)

    outcome = context.run(measure, least=2, factors=(1.0, 4.0, 0.1), every_width=True)
    context.facts.symmetric = None if outcome.worst is None or (outcome.reason and not outcome.failed) else not outcome.failed
    return context.conclude(
        NAME,
        outcome,
        context.layer.claims.symmetric,
        holds="f(Wσ) = f(W) for all exchanges of neighbours and random permutations of the neurons",
        broken="f(Wσ) differs from f(W) by {residual} of |f(W) − f(0)|",
        advice="Let every neuron enter in the same way; weights that differ by neuron belong into W.",
    )
