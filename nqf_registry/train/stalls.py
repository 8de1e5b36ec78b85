"""A run whose loss did not move: that it did not, why, and what would move it. A stall is a result, not an error."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nqf_registry.dynamics.growth import growth_rates
from nqf_registry.train.data import Data
from nqf_registry.train.gradients import formed
from nqf_registry.train.lockstep import Lockstep, Progress
from nqf_registry.train.models import State, initial_weights
from nqf_registry.train.optimizers import Optimizer
from nqf_registry.train.records import Record
from nqf_registry.train.settings import DTYPES, Settings

ULPS = 32  # of the first loss: what moves by less has not moved


def stalled(
    lockstep: Lockstep, data: Data, settings: Settings, optimizer: Optimizer, records: Sequence[Record], now: Progress
) -> dict[str, Any] | None:
    """The first model and replica whose loss stayed what it was through all records of a run, None where every one moved.

    Args:
        lockstep: the models with data and rule.
        data: on the device and in the dtype of the run.
        settings: of the run.
        optimizer: the rule.
        records: all of them, from the first step to the last.
        now: the end of the run.

    Returns:
        For the manifest: ``model``, ``replica``, ``seed``, ``count`` of stalled replicas of any model, and ``message``.
    """
    if len(records) < 2 or not now.step:
        return None
    losses = np.stack([record["train_loss"] for record in records])  # (record, model, replica)
    span = np.abs(losses - losses[:1]).max(0)
    still = (span <= ULPS * torch.finfo(DTYPES[settings.dtype]).eps * np.abs(losses[0])) & (losses[0] != 0)
    if not still.any():
        return None
    m, r = (int(i) for i in np.argwhere(still)[0])
    model, subject = lockstep.models[m], lockstep.models[m].subject
    start = lockstep.begin(initial_weights(subject, settings.seeds, settings.scales, DTYPES[settings.dtype], settings.device))
    before, after = _replica(start.states[m], r), _replica(now.states[m], r)
    with torch.no_grad():
        gradient = lockstep.objectives(max(now.step - 1, 0))[m].gradient(after)
    flat = not any(bool(formed(g).any()) for g in gradient.values())
    text = (
        f"the loss of {model.name}, replica {r} (seed {settings.seeds[r]}), stayed at {losses[0, m, r]:.4g} through all "
        f"{_way(settings)}: "
    )
    if flat and not any(bool(block.any()) for block in after.values()):
        text += "its weights are exactly zero, where the gradient vanishes. Give it a scale that the dtype holds."
    elif flat:
        text += "the gradient vanishes exactly at its weights. Take a larger scale, another seed, or dtype float64."
    elif all(torch.equal(before[name], after[name]) for name in before):
        text += "every step is lost in the rounding of the weights. Take a much larger rate."
    else:
        text += _slow(subject, data, settings, optimizer, lockstep, start.states[m] if model.weights(before) else None, r)
    return {"model": model.name, "replica": r, "seed": settings.seeds[r], "count": int(still.sum()), "message": text}


def _way(settings: Settings) -> str:
    return f"times up to {settings.times[-1]:.4g}" if settings.times else f"{settings.steps} steps"


def _replica(state: State, r: int) -> State:
    return {name: block[r : r + 1] for name, block in state.items()}


def _slow(
    subject: Any, data: Data, settings: Settings, optimizer: Optimizer, lockstep: Lockstep, W: State | None, r: int
) -> str:
    """What is said of weights that moved without moving the loss: how far the fastest mode came."""
    longer = "Let it run on, or start from a larger scale."
    advice = longer if settings.times else "Take a larger rate, more steps, or a larger scale."
    if not optimizer.linear:
        return f"its weights moved too little. {advice}"
    try:
        growth = growth_rates(subject, data, 1, lockstep.loss.cotangent, tolerance=1e-3)
        rate = float(growth.rates[0])
        size = None if W is None else float(growth.order_parameter(W)[r]) ** 0.5
    except Exception:  # an estimate that fails must not hide the result
        return f"its weights moved too little. {advice}"
    lr = optimizer.lr[r if len(optimizer.lr) > 1 else 0]
    elapsed = (settings.elapsed([settings.steps]) or [float(settings.steps)])[0]
    grown = rate * lr * elapsed / (1 - optimizer.momentum)
    if grown <= 0:
        return f"no mode of small weights grows on {data.name}: its quadratic form does not correlate with the targets."
    much = f"{100 * math.expm1(grown):.2g} %" if grown < 0.1 else f"a factor {math.exp(min(grown, 700)):.4g}"
    text = f"small weights grew by {much} at most (growth rate {rate:.4g}), which is too little. "
    if size and size < 1:
        text += f"To come from {size:.2g} to order one takes about {-math.log(size) / grown:.2g} times as long. "
    return text + advice
