"""Schedules: a factor on the rate of a rule that depends on the step alone, so that a run taken up anywhere goes on as it was.

The closed forms are those of ``torch.optim.lr_scheduler``; t counts the steps that are done, so the first step has t = 0.
"""

from __future__ import annotations

import hashlib
import inspect
import marshal
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.numbers import number, short, whole

Factor = Callable[[int], float]


@dataclass(frozen=True)
class Schedule:
    """A factor on the rate by step.

    Attributes:
        name: of the closed form, or of the caller's function.
        options: of the closed form, completed.
        source: hash of the source of the caller's function, None for a closed form.
        function: the factor of the step after t others.

    Example:
        >>> schedule = find_schedule("cosine", {"floor": 0.1}, steps=100)
        >>> [round(schedule(t), 3) for t in (0, 50, 100)]
        [1.0, 0.55, 0.1]
    """

    name: str
    options: Mapping[str, Any]
    source: str | None
    function: Factor = field(repr=False, compare=False)

    def __call__(self, t: int) -> float:
        """The factor of the step after t others."""
        return self.function(t)

    def described(self) -> dict[str, Any]:
        """The schedule for a manifest."""
        return {"name": self.name, "options": dict(self.options), **({"source": self.source} if self.source else {})}

    def elapsed(self, steps: Sequence[int]) -> list[float]:
        """Σ of the factors of all steps before each of these, which ascend: flow time over the rate."""
        found, total, t = [], 0.0, 0
        for step in steps:
            while t < step:
                total += self.function(t)
                t += 1
            found.append(total)
        return found

    def largest(self, steps: int) -> float:
        """The largest factor of so many steps."""
        return max(map(self.function, range(steps)), default=1.0)


def _constant() -> Factor:
    return lambda t: 1.0


def _warmup(steps: int) -> Factor:
    return lambda t: min(1.0, (t + 1) / steps)


def _linear(steps: int, start: float, end: float) -> Factor:
    return lambda t: start + (end - start) * min(t, steps) / steps


def _cosine(steps: int, floor: float) -> Factor:
    return lambda t: floor + (1 - floor) * (1 + math.cos(math.pi * min(t, steps) / steps)) / 2


def _restarts(steps: int, longer: int, floor: float) -> Factor:
    whole_cosine = {}

    def factor(t: int) -> float:
        length = steps
        if longer == 1:
            t %= steps
        else:
            turn = int(math.log(t / steps * (longer - 1) + 1, longer))
            # the logarithm may be one rounding short of, or beyond, the turn that begins at t
            turn += 1 if t >= steps * (longer ** (turn + 1) - 1) // (longer - 1) else 0
            turn -= 1 if t < steps * (longer**turn - 1) // (longer - 1) else 0
            t -= steps * (longer**turn - 1) // (longer - 1)
            length = steps * longer**turn
        if length not in whole_cosine:
            whole_cosine[length] = _cosine(length, floor)
        return whole_cosine[length](t)

    return factor


