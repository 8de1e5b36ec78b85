"""What is true of the layers of a catalogue together, counted by what each was measured to be."""

from __future__ import annotations

from collections.abc import Sequence

from nqf_registry.report.columns import Facts, is_general, is_quadratic

GENERAL = (
    r"f_x(W)=f_x(0)+g(x)^\top\mu+\operatorname{Tr}[WW^\top(A(x)-B(x))]+\mu^\top B(x)\mu+\text{remainder},\quad\mu=\sum_i w_i"
)


def summary(entries: Sequence[Facts]) -> str:
    """Sentences that hold for what is shown: how many layers are a quadratic form, and what the others are.

    Example:
        >>> summary([{"passed": True, "classification": "nqf"}, {"passed": False}])
        'Near small weights 1 of the 2 layers below is a quadratic form; 1 does not pass its verification and is marked.'
    """
    total, passing = len(entries), [facts for facts in entries if facts.get("passed")]
    quadratic = sum(map(is_quadratic, passing))
    general = sum(map(is_general, passing))
    higher = sum(facts.get("classification") == "higher-order" for facts in passing)
    other = len(passing) - quadratic - general - higher
    failing = total - len(passing)
    if total and quadratic == total:
        subject = f"each of the {total} layers" if total > 1 else "the layer"
        return f"Near small weights {subject} below is a quadratic form."
    first = f"Near small weights {quadratic} of the {total} layers below {_is(quadratic)} a quadratic form"
    parts = [
        f"{general} {_is(general)} a general one, with terms linear in a neuron and couplings between neurons"
        if general
        else "",
        f"{higher} {'starts' if higher == 1 else 'start'} at a higher order, with A = 0" if higher else "",
        f"{other} {'has' if other == 1 else 'have'} no such form, and {'says' if other == 1 else 'say'} so" if other else "",
        (
            f"{failing} {'does not pass its' if failing == 1 else 'do not pass their'} verification and {_is(failing)} marked"
            if failing
            else ""
        ),
    ]
    return "; ".join([first, *filter(None, parts)]) + "."


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
