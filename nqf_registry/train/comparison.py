"""Several runs beside each other: what they were made with, where they ended, how far their curves are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nqf_registry.errors import InvalidInput
from nqf_registry.train.runs import Run

LEFT_OUT = {"format", "process", "records", "elapsed", "verdicts", "resumed", "failure", "unwritten", "stalled", "info", "yaml"}


@dataclass(frozen=True)
class Distance:
    """How far a curve of one run is from that of the first run.

    Attributes:
        run: position of the run.
        model: whose loss.
        distance: max |L − L_first| / L_first(0) over the steps that both recorded; of several replicas, of their means.
        step: where it is.
        steps: how many steps both recorded.
    """

    run: int
    model: str
    distance: float
    step: int
    steps: int


@dataclass(frozen=True)
class Comparison:
    """What :func:`compare_runs` finds.

    Attributes:
        names: of the runs.
        differing: by name of a setting, one value a run; None where a run has none. Only those that differ.
        last: by model, the last training loss of each run, mean over replicas; None where it was not trained or recorded.
        distances: from the first run, of every model that a run shares with it.
    """

    names: list[str]
    differing: dict[str, list[Any]]
    last: dict[str, list[float | None]]
    distances: list[Distance]


def compare_runs(runs: Sequence[Run], names: Sequence[str] | None = None) -> Comparison:
    """Compares runs with the first of them.

    Args:
        runs: two or more.
        names: what to call them; their folders if left out.

    Raises:
        InvalidInput: there are fewer than two.
    """
    if len(runs) < 2:
        raise InvalidInput(f"a comparison needs at least two runs, got {len(runs)}.")
    flat = [dict(_flat(run.manifest)) for run in runs]
    keys = list(dict.fromkeys(key for one in flat for key in one))
    differing = {key: [one.get(key) for one in flat] for key in keys}
    models = list(dict.fromkeys(model for run in runs for model in run.models))
    return Comparison(
        names=[str(run.directory or "in memory") for run in runs] if names is None else list(names),
        differing={key: values for key, values in differing.items() if any(value != values[0] for value in values)},
        last={model: [_last(run, model) for run in runs] for model in models},
        distances=[
            found for r, run in enumerate(runs[1:], 1) for model in run.models if (found := _distance(runs[0], run, r, model))
        ],
    )


def _flat(value: Mapping[str, Any], before: str = "") -> list[tuple[str, Any]]:
    """The entries of a manifest by path; a list of equal numbers is one number."""
    found: list[tuple[str, Any]] = []
    for name, part in value.items():
        if name in LEFT_OUT:
            continue
        if isinstance(part, Mapping):
            found += _flat(part, f"{before}{name}.")
        elif isinstance(part, list) and part and all(one == part[0] for one in part):
            found.append((before + name, part[0]))
        else:
            found.append((before + name, part))
    return found


def _curve(run: Run, model: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Steps and mean training loss over replicas."""
    if model not in run.models or not run.records:
        return None
    steps, loss = run.curves("train_loss", model)
    return steps, loss.mean(0)


def _last(run: Run, model: str) -> float | None:
    curve = _curve(run, model)
    return None if curve is None else float(curve[1][-1])


def _distance(first: Run, run: Run, position: int, model: str) -> Distance | None:
    own, other = _curve(run, model), _curve(first, model)
    if own is None or other is None:
        return None
    common, here, there = np.intersect1d(own[0], other[0], return_indices=True)
    apart = np.abs(own[1][here] - other[1][there]) / other[1][0]
    place = int(np.argmax(apart))
    return Distance(position, model, float(apart[place]), int(common[place]), len(common))
