"""``minimality``: the declared neuron is no stack of smaller units that are interchangeable across all neurons."""

from __future__ import annotations

from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome
from nqf_registry.verify.report import NOT_APPLICABLE, VACUOUS, Check
from nqf_registry.verify.residuals.minimality import count_splits, minimality
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import EQUAL

NAME = "minimality"


def check(context: Context) -> Check:
    """Runs the check; the residual is the smallest change of f, so it is at rounding where a neuron splits."""
    if not context.widths(2):
        return Check(
            NAME,
            VACUOUS,
            message="the width is 1: a symmetry inside one neuron does not make it a stack of units.",
            why="the width is 1",
        )
    if not count_splits(context.layer):
        return Check(
            NAME, NOT_APPLICABLE, message="no cut divides every block of a neuron into equal parts.", why="nothing to split"
        )

    def measure(draw: Draw) -> Measurement | None:
        setting = context.exact_setting(draw)
        W, fresh = context.weights(draw, setting), context.weights(draw, setting, salt=3)
        change, split = minimality(setting, W, fresh)
        if split is None:
            return None
        # The residual is how invariant f is, 1 for a stack of units; the check fails where the change is at rounding.
        data = {"split": str(split), "change": change}
        counterexample = lambda: context.describe(draw, setting, W, **data)  # noqa: E731
        return Measurement(change, EQUAL, True, counterexample, data)

    outcome: Outcome = context.run(measure, least=2, samples=(4,), share=0.25, factors=(1.0,))
    if outcome.worst is None and outcome.reason is None:
        return Check(NAME, VACUOUS, message="f depends on no part of a neuron at these inputs.", why="f depends on no part")
    return context.conclude(
        NAME,
        outcome,
        True,
        holds="no exchange of parts of neurons leaves f as it is",
        broken="a neuron is a stack of units that can be exchanged across all neurons ({split}; f changes by {change})",
        advice=(
            "Declare one part as the neuron: in blocks() divide the named axes by the number of parts, multiply the width "
            "by it, and let forward sum over all of them."
        ),
    )
