"""What happened in a run, read off its loss curve: where plateaus ended and where modes switched on.

It needs no more than recorded losses, so it is there for every run, to the resolution of its records; ``events=`` records where
the losses move.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nqf_registry.errors import InvalidInput
from nqf_registry.train.events import FINEST, SMALL
from nqf_registry.train.numbers import number

if TYPE_CHECKING:
    from nqf_registry.train.runs import Run

LENGTH = 1.25  # by which time grows during a plateau, at least
FRACTION = 0.05
PLATEAU_ENDS, SWITCH_ON = "plateau's end", "switch-on"


@dataclass(frozen=True)
class Event:
    """Something that happened to one loss curve.

    Attributes:
        name: ``plateau's end`` or ``switch-on``.
        model: name of the model.
        replica: position of the replica.
        step: the step; of gradient flow the position of the recorded time.
        time: flow time, Σ of the rates until then.
        before: the loss of the plateau before.
        after: the loss of the plateau after a switch-on; where a plateau ended, the first one that had left it.
    """

    name: str
    model: str
    replica: int
    step: int
    time: float
    before: float
    after: float


def find_events(run: Run, fraction: float | None = None) -> list[Event]:
    """The events of every model and replica of a run, in the order of their steps.

    With x = 8 + step, or t + t₁ for gradient flow, t₁ being its first recorded time after 0:

    - A plateau is a stretch of records over which x grows by a factor of 1.25 or more and the loss stays in a range of
      fraction · max(L, 10⁻³ L(0)); with its neighbours that are no farther than this from its mean over log x, its level.
    - A plateau's end is the first record after a plateau.
    - A switch-on is where, between two plateaus, the loss has done half of its way down from the level of the one to that of
      the other; between two records it is interpolated in log x.

    Between plateaus that follow on each other without a greater move the loss drifts, which is no event; so a fall of less than
    about three times the fraction passes unnamed.

    Args:
        run: the run.
        fraction: what counts as a move; that of the run if left out, or 0.05.

    Raises:
        InvalidInput: the fraction is none.
    """
    if fraction is None:
        fraction = run.manifest["settings"].get("events") or FRACTION
    size = number("fraction", fraction)
    if not 0 < size < 1:
        raise InvalidInput(f"fraction must be above 0 and below 1, such as 0.05; got {fraction!r}.")
    if len(run.records) < 2:
        return []
    steps, losses = run.curves("train_loss")
    found = []
    for replica, times in enumerate(run.data["time"].values):
        flow = bool(run.manifest["settings"].get("times"))
        x = times + times[1] if flow else steps + float(FINEST)
        for m, model in enumerate(run.models):
            for name, where, before, after in _curve(x, losses[m, replica], size):
                along = where - times[1] if flow else where - FINEST
                step = np.interp(along, times, steps) if flow else along
                time = along if flow else np.interp(along, steps, times)
                found.append(Event(name, model, replica, round(float(step)), float(time), before, after))
    return sorted(found, key=lambda event: (event.step, event.time))


def told(run: Run, most: int = 6) -> list[str]:
    """The events of the first replica of every model in a line each, those of one with most events cut."""
    events, lines = run.events(), []
    flow = bool(run.manifest["settings"].get("times"))
    for model in run.models:
        own = [event for event in events if event.model == model and event.replica == 0]
        parts = [
            f"{event.name} at {'time' if flow else 'step'} {f'{event.time:.4g}' if flow else event.step} "
            f"({event.before:.3g} → {event.after:.3g})"
            for event in own[:most]
        ]
        if len(own) > most:
            parts.append(f"and {len(own) - most} more")
        if parts:
            which = ", replica 0" if len(run.manifest["settings"]["seeds"]) > 1 else ""
            lines.append(f"{model}{which}: {', '.join(parts)}")
    return lines


def _curve(x: np.ndarray, L: np.ndarray, fraction: float) -> Iterator[tuple[str, float, float, float]]:
    """Name, x, loss before and loss after of the events of one curve."""
    floor = SMALL * L[0]
    flats = _plateaus(x, L, fraction, floor)
    for flat, following in zip(flats, [*flats[1:], None], strict=True):
        end, rest = flat.end, L[flat.end + 1 :] if following is None else L[[following.begin]]
        if not len(rest) or np.abs(rest - L[end]).max() <= fraction * max(L[end], floor):
            continue
        yield PLATEAU_ENDS, float(x[end + 1]), flat.level, float(L[end + 1])
        if following is not None and following.level < flat.level:
            middle = _crossing(x, L, end, following.begin, (flat.level + following.level) / 2)
            yield SWITCH_ON, middle, flat.level, following.level


@dataclass(frozen=True)
class _Plateau:
    """First and last record of a plateau, and its loss."""

    begin: int
    end: int
    level: float


def _plateaus(x: np.ndarray, L: np.ndarray, fraction: float, floor: float) -> list[_Plateau]:
    """The plateaus of one curve."""
    found: list[_Plateau] = []
    begin = free = 0
    while begin < len(L):
        end, low, high = begin, L[begin], L[begin]
        while end + 1 < len(L):
            lower, higher = min(low, L[end + 1]), max(high, L[end + 1])
            if not higher - lower <= fraction * max(higher, floor):
                break
            end, low, high = end + 1, lower, higher
        if x[end] >= LENGTH * x[begin]:
            # a stretch that began in the tail of a fall would end too early: what counts is the distance from its mean
            level = _mean(x[begin : end + 1], L[begin : end + 1])
            near = np.abs(L - level) <= fraction * max(level, floor)
            while begin > free and near[begin - 1]:
                begin -= 1
            while end + 1 < len(L) and near[end + 1]:
                end += 1
            found.append(_Plateau(begin, end, level))
            begin = free = end + 1
        else:
            begin += 1
    return found


def _mean(x: np.ndarray, L: np.ndarray) -> float:
    """The mean over log x, which does not depend on where records are dense."""
    lengths = np.diff(np.log(x))
    return float((lengths * (L[1:] + L[:-1]) / 2).sum() / lengths.sum())


def _crossing(x: np.ndarray, L: np.ndarray, begin: int, end: int, level: float) -> float:
    """Where between two records the curve first comes down to a level."""
    i = next(i for i in range(begin + 1, end + 1) if L[i] <= level or i == end)
    share = (L[i - 1] - level) / (L[i - 1] - L[i]) if L[i - 1] > max(level, L[i]) else 1.0
    share = min(share, 1.0)
    return float(np.exp((1 - share) * np.log(x[i - 1]) + share * np.log(x[i])))
