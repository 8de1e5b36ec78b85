"""What a verification says: one check a line, with its residual, its tolerance and the counterexample as data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, OBSERVED, VACUOUS, NOT_APPLICABLE, UNDECIDED = "pass", "fail", "observed", "vacuous", "not-applicable", "undecided"
STATUSES = (PASS, FAIL, OBSERVED, VACUOUS, NOT_APPLICABLE, UNDECIDED)
RAN = (PASS, FAIL, OBSERVED)
OVER = "over the budget"  # why a check was not begun
UNNAMED = "the classification is undecided: "  # how the note begins that says why


@dataclass(frozen=True)
class Check:
    """One check of one layer.

    Attributes:
        name: which check.
        status: pass, fail, observed (nothing was promised), vacuous (nothing to test), not-applicable or undecided.
        residual: the worst measured value; None where nothing was measured or it is not finite.
        tolerance: what it is compared with; None with the residual.
        examples: how many examples were measured.
        message: what was seen, on one line; where it failed, with the counterexample in brief, what to do, and ``replay``.
        counterexample: the smallest failing example found, as plain data that JSON can hold.
        bound: "at most" where the residual must not exceed the tolerance, "at least" where it must reach it (a slope).
        details: further measured numbers by name.
        promised: whether the layer claims or declares what is checked.
        stopped: whether its time ran out before all examples were drawn; how far it came then depends on the machine.
        why: in a few words, why a check did not run.
        cause: what kept it from a decision, where it is undecided; the same text where several checks have the same cause.
        expected: what should hold, as a sentence; "" where the check did not come to a measurement.
        measured: what was seen instead, "" where it holds.
        advice: what to do about a failure, "" where there is none.
        replay: the command that measures the counterexample of a failure again.
    """

    name: str
    status: str
    residual: float | None = None
    tolerance: float | None = None
    examples: int = 0
    message: str = ""
    counterexample: Mapping[str, Any] | None = None
    bound: str = "at most"
    details: Mapping[str, Any] = field(default_factory=dict)
    promised: bool = True
    stopped: bool = False
    why: str = ""
    cause: str = ""
    expected: str = ""
    measured: str = ""
    advice: str = ""
    replay: str = ""

    @property
    def broken(self) -> bool:
        """Whether a promise was not kept: the check failed, or could not be decided."""
        return self.status == FAIL or (self.status == UNDECIDED and self.promised)

    @property
    def ran(self) -> bool:
        """Whether at least one example was measured and led to a verdict."""
        return self.status in RAN and self.examples > 0

    def addressed(self, target: str) -> Check:
        """The same check with a command that names the layer, with its sizes, as the user did."""
        if not self.replay or not self.counterexample:
            return self
        command = replay_command(target, self.counterexample["example"])
        return dataclasses.replace(self, replay=command, message=self.message.replace(self.replay, command))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "name": self.name,
            "status": self.status,
            "residual": _number(self.residual),
            "tolerance": _number(self.tolerance),
            "examples": self.examples,
            "message": self.message,
            "counterexample": plain(self.counterexample),
            "bound": self.bound,
            "details": plain(self.details),
            "promised": self.promised,
            "stopped": self.stopped,
            "why": self.why,
            "cause": self.cause,
            "expected": self.expected,
            "measured": self.measured,
            "advice": self.advice,
            "replay": self.replay,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Check:
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})


@dataclass(frozen=True)
class Report:
    """The verification of one layer.

    Attributes:
        layer: its key.
        passed: whether every promise was kept: no check failed and none that was promised is undecided.
        classification: what the layer is, as measured.
        leading_order: the first order that does not vanish, where the classification is higher-order.
        checks: the nine checks, in the order in which they ran.
        sizes: the fields of the layer that was verified.
        profile: brief, dev, ci or deep.
        seed: what the random draws started from.
        notes: what the verifier had to do otherwise: loops for vmap, differences for autodiff, the math kernel of attention.
        versions: of the library, its suite of checks and torch.
        source: hash of the layer's source files; "" where they cannot be read.
        seconds: how long it took.
        cached: whether it was read from the cache of earlier verifications.
        cause: what keeps the layer from being evaluated at all, or from being verified within its time; "" where nothing does.
    """

    layer: str
    passed: bool
    classification: str
    leading_order: int | None
    checks: tuple[Check, ...]
    sizes: Mapping[str, Any] = field(default_factory=dict)
    profile: str = "dev"
    seed: int = 0
    notes: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    seconds: float = 0.0
    cached: bool = False
    cause: str = ""

    def __getitem__(self, name: str) -> Check:
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(f"no check {name!r}; the checks are {', '.join(check.name for check in self.checks)}")

    @property
    def failures(self) -> tuple[Check, ...]:
        """The checks that failed or, though promised, could not be decided."""
        return tuple(check for check in self.checks if check.broken)

    @property
    def stopped(self) -> tuple[Check, ...]:
        """The checks whose time ran out: how far they came depends on the machine."""
        return tuple(check for check in self.checks if check.stopped)

    @property
    def hurried(self) -> bool:
        """Whether time or memory kept a check from its examples: another machine may come further, so it is kept nowhere."""
        return any(check.stopped or check.why == OVER for check in self.checks)

    @property
    def because(self) -> str:
        """Why a layer that passed has no classification, in one clause with a colon; "" where that is no question."""
        reasons = [note for note in self.notes if note.startswith(UNNAMED)]
        if not self.passed or self.classification != "undecided" or not reasons:
            return ""
        return f": {reasons[0].removeprefix(UNNAMED).partition(';')[0]}"

    @property
    def count(self) -> str:
        """How many checks ran: "8 of 9 checks ran"."""
        return f"{sum(check.ran for check in self.checks)} of {len(self.checks)} checks ran"

    @property
    def kind(self) -> str:
        """The classification, with the leading order where it is higher."""
        return self.classification + (f" (order {self.leading_order})" if self.leading_order is not None else "")

    def line(self) -> str:
        """The verdict in one line, as compose, train and forecast print it."""
        bad = "" if self.passed else ": " + ", ".join(f"{check.name} {_VERBS[check.status]}" for check in self.failures)
        if self.cause:
            bad = f": {self.cause}"
        if self.stopped:
            bad += f"; time ran out in {', '.join(check.name for check in self.stopped)}"
        verdict = "passed" if self.passed else "did not pass"
        return f"{self.layer}: {verdict}, {self.kind}{self.because}, {self.count}{bad}" + (
            f" ({self.profile}, cached)" if self.cached else f" ({self.profile})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "layer": self.layer,
            "passed": self.passed,
            "classification": self.classification,
            "leading_order": self.leading_order,
            "checks": [check.to_dict() for check in self.checks],
            "summary": self.count,
            "sizes": plain(self.sizes),
            "profile": self.profile,
            "seed": self.seed,
            "notes": list(self.notes),
            "versions": dict(self.versions),
            "source": self.source,
            "seconds": round(self.seconds, 3),
            "cached": self.cached,
            "cause": self.cause,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Report:
        """The inverse of :meth:`to_dict`."""
        known = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        known["checks"] = tuple(Check.from_dict(check) for check in data["checks"])
        known["notes"] = tuple(data.get("notes", ()))
        return cls(**known)

    def addressed(self, target: str) -> Report:
        """The same report with commands that name the layer as the user did: by a file, or by its key, with its sizes."""
        return dataclasses.replace(self, checks=tuple(check.addressed(target) for check in self.checks))

    def render(self, verbose: bool = False) -> str:
        """The report as text, see :func:`nqf_registry.verify.text.render`."""
        from nqf_registry.verify.text import render

        return render(self, verbose)

    def __str__(self) -> str:
        return self.render()


def replay_command(target: str, example: str) -> str:
    """The command that measures an example again."""
    return f"nqf verify {target} --replay '{example}'"


_VERBS = {FAIL: "failed", UNDECIDED: "undecided"}


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(value)


def plain(value: Any) -> Any:
    """Dicts, lists, numbers and texts; what JSON has no number for becomes a text."""
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
