"""For the tests of plugins: every check of every layer as a test of its own, and a plain runner without pytest.

In a plugin's own test file::

    from my_plugin import MyLayer
    from nqf_registry.testing import parametrize_with_checks


    @parametrize_with_checks([MyLayer()])
    def test_my_layer(layer, check):
        check(layer)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.report import FAIL, UNDECIDED, Report
from nqf_registry.verify.suite import SUITE, verify
from nqf_registry.verify.text import counterexample_lines


@dataclass
class _Verification:
    """One layer's report, measured when the first of its checks is asked for."""

    layer: Layer
    profile: str
    seed: int
    _report: Report | None = field(default=None, repr=False)

    def report(self) -> Report:
        if self._report is None:
            self._report = verify(self.layer, self.profile, self.seed)
        return self._report


@dataclass(frozen=True)
class LayerCheck:
    """One check of one layer: ``check(layer)`` raises if it did not hold.

    Attributes:
        name: which check.
    """

    name: str
    _source: _Verification = field(repr=False)

    def __call__(self, layer: Layer) -> None:
        """Raises where the check failed, or could not be decided though the layer promises it.

        Raises:
            AssertionError: with the message of the check and its counterexample, shortened.
        """
        source = self._source if layer is self._source.layer else _Verification(layer, self._source.profile, self._source.seed)
        result = source.report()[self.name]
        if result.broken:
            lines = counterexample_lines(result.counterexample or {})
            raise AssertionError("\n  ".join([f"{result.message}\ncounterexample:", *lines]))


def checks_of(layer: Layer, profile: str = "ci", seed: int = 0, suite: str = SUITE) -> list[LayerCheck]:
    """The checks of one layer; together they verify it once.

    Raises:
        InvalidInput: this version of the library has another suite of checks than the one asked for.
    """
    if suite != SUITE:
        raise InvalidInput(f"this version of nqf_registry has the suite {SUITE!r} of checks, {suite!r} was asked for.")
    source = _Verification(layer, profile, seed)
    return [LayerCheck(name, source) for name in CHECKS]


def parametrize_with_checks(
    layers: Iterable[Layer],
    expected_failures: Mapping[str, Mapping[str, str]] | None = None,
    profile: str = "ci",
    seed: int = 0,
    suite: str = SUITE,
) -> Callable[[Any], Any]:
    """A pytest decorator: the test function is called with ``layer`` and ``check``, once for each check of each layer.

    Args:
        layers: instances.
        expected_failures: by key of a layer, the checks that are known to fail, each with the reason. One that passes
            is an error.
        profile: dev, ci or deep.
        seed: of all draws.
        suite: version of the suite of checks that the tests were written for.

    Raises:
        InvalidInput: no layer was given, or an expected failure names a check or a layer that there is none of.
    """
    import pytest

    layers = list(layers)
    expected = {key: dict(reasons) for key, reasons in (expected_failures or {}).items()}
    if not layers:
        raise InvalidInput("parametrize_with_checks needs at least one layer; with none, nothing would be tested.")
    for key, reasons in expected.items():
        if key not in {layer.key for layer in layers}:
            raise InvalidInput(f"expected_failures names the layer {key!r}, which is not among those given.")
        if unknown := [name for name in reasons if name not in CHECKS]:
            raise InvalidInput(f"expected_failures names {', '.join(unknown)}; the checks are {', '.join(CHECKS)}.")
    parameters = []
    for layer in layers:
        for check in checks_of(layer, profile, seed, suite):
            reason = expected.get(layer.key, {}).get(check.name)
            marks = [pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)] if reason else []
            parameters.append(pytest.param(layer, check, id=f"{layer.key}-{check.name}", marks=marks))
    return pytest.mark.parametrize(("layer", "check"), parameters)


def assert_passes(
    layer: Layer, expected_failures: Mapping[str, str] | None = None, profile: str = "ci", seed: int = 0
) -> Report:
    """Verifies a layer without pytest.

    Args:
        layer: an instance.
        expected_failures: the checks that are known to fail, each with the reason.
        profile: dev, ci or deep.
        seed: of all draws.

    Returns:
        The report.

    Raises:
        AssertionError: a check failed that was not expected to, or one passed that was expected to fail.
    """
    expected = dict(expected_failures or {})
    report = verify(layer, profile, seed)
    surprises = [check.message for check in report.failures if check.name not in expected]
    surprises += [
        f"{layer.key}: {name} was expected to fail ({reason}), but its status is {report[name].status}"
        for name, reason in expected.items()
        if report[name].status not in (FAIL, UNDECIDED)
    ]
    if surprises:
        raise AssertionError("\n".join(surprises))
    return report
