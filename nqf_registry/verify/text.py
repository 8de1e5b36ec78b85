"""A report as text: a table of the checks, and what there is to say of those that did not pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nqf_registry.verify.explanation import about_precision
from nqf_registry.verify.messages import labelled
from nqf_registry.verify.report import FAIL, UNDECIDED, Check, Report


def render(report: Report, verbose: bool = False) -> str:
    """The table, then the messages of the checks that did not pass (of all, if verbose).

    A cause that several checks share is said once. A layer that cannot be evaluated, or not
    within its budget, has its cause alone.
    """
    verdict = "passed" if report.passed else "DID NOT PASS"
    if report.cause and not verbose:
        lines = [
            line
            for check in report.checks
            if check.expected and check.status == FAIL
            for line in told(report.layer, check, report.sizes)
        ]
        if report.hurried:
            return f"{report.layer}: {verdict}, nothing was measured ({report.count})\n  {report.cause}"
        where = " in float64" * about_precision(report.cause)
        head = f"{report.layer}: {verdict}, it cannot be evaluated{where} ({report.count})"
        return "\n".join(
            [head, *(lines or [f"  {report.cause}"]), f"  {'the other' if lines else 'the'} checks were not tried"]
        )
    lines = [f"{report.layer}: {verdict}, {report.kind}{report.because} ({report.count}, {report.seconds:.1f} s)"]
    head = ("check", "status", "residual", "tolerance", "examples", "")
    rows = [
        (c.name, c.status, short(c.residual), _comparison(c), f"{c.examples}{', time ran out' * c.stopped}", _why(c))
        for c in report.checks
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines += [
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in [head, *rows]
    ]
    causes: set[str] = set()
    for check in report.checks:
        if not check.message or not (verbose or check.status in (FAIL, UNDECIDED)):
            continue
        if check.cause:
            if check.status == FAIL:
                lines += told(report.layer, check, report.sizes)
            elif check.cause not in causes:
                causes.add(check.cause)
                alike = [other.name for other in report.checks if other.cause == check.cause and other.status != FAIL]
                lines.append(f"  {', '.join(alike)}: {check.cause}")
            continue
        lines += told(report.layer, check, report.sizes)
    lines += [f"  note: {note}" for note in report.notes]
    return "\n".join(lines)


def told(key: str, check: Check, sizes: Mapping[str, Any]) -> list[str]:
    """A failing check on labelled lines; of any other its message."""
    if check.status != FAIL or not check.expected:
        return [f"  {check.name}: {check.message}"]
    return [f"  {key}: {check.name} failed", *(f"    {line}" for line in labelled(check, sizes))]


def short(value: float | None) -> str:
    """A number in a table cell."""
    return "-" if value is None else f"{value:.2f}" if 0.1 <= abs(value) < 100 else f"{value:.1e}" if value else "0"


def _comparison(check: Check) -> str:
    return "-" if check.tolerance is None else ("≥ " if check.bound == "at least" else "≤ ") + short(check.tolerance)


def _why(check: Check) -> str:
    return "" if check.ran or check.status == FAIL else check.why or ("see below" if check.status == UNDECIDED else "")