def _step(every: int, factor: float) -> Factor:
    return lambda t: factor ** (t // every)


def _milestones(at: tuple[int, ...], factor: float) -> Factor:
    return lambda t: factor ** sum(t >= place for place in at)


def _exponential(factor: float) -> Factor:
    return lambda t: factor**t


def _polynomial(steps: int, power: float) -> Factor:
    return lambda t: (1 - min(t, steps) / steps) ** power


REQUIRED = object()
WHOLE_RUN = object()  # as many steps as the run has

# The closed forms by name, each with its options and what they are if left out.
SCHEDULES: dict[str, tuple[Callable[..., Factor], dict[str, Any]]] = {
    "constant": (_constant, {}),
    "warmup": (_warmup, {"steps": REQUIRED}),
    "linear": (_linear, {"steps": WHOLE_RUN, "start": 1.0, "end": 0.0}),
    "cosine": (_cosine, {"steps": WHOLE_RUN, "floor": 0.0}),
    "cosine-restarts": (_restarts, {"steps": REQUIRED, "longer": 1, "floor": 0.0}),
    "step": (_step, {"every": REQUIRED, "factor": 0.1}),
    "milestones": (_milestones, {"at": REQUIRED, "factor": 0.1}),
    "exponential": (_exponential, {"factor": REQUIRED}),
    "polynomial": (_polynomial, {"steps": WHOLE_RUN, "power": 1.0}),
}
LARGEST = 1e6  # of a factor: whoever wants more means another rate


def find_schedule(schedule: Any, options: Any, steps: int) -> Schedule | None:
    """A schedule by name with its options, or from a function of the step; None for a constant rate.

    Every named schedule but ``constant`` and ``warmup`` also takes ``warmup``, a number of first steps over which the factor
    rises from nothing as (t + 1) / warmup.

    Args:
        schedule: a name, a function of t, or None.
        options: of a named schedule, None for none.
        steps: of the run.

    Raises:
        InvalidInput: there is no such schedule, it has no such option, or a factor is none.
    """
    given = _mapping(options)
    if callable(schedule):
        if given:
            raise InvalidInput("schedule_options belong to a schedule by name; leave them out where it is a function.")
        return _checked(Schedule(_name(schedule), {}, source_of(schedule), _numbered(schedule)), steps)
    if schedule is None:
        schedule = "constant"
    if not isinstance(schedule, str) or schedule not in SCHEDULES:
        raise InvalidInput(
            f"schedule must be one of {', '.join(SCHEDULES)}, or a function of the step that gives a factor on the rate; got "
            f"{short(schedule)}.{did_you_mean(str(schedule), SCHEDULES)}"
        )
    make, known = SCHEDULES[schedule]
    known = known if schedule in ("constant", "warmup") else {**known, "warmup": 0}
    for name in given:
        if name not in known:
            has = f"It has {', '.join(known)}." if known else "It has none."
            raise InvalidInput(f"schedule {schedule!r} has no option {name!r}.{did_you_mean(str(name), known)} {has}")
    completed = {}
    for name, default in known.items():
        if name not in given and default is REQUIRED:
            raise InvalidInput(f"schedule {schedule!r} needs the option {name!r}: schedule_options={{{name!r}: …}}.")
        value = given.get(name, max(steps, 1) if default is WHOLE_RUN else default)
        completed[name] = _option(schedule, name, value)
    if schedule == "constant":
        return None
    warm = completed.get("warmup", 0)
    own = make(**{name: value for name, value in completed.items() if name != "warmup"})
    rising = _warmup(warm) if warm else None
    function = own if rising is None else lambda t: rising(t) * own(t)
    return _checked(Schedule(schedule, completed, None, function), steps)


def _mapping(options: Any) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise InvalidInput(f"schedule_options must be a dict of options by name, got {short(options)}.")
    return options


def _option(schedule: str, name: str, value: Any) -> Any:
    """One option of a schedule, as what it has to be."""
    what = f"{name} of schedule {schedule!r}"
    if name in ("steps", "every", "longer"):
        return whole(what, value, 1)
    if name == "warmup":
        return whole(what, value, 0)
    if name == "at":
        if not isinstance(value, list | tuple) or not value:
            raise InvalidInput(f"{what} must be a list of steps, got {short(value)}.")
        return tuple(sorted(whole(f"each of {what}", one, 0) for one in value))
    found = number(what, value)
    if found < 0:
        raise InvalidInput(f"{what} must be at least 0, got {value!r}.")
    return found


def _numbered(function: Callable[[int], Any]) -> Factor:
    """A caller's function, checked at every step."""

    def factor(t: int) -> float:
        try:
            value = function(t)
        except Exception as error:
            raise InvalidInput(
                f"the schedule {_name(function)} breaks at step {t}: {type(error).__name__}: {error}. It takes the number of "
                "steps that are done and gives a factor on the rate."
            ) from error
        value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 1) == 0 else value
        return number(f"the factor of schedule {_name(function)} at step {t}", value)

    return factor


def _checked(schedule: Schedule, steps: int) -> Schedule:
    """The schedule, all of whose factors are rates' factors, and not all zero."""
    largest = 0.0
    for t in range(steps):
        try:
            value = schedule(t)
        except OverflowError:
            value = float("inf")
        if not 0 <= value <= LARGEST:
            raise InvalidInput(
                f"schedule {schedule.name!r} must give factors from 0 to {LARGEST:g}; at step {t} it gives {value:.6g}. "
                "Put what is common to all steps into lr."
            )
        largest = max(largest, value)
    if steps and not largest:
        raise InvalidInput(f"schedule {schedule.name!r} is 0 at every step of this run: nothing would move.")
    return schedule


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__).replace("<locals>.", "")


def source_of(thing: Any) -> str:
    """SHA-256 of the source of a function, a class or an object's class; of its code where no source can be read."""
    for known in (thing, type(thing)):
        try:
            return hashlib.sha256(inspect.getsource(known).encode()).hexdigest()
        except (OSError, TypeError):
            code = getattr(known, "__code__", None)
            if code is not None:
                return hashlib.sha256(marshal.dumps(code)).hexdigest()
    return hashlib.sha256(repr(type(thing)).encode()).hexdigest()
