"""What a layer is, from what was measured: claims play no part in it."""

from __future__ import annotations

from collections.abc import Mapping

from nqf_registry.verify.context import Facts

CLASSIFICATIONS = (
    "exact-nqf",
    "nqf",
    "general-nqf",
    "higher-order",
    "not-smooth",
    "not-symmetric",
    "no-neurons",
    "undecided",
)
HIGHEST = 6


def classify(facts: Facts) -> tuple[str, int | None]:
    """The classification and, where it is higher-order, the leading order.

    The first that applies of: not-symmetric, not-smooth, general-nqf, exact-nqf, higher-order, nqf. A layer that is no
    function of W is undecided, and so is one of which something that the answer rests on could not be measured.
    """
    if not facts.deterministic or facts.symmetric is None:
        return "undecided", None
    if not facts.symmetric:
        return "not-symmetric", None
    if facts.smooth is None:
        return "undecided", None
    if not facts.smooth:
        return "not-smooth", None
    if not facts.finite or facts.zgz is None:
        return "undecided", None
    if not facts.zgz:
        return "general-nqf", None
    if facts.exact is None:
        return "undecided", None
    if facts.exact:
        return "exact-nqf", None
    if facts.order is None:
        return "undecided", None
    if facts.order < 2.5:
        return "nqf", None
    order = round(facts.order)
    return ("higher-order", order) if order <= HIGHEST else ("undecided", None)


def why_undecided(facts: Facts, causes: Mapping[str, str] | None = None) -> str:
    """The reason of the classification ``undecided``.

    Args:
        facts: what was measured.
        causes: by name of a check, what kept it from a decision; told instead of what it led to.
    """
    known = causes or {}
    if not facts.deterministic:
        if facts.deterministic is None:
            return "the layer could not be evaluated"
        return "the layer is no function of W and x" if facts.repeatable else "its samples cannot be drawn again"
    for check, name, value in (
        ("permutation-symmetry", "permutation symmetry", facts.symmetric),
        ("smoothness", "smoothness", facts.smooth),
    ):
        if value is None:
            return _unmeasured(name, known.get(check, ""))
    if facts.finite is None:
        return _unmeasured("whether f is finite", known.get("finiteness", ""))
    if not facts.finite:
        return "f has no finite value at W = 0 or near it, though its limits are smooth"
    if facts.zgz is None:
        return _unmeasured("the gradient at zero", known.get("zero-gradient-at-zero", ""))
    if facts.exact is None:
        return _unmeasured("the remainder", known.get("remainder-order", ""))
    kept = "the expansion up to order two vanishes, and what is promised of it was measured all the same"
    if facts.order is None:
        where = f" up to weights of about {facts.still:.1e}" if facts.still is not None else " near it"
        return f"f does not move away from W = 0{where} and moves further out, so it has no leading order; {kept}"
    return f"its leading order is {facts.order:.3g}, and orders up to {HIGHEST} have a name; {kept}"


def _unmeasured(what: str, cause: str) -> str:
    return f"{what} could not be measured" + f": {cause.rstrip('.')}" * bool(cause)
