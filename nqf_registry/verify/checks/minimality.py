"""``minimality``: the declared neuron is no stack of smaller units that are interchangeable across all neurons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from nqf_registry.layer import declares
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome
from nqf_registry.verify.report import NOT_APPLICABLE, VACUOUS, Check
from nqf_registry.verify.residuals.minimality import can_be_cut, minimality
from nqf_registry.verify.splits import Split
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import EQUAL

NAME = "minimality"
LEAST = 2  # neurons


def check(context: Context) -> Check:
    """Runs the check; the residual is the smallest change of f, so it is at rounding where a neuron splits."""
    if not context.widths(LEAST):
        return Check(
            NAME,
            VACUOUS,
            message="the width is 1: a symmetry inside one neuron does not make it a stack of units.",
            why="the width is 1",
        )
    if not can_be_cut(context.layer.blocks()):
        return Check(NAME, NOT_APPLICABLE, message="no cut makes equal parts of a neuron.", why="nothing to split")

    inside: dict[str, Split] = {}

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
        if seen.inside is not None:
            inside[str(seen.inside)] = seen.inside
        if seen.split is None:
            return None
        # The residual is how invariant f is, 1 for a stack of units; the check fails where the change is at rounding.
        data: dict[str, Any] = {"split": str(seen.split), "change": seen.change}
        details: dict[str, Any] = {"change": seen.change}
        if not seen.change >= EQUAL:
            details |= data | {"parts": seen.split.parts, "unit": seen.split.unit, "declare": _declared(seen.split)}
        counterexample = lambda: context.describe(draw, setting, W, **data)  # noqa: E731
        return Measurement(seen.change, EQUAL, True, counterexample, details)

    outcome: Outcome = context.run(measure, least=LEAST, samples=(4,), share=0.25, factors=(1.0,))
    if outcome.worst is None and outcome.reason is None:
        return Check(
            NAME, VACUOUS, message="f depends on too few parts of a neuron to exchange any.", why="f depends on too little"
        )
    holds, more = "no exchange of parts between neurons leaves f as it is", ""
    if inside and not outcome.failed:
        more = f"; inside one neuron it may ({' or '.join(inside)})"
        for split in inside.values():
            context.notes[f"minimality: {_within(split, context.layer.blocks())}"] = None
    sums = "forward sum over all of them" if declares(context.layer, "forward") else "unit give that one; the layer sums"
    return context.conclude(
        NAME,
        outcome,
        True,
        holds=holds + more,
        broken="a neuron is a stack of units that can be exchanged across all neurons ({split}; f changes by {change})",
        advice=f"Declare one part as the neuron: {{declare}}, and let {sums}.",
    )


def _within(split: Split, blocks: dict[str, tuple[int, ...]]) -> str:
    """What parts of a neuron are that may be exchanged inside it only, and whether they can be declared."""
    parts = f"a neuron holds {split.parts} parts that may be exchanged inside it, not between neurons ({split})"
    if not split.rest:
        return f"{parts}: f depends on them together, as on a and b in (a·x)(b·x), so none is a unit of its own"
    shared = " and ".join(split.rest)
    own = replace(split, unit={**split.unit, **{name: tuple(blocks[name]) for name in split.rest}})
    return (
        f"{parts}: as all of them use the neuron's one {shared}, they cannot be declared as neurons of this layer; with "
        f"{shared} of its own each would be one ({_declared(own)}), which is a larger layer"
    )


def _declared(split: Split) -> str:
    """How the smaller unit is declared: what blocks() returns, and the width."""
    shapes = ", ".join(f"{name}={shape}" for name, shape in split.unit.items())
    return f"blocks: dict({shapes}), width {split.parts}·d"
