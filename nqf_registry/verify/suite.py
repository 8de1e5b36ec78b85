"""``verify``: runs the nine checks on a layer and makes the report."""

from __future__ import annotations

import dataclasses
import time

import torch

import nqf_registry
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, class_hint, declares, is_looped
from nqf_registry.verify.budget import budget_of, timed, too_long
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.checks.structure_matrix import PARTS
from nqf_registry.verify.classification import classify, why_undecided
from nqf_registry.verify.context import Context, sizes_of
from nqf_registry.verify.explanation import about_inputs, about_precision, explain
from nqf_registry.verify.first_call import TooLarge, first_call
from nqf_registry.verify.guard import contained, guarded
from nqf_registry.verify.profiles import find_profile
from nqf_registry.verify.report import OVER, UNDECIDED, UNNAMED, Check, Report
from nqf_registry.verify.source import source_hash

SUITE = "2"
ALWAYS = ("determinism", "finiteness")
NOT_TRIED = "not tried"  # why the others did not run, of a layer that is no function


def verify(layer: Layer, profile: str = "dev", seed: int = 0, seconds: float | None = None) -> Report:
    """Measures what a layer claims, and what it is.

    Args:
        layer: any layer; its width is varied, its other sizes stay as they are, unless it offers ``variants()``.
        profile: brief, dev, ci or deep: how many examples each check measures.
        seed: the same seed gives the same report.
        seconds: how long it may take, by an estimate made before anything is measured; a verification that would take longer
            is not begun, and each of its checks is undecided. Left out, that of the profile.

    Returns:
        The report: ``passed``, ``classification``, and nine checks. Whatever the layer raises is in the message of the check
        that met it.

    Raises:
        InvalidInput: the profile is unknown, the budget is no positive number, or this is no layer.

    Example:
        >>> import nqf_registry as nqf
        >>> report = nqf.verify(nqf.default_registry().get("quadratic-network"))
        >>> report.passed, report.classification
        (True, 'exact-nqf')
    """
    effort = find_profile(profile)
    budget = budget_of(effort, seconds)
    if seconds is not None:
        effort = dataclasses.replace(effort, seconds=budget)
    if not isinstance(layer, Layer):
        raise InvalidInput(f"verify expects an nqf.Layer, got {type(layer).__name__}{class_hint(layer)}.")
    begin = time.perf_counter()
    with guarded(layer):  # by itself: a layer that seeds torch's generator would be seen as changing nothing the second time
        cause, over = called(layer)
    with guarded(layer):
        context = Context(layer, effort, seed)
        over = over if cause or over else too_long(timed(context), budget)
    with guarded(layer):
        checks = [
            dataclasses.replace(
                not_begun(layer, name, over) if over else run_check(context, name, cause), promised=promises(layer, name)
            )
            for name in CHECKS
        ]
    classification, order = classify(context.facts)
    if classification == "undecided" and not cause and not over:
        causes = {check.name: check.cause for check in checks if check.status == UNDECIDED}
        context.notes[f"{UNNAMED}{why_undecided(context.facts, causes)}"] = None
    if context.disagreement is not None:
        off = (
            "gives nan"
            if context.disagreement != context.disagreement
            else f"is off by up to {context.disagreement:.1e} of |f(W) − f(0)|"
        )
        context.notes[
            f"autodiff and finite differences disagree at W = 0: autodiff {off} along random rays; differences are "
            "taken for the truth"
        ] = None
    if is_looped(layer):
        context.notes["vmap refused the layer; its neurons or replicas were looped over"] = None
    return Report(
        layer=layer.key,
        passed=not any(check.broken for check in checks),
        classification=classification,
        leading_order=order,
        checks=tuple(checks),
        sizes=sizes_of(layer),
        profile=effort.name,
        seed=seed,
        notes=tuple(context.notes),
        versions={"nqf_registry": nqf_registry.__version__, "suite": SUITE, "torch": torch.__version__},
        source=source_hash(layer),
        seconds=time.perf_counter() - begin,
        cause=cause or over,
    )


def called(layer: Layer) -> tuple[str, str]:
    """What keeps a layer from being evaluated, and what memory it would take that there is not; "" where nothing does."""
    try:
        return first_call(layer), ""
    except TooLarge as reason:
        return "", str(reason)


def not_begun(layer: Layer, name: str, over: str) -> Check:
    """A check of a verification that is over its budget of time or memory."""
    message = f"{layer.key}: {name} was not begun: {over}"
    return Check(name, UNDECIDED, message=message, why=OVER, cause=over)


def promises(layer: Layer, name: str) -> bool:
    """Whether a layer claims or declares what a check measures; the checks not listed here are promised by every layer."""
    claims = layer.claims
    return {
        "permutation-symmetry": claims.symmetric,
        "zero-gradient-at-zero": claims.zgz,
        "smoothness": claims.smooth,
        "structure-matrix": any(declares(layer, part) for part in PARTS),
        "remainder-order": claims.smooth or claims.exact,
        "sign-symmetry": claims.sign_symmetric,
    }.get(name, True)


def run_check(context: Context, name: str, cause: str) -> Check:
    """One check, or what kept it from being made.

    Args:
        context: of the verification.
        name: of the check.
        cause: what keeps the layer from being evaluated, "" where it can be.
    """
    key = context.layer.key
    if cause and name in ALWAYS:  # a layer that raises has no finite value
        if name == "finiteness" and not about_inputs(cause) and not about_precision(cause):
            return context.unevaluated(name, cause)
        return Check(name, UNDECIDED, message=f"{key}: {name}: {cause}", why="cannot be evaluated", cause=cause)
    if name not in ALWAYS and context.facts.deterministic is not True:
        why = f"{why_undecided(context.facts)}, see {ALWAYS[0]}"
        return Check(name, UNDECIDED, message=f"{key}: {name} was not tried: {why}.", why=NOT_TRIED, cause=f"not tried: {why}")
    try:
        with contained():
            return CHECKS[name](context)
    except Exception as error:
        cause = explain(error, context.layer)
        return Check(name, UNDECIDED, message=f"{key}: {name} could not be decided: {cause}", cause=cause)
