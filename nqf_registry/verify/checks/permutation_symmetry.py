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
LEAST = 2  # neurons


def check(context: Context) -> Check:
    """Runs the check: in every example all exchanges of neighbours, and some random permutations."""
    if not context.widths(LEAST):
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

        details = {"moved": _moved(orders[worst])}
        return Measurement(residual, EQUAL, counterexample=counterexample, details=details)

    outcome = context.run(measure, least=LEAST, factors=(1.0, 4.0, 0.1), every_width=True)
    context.facts.symmetric = None if outcome.worst is None or (outcome.reason and not outcome.failed) else not outcome.failed
    return context.conclude(
        NAME,
        outcome,
        context.layer.claims.symmetric,
        holds="f(Wσ) = f(W) for all exchanges of neighbours and random permutations of the neurons",
        broken="f(Wσ) differs from f(W) by {residual} of |f(W) − f(0)| where {moved}",
        advice=(
            "Find where forward tells neurons apart: an index (arange, cumsum, a slice of the last axis), a neuron left out, a "
            "constant with one entry a neuron. Such numbers belong into W."
        ),
    )


def _moved(order: list[int]) -> str:
    """What a permutation does, in words."""
    moved = [i for i, j in enumerate(order) if i != j]
    return f"neurons {moved[0]} and {moved[1]} are exchanged" if len(moved) == 2 else f"{len(moved)} neurons change places"
