"""Records where something happens: beside the planned ones, wherever the loss has moved since the last record.

The loss of a quadratic form is a staircase of long plateaus and short falls, and log-spaced records miss falls late in a run.
So the losses are looked at more often than they are recorded, at candidates that depend only on which records are planned. At a
candidate the states are copied and the losses computed, all on the device; when a block of steps is fetched, candidates at
which no loss has moved are dropped, and the others are measured from their copies as every record is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.models import Bound, Model, State
from nqf_registry.train.numbers import number
from nqf_registry.train.observables import Observable
from nqf_registry.train.records import Probe, Record, Recorder

FINEST = 8  # steps between candidates at the beginning: a look at the losses costs as much as a step or two of small models
DENSITY = 32  # candidates while the number of steps grows by a factor e, later
SMALL = 1e-3  # of the first loss: smaller losses count as this much
SAMPLES = 256  # that are looked at where steps see minibatches, or as many as a minibatch has
COPIES = 2**26  # bytes of copied states, after which a block ends

Levels = tuple[np.ndarray, np.ndarray]  # the first losses and those at the last record, each (model, replica)


def check_events(events: Any, flow: bool) -> float | None:
    """The fraction by which a loss has to move to be recorded, None for planned records only.

    Raises:
        InvalidInput: it is no fraction, or the run is gradient flow.
    """
    if events is None:
        return None
    fraction = number("events", events)
    if not 0 < fraction < 1:
        raise InvalidInput(
            f"events must be a fraction of the loss above 0 and below 1, such as 0.05, or None for none; got {events!r}."
        )
    if flow:
        raise InvalidInput(
            "events are looked for between steps, and gradient flow takes none: its integrator would be stopped at each. Leave "
            "events out and give more times, by records= or until=."
        )
    return fraction


def candidates(planned: Sequence[int]) -> Iterator[int]:
    """The steps between planned records at which the losses are looked at.

    From one record they go on by sₖ₊₁ = sₖ + hₖ, hₖ = max(8, ⌊sₖ / 32⌋), as long as 3/2 hₖ or more is left to the next record.

    >>> list(candidates([0, 10, 40, 1000, 1100]))[-5:]
    [922, 950, 979, 1031, 1063]
    """
    for begin, end in itertools.pairwise(planned):
        step, size = begin, max(FINEST, begin // DENSITY)
        while 2 * (end - step) >= 3 * size:
            step += size
            yield step
            size = max(FINEST, step // DENSITY)


def moved(now: np.ndarray, kept: np.ndarray, first: np.ndarray, fraction: float) -> np.ndarray:
    """Where |L − L_kept| > fraction · max(L_kept, 10⁻³ L(0)): the loss moved by more than a fraction of what it was.

    >>> moved(np.array([0.94, 1e-6]), np.array([1.0, 2e-6]), np.array([1.0, 1.0]), 0.05)
    array([ True, False])
    """
    return np.abs(now - kept) > fraction * np.maximum(kept, SMALL * first)


class EventRecorder(Recorder):
    """A recorder that keeps more than what is planned: see :func:`moved`.

    Its records say by ``event``, (model, replica), whose loss moved: 1 or 0, and 0 everywhere in planned records.

    Args:
        models: the models.
        data: the data, on the device and in the dtype of the run.
        loss: the loss.
        probes: what else to record.
        full: the models bound to all training inputs; where they are not, some samples, taken evenly, are looked at.
        chunk: how many samples are evaluated at a time.
        fraction: by which a loss has to move.
        samples: how many samples are looked at where not all are.
        levels: from which a run goes on that is taken up again.
    """

    def __init__(
        self,
        models: Sequence[Model],
        data: Data,
        loss: Loss,
        probes: Mapping[str, Probe | Observable],
        full: Sequence[Bound] | None,
        chunk: int,
        fraction: float,
        samples: int,
        levels: Levels | None = None,
    ) -> None:
        super().__init__(models, data, loss, probes, full, chunk)
        self.fraction, self.levels = fraction, levels
        # of each step since the last fetch: losses (None where the record has them) and copied states (None where planned)
        self._seen: list[tuple[int, Tensor | None, list[State] | None]] = []
        self._copied = 0
        self._part = full is None
        self._watched, self._targets = full, data.y
        if full is None:
            count = min(len(data.y), samples)
            x, self._targets = data.batch(torch.arange(count, device=data.y.device) * len(data.y) // count)
            self._watched = [model.bind(x) for model in models]

    def candidates(self, planned: Sequence[int]) -> Iterator[int]:
        """The steps at which :meth:`look` is to be called."""
        return candidates(planned)

    def measure(self, step: int, states: Sequence[State]) -> None:
        """Takes a planned record."""
        super().measure(step, states)
        self._seen.append((step, self._losses(states) if self._part else None, None))

    def look(self, step: int, states: Sequence[State]) -> bool:
        """Looks at the losses; whether so much is copied now that it should be fetched. Nothing is moved to the host."""
        copies = [{name: block.clone() for name, block in state.items()} for state in states]
        self._seen.append((step, self._losses(states), copies))
        self._copied += sum(block.numel() * block.element_size() for state in copies for block in state.values())
        return self._copied >= COPIES

    def fetch(self) -> list[Record]:
        """What was planned since the last call, and what was seen to have moved; in two transfers a variable."""
        found = {record["step"]: record for record in super().fetch()}
        seen, self._seen, self._copied = self._seen, [], 0
        looked = [losses for _, losses, _ in seen if losses is not None]
        values = iter(torch.stack(looked).double().cpu().numpy() if looked else ())
        events = {}
        for step, losses, copies in seen:
            now = found[step]["train_loss"] if losses is None else next(values)
            first, kept = self.levels or (now, now)
            events[step] = np.zeros(now.shape)
            if copies is not None:
                if not np.isfinite(now).all():  # whether a run diverged is for its planned records and its weights to say
                    continue
                events[step] += moved(now, kept, first, self.fraction)
                if not events[step].any():
                    continue
                super().measure(step, copies)
            self.levels = first, now
        found |= {record["step"]: record for record in super().fetch()}
        return [{**found[step], "event": events[step]} for step in sorted(found)]

    def _losses(self, states: Sequence[State]) -> Tensor:
        """The losses on the samples that are looked at, (model, replica)."""
        assert self._watched is not None
        with torch.no_grad():
            parts = zip(self._watched, states, strict=True)
            return torch.stack([self.loss.value(bound.evaluate(state), self._targets) for bound, state in parts])
