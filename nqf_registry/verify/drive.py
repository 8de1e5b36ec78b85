"""Runs one property over drawn examples: hypothesis draws and shrinks, this file keeps the worst and the smallest failure."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, Verbosity
from hypothesis.internal.conjecture import providers
from hypothesis.strategies import SearchStrategy

from nqf_registry.errors import named
from nqf_registry.verify.guard import contained
from nqf_registry.verify.setting import Nothing, Undecided
from nqf_registry.verify.strategies import Draw

LEAST = 4  # examples that a check needs where its time ran out; fewer decide nothing
SHRINKS = 200  # examples tried in looking for a smaller failing one; counted, as everything is that a report depends on


@dataclass(frozen=True)
class Measurement:
    """What one example gave.

    Attributes:
        residual: the measured number.
        tolerance: what it may be at most, or must be at least where ``at_least`` is set.
        at_least: which of the two.
        counterexample: builds the data of a failing example; called only for the one that is reported.
        details: further numbers; those of the worst example are reported.
    """

    residual: float
    tolerance: float
    at_least: bool = False
    counterexample: Callable[[], Mapping[str, Any]] | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the residual misses the tolerance; nan always does."""
        return not (self.residual >= self.tolerance if self.at_least else self.residual <= self.tolerance)

    @property
    def ratio(self) -> float:
        """How bad it is: larger is worse, nan is worst."""
        if self.residual != self.residual:
            return float("inf")
        if self.at_least:
            return self.tolerance - self.residual
        return self.residual / self.tolerance if self.tolerance else float(self.residual > 0)


@dataclass
class Outcome:
    """Everything that one check saw.

    Attributes:
        examples: how many examples were measured before shrinking began.
        worst: the worst measurement, of the failing ones the one that shrinking ended with.
        failed: whether any example failed.
        reason: why an example could not be measured, None where all could.
        raised: whether that was an exception of the layer.
        stopped: whether its time ran out before all examples were drawn.
        draw: the example of ``worst``, or the one that could not be measured.
    """

    examples: int = 0
    worst: Measurement | None = None
    failed: bool = False
    reason: str | None = None
    raised: bool = False
    stopped: bool = False
    draw: Draw | None = None


class _Failed(Exception):
    """One failing example, for hypothesis to shrink."""


def measure_one(
    measure: Callable[[Draw], Measurement | None], draw: Draw, tell: Callable[[BaseException], str] | None = None
) -> Outcome:
    """Measures one example and nothing else; the arguments are those of :func:`drive`."""
    outcome = Outcome(draw=draw)
    outcome.worst = _measured(measure, draw, outcome, tell)
    if outcome.worst is not None:
        outcome.examples, outcome.failed = 1, outcome.worst.failed
    return outcome


def _measured(
    measure: Callable[[Draw], Measurement | None],
    draw: Draw,
    outcome: Outcome,
    tell: Callable[[BaseException], str] | None,
) -> Measurement | None:
    """One measurement; what kept it from being made is left in the outcome."""
    try:
        with contained():
            return measure(draw)
    except Nothing:  # like a draw that does not apply
        return None
    except Undecided as reason:
        outcome.reason, outcome.draw = str(reason), draw
    except Exception as error:
        outcome.reason, outcome.raised, outcome.draw = (tell or named)(error), True, draw
    return None


def drive(
    measure: Callable[[Draw], Measurement | None],
    strategy: SearchStrategy[Draw],
    first: Sequence[Draw],
    examples: int,
    seconds: float,
    seed: int,
    tell: Callable[[BaseException], str] | None = None,
    simpler: Callable[[Draw], Iterable[Draw]] | None = None,
) -> Outcome:
    """Measures the given first examples, then drawn ones, and shrinks what fails.

    Hypothesis shrinks what it drew. It does not draw every failure again that one of the first examples had, so what is left
    is simplified field by field.

    The first are always all measured. Where the time then runs out with fewer than ``LEAST`` measured, nothing is decided.

    Args:
        measure: residual of one draw; None where the draw does not apply or there is nothing to measure, which is not counted.
        strategy: what to draw from.
        first: examples that must be among those measured, such as the width that the layer declares.
        examples: how many to draw beyond these.
        seconds: CPU time of the process after which to stop drawing.
        seed: the same seed gives the same examples.
        tell: says what an exception was, by default :func:`nqf_registry.errors.named`.
        simpler: draws to try instead of a failing one.
    """
    outcome = Outcome()
    begin = time.process_time()  # not the wall clock: what else the machine does must not change a report
    shrinking, shrinks = False, 0

    def take(draw: Draw, needed: bool = False) -> None:
        nonlocal shrinking, shrinks
        if outcome.reason is not None:
            return
        if not needed and time.process_time() - begin > seconds:
            outcome.stopped = outcome.stopped or not shrinking
            return
        shrinks += shrinking
        if shrinks > SHRINKS:
            return
        # What a simpler example could not be measured for is no reason: a failure is there already.
        result = _measured(measure, draw, Outcome() if shrinking else outcome, tell)
        if result is None:
            return
        outcome.examples += not shrinking
        if result.failed:
            outcome.failed, outcome.worst, outcome.draw, shrinking = True, result, draw, True
            raise _Failed
        if not outcome.failed and (outcome.worst is None or result.ratio > outcome.worst.ratio):
            outcome.worst, outcome.draw = result, draw

    try:
        for draw in first:
            take(draw, needed=True)
    except _Failed:
        pass  # hypothesis looks for a smaller one below; if it finds none, this one is reported

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=max(1, examples),
        database=None,
        deadline=None,
        derandomize=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=tuple(HealthCheck),  # pyright: ignore[reportArgumentType]
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
    )
    @hypothesis.given(strategy)
    def run(draw: Draw) -> None:
        take(draw)

    try:
        with warnings.catch_warnings(), _without_constants():
            warnings.simplefilter("ignore")
            if examples:
                run()
    except _Failed:
        pass
    except Exception as error:
        if outcome.examples == 0 and outcome.reason is None:
            outcome.reason = (tell or named)(error)
    if outcome.failed and simpler is not None:
        _simplify(take, simpler, outcome)
    if outcome.stopped and outcome.examples < LEAST and not outcome.failed and outcome.reason is None:
        outcome.reason = (
            f"its time ran out ({seconds:g} s of CPU) after {outcome.examples} examples, and fewer than {LEAST} decide "
            "nothing; verify the layer at smaller sizes, or at a longer profile."
        )
    return outcome


def _simplify(take: Callable[[Draw], None], simpler: Callable[[Draw], Iterable[Draw]], outcome: Outcome) -> None:
    """Takes the first simpler draw that fails too, as often as there is one; ``take`` counts and keeps what failed."""
    before = None
    while outcome.draw is not None and outcome.draw != before:
        before = outcome.draw
        for draw in simpler(before):
            try:
                take(draw)
            except _Failed:
                break


@contextlib.contextmanager
def _without_constants() -> Iterator[None]:
    """Keeps hypothesis from mixing the numbers found in the source of imported modules into what it draws.

    A report would depend on what else is imported, and a folder ``.hypothesis`` would appear where the user stands. There is
    no setting for it; versions of hypothesis that do not do it have nothing to be kept from.
    """
    if not hasattr(providers, "_get_local_constants"):
        yield
        return
    inner: Any = providers
    collect = inner._get_local_constants
    inner._get_local_constants = inner.Constants
    inner.CONSTANTS_CACHE.cache.clear()
    try:
        yield
    finally:
        inner._get_local_constants = collect
        inner.CONSTANTS_CACHE.cache.clear()
