"""What the catalogue takes from a verification: facts that every machine agrees on, and the digits beside them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nqf_registry.errors import named
from nqf_registry.layer import Layer
from nqf_registry.verify.report import FAIL, Check, Report
from nqf_registry.verify.suite import verify
from nqf_registry.verify.verdict import verdict

_DIGITS = 3  # of residuals and slopes: more are noise


@dataclass(frozen=True)
class Verified:
    """The report of one layer, or what kept the verifier from making one."""

    report: Report | None
    error: str | None = None


def verify_layers(layers: Sequence[Layer], profile: str) -> dict[str, Verified]:
    """Verifies layers one after another in this process.

    Args:
        layers: at the sizes that are to be verified.
        profile: of the verifier.

    Returns:
        By key; a layer at which the verifier itself failed has the error in place of a report.
    """
    return {layer.key: _attempt(layer, profile) for layer in layers}


def first_use(layer: Layer) -> Verified:
    """The verdict of a layer, measured now if it never was; kept until its source changes."""
    try:
        return Verified(verdict(layer))
    except Exception as error:
        return Verified(None, named(error))


def facts_of_report(report: Report) -> dict[str, Any]:
    """What the report says and every machine would: statuses, bounds that were met, the rounded order of the remainder."""
    return {
        "passed": report.passed,
        "classification": report.classification,
        "leading_order": report.leading_order,
        "remainder": remainder(report),
        "checks": {check.name: _facts_of_check(check) for check in report.checks},
    }


def _facts_of_check(check: Check) -> dict[str, Any]:
    facts: dict[str, Any] = {"status": check.status, "bound": met_bound(check)}
    if check.stopped:  # the only thing here that depends on the machine, so that it can never be committed unseen
        facts["stopped"] = True
    return facts


def measurements_of_report(report: Report) -> dict[str, Any]:
    """The digits of the report, with what produced them."""
    return {
        "seed": report.seed,
        "profile": report.profile,
        "versions": dict(report.versions),
        "notes": list(report.notes),
        "checks": {check.name: _digits(check) for check in report.checks},
    }


def remainder(report: Report) -> str | int | None:
    """The order of what the expansion leaves out, rounded; "exact" where it is nothing, None where no slope was seen."""
    check = next((check for check in report.checks if check.name == "remainder-order"), None)
    if check is None or not check.ran:
        return None
    if report.classification == "exact-nqf" and check.status != FAIL:
        return "exact"
    slope = check.residual if check.bound == "at least" else None
    return round(slope) if slope is not None and math.isfinite(slope) else None


def met_bound(check: Check) -> str | None:
    """The tolerance that a residual met, "≤ 1e-10"; None where it was not met or nothing was measured."""
    if check.residual is None or check.tolerance is None:
        return None
    if check.residual == check.tolerance == 0:
        return "= 0"
    if check.bound == "at least":
        return f"≥ {check.tolerance:g}" if check.residual >= check.tolerance else None
    return f"≤ {check.tolerance:g}" if check.residual <= check.tolerance else None


def _attempt(layer: Layer, profile: str) -> Verified:
    try:
        return Verified(verify(layer, profile))
    except Exception as error:  # the verifier reports what a layer raises; what it could not catch must not stop the other rows
        return Verified(None, named(error))


def _digits(check: Check) -> dict[str, Any]:
    return {
        "residual": _short(check.residual),
        "tolerance": check.tolerance,
        "examples": check.examples,
        "message": check.message,
        "details": _short(check.details),
    }


def _short(value: Any) -> Any:
    """Numbers to a few digits, at any depth; what JSON has no number for as a word."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): _short(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_short(part) for part in value]
    return value if isinstance(value, bool | int | str | None) else str(value)
