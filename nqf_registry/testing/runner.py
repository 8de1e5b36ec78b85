"""``assert_passes``: the verification of a layer as one assertion, without pytest."""

from __future__ import annotations

from nqf_registry.layer import Layer
from nqf_registry.testing.checks import require_suite
from nqf_registry.testing.expected import Expected, excused, judge, read_expected, require_possible
from nqf_registry.verify.report import Report
from nqf_registry.verify.suite import SUITE, verify


def assert_passes(
    layer: Layer, expected_failures: Expected | None = None, profile: str = "ci", seed: int = 0, suite: str = SUITE
) -> Report:
    """Verifies a layer without pytest.

    Args:
        layer: an instance.
        expected_failures: ``{key: {check: reason}}``, or an :class:`~nqf_registry.testing.ExpectedFailure` with a reason and a
            pinned example instead of the reason.
        profile: brief, dev, ci or deep.
        seed: of all draws.
        suite: version of the suite of checks that the caller was written for.

    Returns:
        The report.

    Raises:
        AssertionError: a check failed that was not expected to, one passed that was expected to fail, or a pinned example no
            longer fails.
        InvalidInput: this is no layer, an expected failure names a check or a layer that there is none of or gives no reason,
            or the library has another suite.

    Example:
        >>> import nqf_registry as nqf
        >>> from nqf_registry.testing import assert_passes
        >>> assert_passes(nqf.default_registry().get("quadratic-network"), profile="dev").classification
        'exact-nqf'
    """
    require_suite(suite)
    expected = read_expected(expected_failures, [getattr(layer, "key", "")]) if expected_failures else {}
    failures = expected.get(getattr(layer, "key", ""), {})
    if failures:
        require_possible(layer, failures)
    report = verify(layer, profile, seed)
    wrong = [
        judge(layer, check, failures.get(check.name), profile)
        for check in report.checks
        if excused(report, check.name, failures) is None
    ]
    if any(wrong):
        raise AssertionError("\n".join(text for text in wrong if text))
    return report
