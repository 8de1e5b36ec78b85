"""``minimality``: the declared neuron is no stack of smaller units that are interchangeable across all neurons."""

from __future__ import annotations

from typing import Any

from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome
from nqf_registry.verify.report import NOT_APPLICABLE, VACUOUS, Check
from nqf_registry.verify.residuals.minimality import can_be_cut, minimality
from nqf_registry.verify.splits import Split
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
    if not can_be_cut(context.layer.blocks()):
        return Check(NAME, NOT_APPLICABLE, message="no cut makes equal parts of a neuron.", why="nothing to split")

    def measure(draw: Draw) -> Measurement | None:
        setting = context.exact_setting(draw)
        W, fresh = context.weights(draw, setting), context.weights(draw, setting, salt=3)
        seen = minimality(setting, W, fresh)
        if seen.more:
            context.notes[
                f"minimality: {seen.tried} ways to cut a neuron of p = {setting.p} were tried, the likeliest first, of more"
            ] = None
        if seen.nested is not None:
            context.notes[
                f"minimality: a neuron holds interchangeable units beside something else ({seen.nested}); as a layer of their "
                f"own, added to the rest by a composition, they are {_declared(seen.nested)}"
            ] = None
        if seen.split is None:
            return None
        # The residual is how invariant f is, 1 for a stack of units; the check fails where the change is at rounding.
        data: dict[str, Any] = {"split": str(seen.split), "change": seen.change}
        details = data | {"parts": seen.split.parts, "unit": seen.split.unit, "declare": _declared(seen.split)}
        if seen.inside is not None:
            details["inside"] = str(seen.inside)
        counterexample = lambda: context.describe(draw, setting, W, **data)  # noqa: E731
        return Measurement(seen.change, EQUAL, True, counterexample, details)

    outcome: Outcome = context.run(measure, least=2, samples=(4,), share=0.25, factors=(1.0,))
    if outcome.worst is None and outcome.reason is None:
        return Check(
            NAME, VACUOUS, message="f depends on too few parts of a neuron to exchange any.", why="f depends on too little"
        )
    return context.conclude(
        NAME,
        outcome,
        True,
        holds="no exchange of parts of neurons leaves f as it is",
        broken="a neuron is a stack of units that can be exchanged across all neurons ({split}; f changes by {change})",
        advice="Declare one part as the neuron: {declare}, and let forward sum over all of them.",
    )


def _declared(split: Split) -> str:
    """How the smaller unit is declared: what blocks() returns, and the width."""
    shapes = ", ".join(f"{name}={shape}" for name, shape in split.unit.items())
    return f"blocks: dict({shapes}), width {split.parts}·d"
