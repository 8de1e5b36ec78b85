"""The checks of a layer as callables, one a check, which together verify it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.testing.expected import ExpectedFailure, KnownFailure, excused, judge, require_possible
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.report import Report
from nqf_registry.verify.suite import ALWAYS, SUITE, verify


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
        expected: the failure that is known, None where the check is to pass.
        others: all known failures of the layer, by name of a check. Where determinism is among them and fails, the other checks
            are not tried, and are known to fail with it.
    """

    name: str
    _source: _Verification = field(repr=False)
    expected: ExpectedFailure | None = None
    others: Mapping[str, ExpectedFailure] = field(default_factory=dict, repr=False)

    @property
    def may_be_excused(self) -> bool:
        """Whether the check is not tried where a check before it fails, and that is expected to."""
        return self.expected is None and self.name not in ALWAYS and ALWAYS[0] in self.others

    def __call__(self, layer: Layer) -> None:
        """Raises where the check failed, or could not be decided though the layer promises it.

        Raises:
            KnownFailure: it failed as expected.
            AssertionError: it failed, with the message of the check and its counterexample, shortened; or it was expected to
                fail and does not.
        """
        source = self._source if layer is self._source.layer else _Verification(layer, self._source.profile, self._source.seed)
        report = source.report()
        if (excuse := excused(report, self.name, self.others)) is not None:
            raise KnownFailure(f"{excuse.reason}: {report[self.name].cause}")
        wrong = judge(layer, report[self.name], self.expected, source.profile)
        if wrong:
            raise AssertionError(wrong)
        if self.expected is not None:
            raise KnownFailure(self.expected.reason)


def checks_of(
    layer: Layer,
    profile: str = "ci",
    seed: int = 0,
    suite: str = SUITE,
    expected: Mapping[str, ExpectedFailure] | None = None,
) -> list[LayerCheck]:
    """The checks of one layer; together they verify it once.

    Args:
        layer: an instance.
        profile: brief, dev, ci or deep.
        seed: of all draws.
        suite: version of the suite of checks that the tests were written for.
        expected: by name of a check, the failures that are known.

    Raises:
        InvalidInput: this version of the library has another suite of checks than the one asked for, or
            the layer cannot have a pinned example.
    """
    require_suite(suite)
    source = _Verification(layer, profile, seed)
    known = dict(expected or {})
    require_possible(layer, known)
    return [LayerCheck(name, source, known.get(name), known) for name in CHECKS]


def require_suite(suite: str) -> None:
    """Refuses a suite of checks that this version of the library does not have.

    Raises:
        InvalidInput: naming the suite that it has.
    """
    if suite != SUITE:
        raise InvalidInput(
            f"this version of nqf_registry has the suite {SUITE!r} of checks, {suite!r} was asked for. Read in the changelog "
            f"what changed, then ask for suite={SUITE!r}."
        )
