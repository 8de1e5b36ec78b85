"""What is written down during a run: at log-spaced steps, kept on the device, fetched in blocks.

A record holds, for every model and replica, the training loss, the test loss and accuracy where there is a test set, the
distance from the first model, and whatever the caller's *probes* say: named functions of the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.dynamics.growth import growth_rates
from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.models import Bound, Model, State
from nqf_registry.train.numbers import whole
from nqf_registry.train.observables import OBSERVABLES, Observable

Probe = Callable[[State], Tensor]
Record = dict[str, Any]


def log_spaced(steps: int, count: int) -> list[int]:
    """About ``count`` different integers from 0 to ``steps``, both included, evenly spaced in log(1 + step).

    >>> log_spaced(100, 8)
    [0, 1, 3, 6, 13, 26, 51, 100]
    """
    if count < 2 or steps == 0:
        return sorted({0, steps})
    return sorted({round(float(s)) for s in np.expm1(np.linspace(0, np.log1p(steps), count))})


def record_steps(steps: int, records: int | Sequence[int]) -> list[int]:
    """The steps to record: log-spaced for a number, as given for a list, with 0 and the last step always among them.

    Raises:
        InvalidInput: not a number of at least 2, nor steps of this run.
    """
    if hasattr(records, "tolist"):
        records = records.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(records, int) and not isinstance(records, bool):
        if records < 2:
            raise InvalidInput(f"records must be at least 2, the first step and the last; got {records}.")
        return log_spaced(steps, records)
    if isinstance(records, bool) or not isinstance(records, Sequence | AbstractSet) or isinstance(records, str | bytes):
        raise InvalidInput(f"records must be a number of records or a list of steps, got {records!r}.")
    chosen = sorted({whole("each of records", step, 0) for step in records})
    if chosen and chosen[-1] > steps:
        raise InvalidInput(f"records must be steps from 0 to {steps}; got {chosen[0]} to {chosen[-1]}.")
    return sorted({0, *chosen, steps})


def top_mode(subject: Any, data: Data, loss: Loss) -> Probe:
    """z₁ = e₁ᵀ M e₁, the order parameter of the mode that grows fastest from small weights."""
    return growth_rates(subject, data, 1, loss.cotangent).order_parameter


BUILT_IN: dict[str, Callable[[Any, Data, Loss], Probe | Observable]] = {"top-mode": top_mode, **OBSERVABLES}


# What records and runs hold anyway, by the names they have there.
MEASURED = ("train_loss", "test_loss", "train_accuracy", "test_accuracy", "output_distance", "weight_distance")
RESERVED = {*MEASURED, "model", "replica", "record", "step", "time", "seed", "scale", "lr", "weight_decay", "event"}


def check_probes(probes: Any) -> Mapping[str, Probe | None]:
    """Probes by name: functions, or None for a built-in one that is yet to be made.

    Raises:
        InvalidInput: no probes, a name that no built-in probe has, or one under which something else is recorded.
    """
    if isinstance(probes, Mapping):
        for name, probe in probes.items():
            if not isinstance(name, str) or not name:
                raise InvalidInput(f"a probe's name must be a word, got {name!r}.")
            first, dash, last = name.rpartition("-")
            if name in RESERVED or (dash and last.isdigit() and (first in RESERVED or first in probes)):
                raise InvalidInput(f"the run itself records or counts by {name!r}; give this probe another name.")
            if not callable(probe):
                raise InvalidInput(f"the probe {name!r} must be a function of the weights, got {type(probe).__name__}.")
        return dict(probes)
    names = [probes] if isinstance(probes, str) else list(probes) if isinstance(probes, Sequence | AbstractSet) else None
    if names is None:
        raise InvalidInput(
            f"probes must be names of built-in ones ({', '.join(BUILT_IN)}) or a dict of functions, got "
            f"{type(probes).__name__}."
        )
    for name in names:
        if not isinstance(name, str) or name not in BUILT_IN:
            raise InvalidInput(
                f"there is no built-in probe {name!r}.{did_you_mean(str(name), BUILT_IN)} Known are {', '.join(BUILT_IN)}."
            )
    return dict.fromkeys(names)


def find_probes(
    probes: Mapping[str, Probe] | Sequence[str] | str, subject: Any, data: Data, loss: Loss
) -> dict[str, Probe | Observable]:
    """Probes by name: built-in ones made for this subject and data, others as they are.

    Raises:
        InvalidInput: as :func:`check_probes`, or a built-in one cannot be recorded of this subject and data.
    """
    return {name: probe or BUILT_IN[name](subject, data, loss) for name, probe in check_probes(probes).items()}


class Recorder:
    """Measures the models in lockstep and keeps the results on the device until they are fetched.

    Args:
        models: the models.
        data: the data, on the device and in the dtype of the run.
        loss: the loss.
        probes: functions of the weights, by name, each giving one number or more a replica; and observables.
        full: the models bound to all training inputs, where the run holds them anyway.
        chunk: how many samples are evaluated at a time where it does not.
    """

    def __init__(
        self,
        models: Sequence[Model],
        data: Data,
        loss: Loss,
        probes: Mapping[str, Probe | Observable],
        full: Sequence[Bound] | None,
        chunk: int,
    ) -> None:
        self.models, self.data, self.loss, self.chunk = models, data, loss, chunk
        self.observables = [probe for probe in probes.values() if isinstance(probe, Observable)]
        self.probes = {name: probe for name, probe in probes.items() if not isinstance(probe, Observable)}
        self._by_sample = any(observable.by_sample for observable in self.observables)
        self._full = full
        self._test = (
            [model.bind(data.test_x) for model in models]
            if data.test_x is not None and len(next(iter(data.test_x.values()))) <= chunk
            else None
        )
        self._labels = _are_labels(data.y)
        self._shapes: dict[str, torch.Size] = {}
        self._pending: list[tuple[int, dict[str, Tensor]]] = []

    def measure(self, step: int, states: Sequence[State]) -> None:
        """Takes one record; nothing is moved to the host."""
        with torch.no_grad():
            kept: list[list[Tensor]] = [[] for _ in states]
            found = self._measure("train", self._full, self.data.x, self.data.y, states, kept if self._by_sample else None)
            if self.data.test_x is not None and self.data.test_y is not None:
                found |= self._measure("test", self._test, self.data.test_x, self.data.test_y, states)
            weights = [model.weights(state) for model, state in zip(self.models, states, strict=True)]
            if len(weights) > 1:
                found["weight_distance"] = torch.stack([_weight_distance(W, weights[0], states[0]) for W in weights])
            for name, probe in self.probes.items():
                found[name] = torch.stack([self._probed(name, probe, W, states[0]) for W in weights])
            for observable in self.observables:
                parts = [
                    observable.measure(model, state, torch.cat(outputs, 1) if outputs else None)
                    for model, state, outputs in zip(self.models, states, kept, strict=True)
                ]
                found |= {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
        self._pending.append((step, found))

    def candidates(self, planned: Sequence[int]) -> Iterable[int]:
        """Further steps at which :meth:`look` is to be called; see :mod:`nqf_registry.train.events`."""
        return ()

    def look(self, step: int, states: Sequence[State]) -> bool:
        """Looks whether something is to be recorded; whether what was seen should be fetched now."""
        return False

    def fetch(self) -> list[Record]:
        """What was measured since the last call, as numpy arrays (model, replica, …), in one transfer a variable."""
        pending, self._pending = self._pending, []
        if not pending:
            return []
        columns = {name: torch.stack([found[name] for _, found in pending]).double().cpu().numpy() for name in pending[0][1]}
        return [{"step": step, **{name: column[i] for name, column in columns.items()}} for i, (step, _) in enumerate(pending)]

    def _measure(
        self,
        which: str,
        bounds: Sequence[Bound] | None,
        x: Mapping[str, Tensor],
        y: Tensor,
        states: Sequence[State],
        keep: Sequence[list[Tensor]] | None = None,
    ) -> dict[str, Tensor]:
        """Loss, accuracy and output distance on one set, each (model, replica); ``keep`` takes the outputs by model."""
        loss: Any = 0.0
        right: Any = 0.0
        apart: Any = 0.0
        for bound, targets in self._bound(bounds, x, y):
            outputs = [b.evaluate(state) for b, state in zip(bound, states, strict=True)]
            for held, f in zip(keep or (), outputs, strict=False):
                held.append(f)
            loss = loss + torch.stack([self.loss.total(f, targets) for f in outputs])
            if self._labels:
                right = right + torch.stack([_hits(f, targets) for f in outputs])
            if which == "train" and len(outputs) > 1:
                apart = apart + torch.stack([(f - outputs[0]).square().sum((-2, -1)) for f in outputs])
        found = {f"{which}_loss": loss / len(y)}
        if self._labels:
            found[f"{which}_accuracy"] = right / len(y)
        if which == "train" and len(states) > 1:
            found["output_distance"] = (apart / len(y)).sqrt()
        return found

    def _bound(
        self, bounds: Sequence[Bound] | None, x: Mapping[str, Tensor], y: Tensor
    ) -> Iterator[tuple[Sequence[Bound], Tensor]]:
        if bounds is not None:
            yield bounds, y
            return
        for start in range(0, len(y), self.chunk):
            where = slice(start, start + self.chunk)
            part = {name: t[where] for name, t in x.items()}
            yield [model.bind(part) for model in self.models], y[where]

    def _probed(self, name: str, probe: Probe, W: State | None, state: State) -> Tensor:
        if W is None:
            return _missing(state)
        replicas = next(iter(state.values())).shape[0]
        value = probe({block: t.clone() for block, t in W.items()})  # a copy: whoever looks on cannot change the run
        if not isinstance(value, Tensor) or not value.ndim or value.shape[0] != replicas:
            what = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise InvalidInput(f"the probe {name!r} must give a tensor with leading replica axis {replicas}, got {what}.")
        if value.is_complex():
            raise InvalidInput(f"the probe {name!r} must give real numbers, got {value.dtype}.")
        if self._shapes.setdefault(name, value.shape) != value.shape:
            raise InvalidInput(
                f"the probe {name!r} must give one shape for every model and step; got {tuple(value.shape)} after "
                f"{tuple(self._shapes[name])}."
            )
        return value.detach().to(next(iter(W.values())).device)


def _missing(state: State) -> Tensor:
    """What stands for something that a model does not have: nan by replica, (R,)."""
    block = next(iter(state.values()))
    return block.new_full(block.shape[:1], float("nan"))


def _weight_distance(W: State | None, first: State | None, state: State) -> Tensor:
    """‖W − W_first‖ by replica, (R,); nan where a model keeps no weights."""
    if W is None or first is None:
        return _missing(state)
    parts: list[Tensor] = [(block - first[name]).square().flatten(1).sum(1) for name, block in W.items()]
    return torch.stack(parts).sum(0).sqrt()


def _are_labels(y: Tensor) -> bool:
    """Whether targets are classes: ±1 in one column, or one +1 among −1 in every row."""
    if not bool((y.abs() == 1).all()):
        return False
    return y.shape[1] == 1 or bool(((y == 1).sum(1) == 1).all())


def _hits(outputs: Tensor, targets: Tensor) -> Tensor:
    """How many samples are classified as their labels say, (R,)."""
    if targets.shape[1] == 1:
        return (outputs * targets > 0).sum((-2, -1)).to(outputs.dtype)
    return (outputs.argmax(-1) == targets.argmax(-1)).sum(-1).to(outputs.dtype)
