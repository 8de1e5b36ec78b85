"""Failures that the caller expects: each with a reason, and where wanted with the example that must go on failing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.context import sizes_of
from nqf_registry.verify.examples import parse_example
from nqf_registry.verify.messages import REPORT, labelled
from nqf_registry.verify.replay import impossible, replay
from nqf_registry.verify.report import FAIL, UNDECIDED, Check, Report
from nqf_registry.verify.suite import ALWAYS, NOT_TRIED


@dataclass(frozen=True)
class ExpectedFailure:
    """A check that is known to fail.

    Attributes:
        reason: why, in words for whoever reads the test.
        example: the line under ``"example"`` in a counterexample, such as ``"smoothness:width=2,weights=17"``. Where it is
            given it is measured again and must fail again; "" leaves open which example fails.
    """

    reason: str
    example: str = ""


class KnownFailure(AssertionError):
    """A check failed that was expected to: pytest shows it as xfail."""


Expected = Mapping[str, Mapping[str, "str | ExpectedFailure"]]


def read_expected(expected: Expected | None, keys: list[str]) -> dict[str, dict[str, ExpectedFailure]]:
    """What was given as expected failures, by key of a layer and name of a check.

    Args:
        expected: ``{key: {check: reason}}``; instead of a reason, an :class:`ExpectedFailure`.
        keys: of the layers under test.

    Raises:
        InvalidInput: a layer or check is named that there is none of, a reason is missing, or an example is no line of the
            check that it stands for.
    """
    read: dict[str, dict[str, ExpectedFailure]] = {}
    if expected is not None and not isinstance(expected, Mapping):
        raise InvalidInput(f"expected_failures is {{key of a layer: {{check: reason}}}}, got {expected!r}.")
    for key, checks in (expected or {}).items():
        if not isinstance(checks, Mapping):
            raise InvalidInput(f"expected_failures is {{key of a layer: {{check: reason}}}}; under {key!r} stands {checks!r}.")
        if key not in keys:
            raise InvalidInput(
                f"expected_failures names the layer {key!r}; the layers given are {', '.join(dict.fromkeys(keys))}."
            )
        read[key] = {name: _read(key, name, given) for name, given in checks.items()}
    return read


def _read(key: str, name: str, given: object) -> ExpectedFailure:
    if name not in CHECKS:
        raise InvalidInput(f"expected_failures names the check {name!r} of {key}; the checks are {', '.join(CHECKS)}.")
    failure = ExpectedFailure(given) if isinstance(given, str) else given
    if not isinstance(failure, ExpectedFailure) or not isinstance(failure.reason, str) or not failure.reason.strip():
        raise InvalidInput(
            f"an expected failure needs a reason, a text or ExpectedFailure(reason, example); {name} of {key} has {given!r}."
        )
    if not isinstance(failure.example, str):
        raise InvalidInput(f"the example of an expected failure is a line; {name} of {key} has {failure.example!r}.")
    if failure.example and (about := parse_example(failure.example, CHECKS)[0]) != name:
        raise InvalidInput(f"the example expected to fail for {name} of {key} is one of {about}: {failure.example!r}.")
    return failure


def require_possible(layer: Layer, expected: Mapping[str, ExpectedFailure]) -> None:
    """Refuses pinned examples that a layer cannot have, before anything is measured.

    Args:
        layer: under test.
        expected: by name of a check.

    Raises:
        InvalidInput: naming the layer, the example, and what to pin.
    """
    for name, failure in expected.items():
        if failure.example and (reason := impossible(layer, failure.example)):
            raise InvalidInput(
                f"the example pinned for {name} of {layer.key}, {failure.example!r}, cannot be measured: {reason}. Pin the "
                "example that the failing check shows under replay."
            )


def excused(report: Report, name: str, expected: Mapping[str, ExpectedFailure]) -> ExpectedFailure | None:
    """The expected failure of another check that kept this one from being tried; None where there is none."""
    first = ALWAYS[0]
    untried = report[name].status == UNDECIDED and report[name].why == NOT_TRIED
    return expected.get(first) if untried and name not in expected and report[first].status == FAIL else None


def judge(layer: Layer, check: Check, failure: ExpectedFailure | None, profile: str) -> str:
    """What is wrong about a check, given what was expected of it; "" where nothing is.

    Args:
        layer: that was verified.
        check: of its report.
        failure: what was expected to fail, None where the check was expected to pass.
        profile: of the verification.
    """
    if failure is None:
        return _told(layer, check) if check.broken else ""
    if not failure.example:
        return "" if check.broken else _remove(layer, check, failure)
    again = replay(layer, failure.example, profile)
    if again.broken:
        return ""
    stale = f"{layer.key}: the pinned example '{failure.example}' no longer fails (its status is {again.status})"
    if check.broken:
        new = (check.counterexample or {}).get("example", "")
        pin = f"; pin example={new!r} instead" if new else ""
        return f"{stale}, but {check.name} still does{pin}.\n{_told(layer, check)}"
    return f"{stale}.\n{_remove(layer, check, failure)}"


def _remove(layer: Layer, check: Check, failure: ExpectedFailure) -> str:
    return (
        f"{layer.key}: {check.name} was expected to fail ({failure.reason}), but its status is {check.status}. "
        "Remove it from expected_failures."
    )


def _told(layer: Layer, check: Check) -> str:
    """The message of a check; of a failing one on labelled lines."""
    if check.status != FAIL or not check.expected:
        return check.message
    return "\n  ".join([f"{layer.key}: {check.name} failed", *labelled(check, sizes_of(layer), REPORT)])
