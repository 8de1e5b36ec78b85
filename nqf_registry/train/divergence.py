"""What is said of a run that left the finite numbers: where, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nqf_registry.train.data import Data
from nqf_registry.train.lockstep import Failure
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import Model
from nqf_registry.train.optimizers import Optimizer
from nqf_registry.train.rates import largest_stable_rate
from nqf_registry.train.settings import Settings


def described(failure: Failure, models: Sequence[Model], settings: Settings) -> dict[str, Any]:
    """A failure for the manifest."""
    return {
        "step": failure.step,
        "model": models[failure.model].name,
        "replica": failure.replica,
        "seed": settings.seeds[failure.replica],
        "value": str(failure.value),
    }


def message(failure: Failure, models: Sequence[Model], data: Data, settings: Settings, optimizer: Optimizer) -> str:
    """What happened, and what to take instead: another rate, or where no step was taken, smaller weights."""
    replica = failure.replica
    where = f"replica {replica} (seed {settings.seeds[replica]})"
    text = (
        f"{models[failure.model].name} of {models[0].subject.key} left the finite numbers at step {failure.step}: "
        f"{where} has loss {failure.value:g}"
    )
    if failure.step == 0:
        return (
            f"{text} at its initial weights of scale {settings.scales[replica]:.4g}, before any step: the rate has no part in "
            f"it. Take a smaller scale or smaller data{'' if settings.dtype == 'float64' else ', or dtype float64'}."
        )
    if not optimizer.takes_rate:
        return (
            f"{text}. {optimizer.name} has no rate that could be too large: the layer's outputs or its gradient are not finite "
            f"there. Take smaller data{'' if settings.dtype == 'float64' else ', or dtype float64'}."
        )
    rate = optimizer.lr[replica if len(optimizer.lr) > 1 else 0]
    largest = 1.0 if settings.schedule is None else settings.schedule.largest(failure.step)
    given = (
        f"{rate:.4g}" if largest == 1 else f"{rate * largest:.4g}, {rate:.4g} times the schedule's largest factor {largest:.4g}"
    )
    rate *= largest
    try:
        stable = largest_stable_rate(models[0].subject, data, find_loss(settings.loss), optimizer.stability_limit())
    except Exception:  # an estimate that fails must not hide what happened
        stable = None
    if stable is not None and rate < stable:  # the estimate knows small weights, and the quadratic form, only
        hint = (
            f"The rate is below the largest stable one estimated for small weights, {stable:.4g}: weights of scale "
            f"{settings.scales[replica]:.4g} are too large for it. Take a smaller scale or a smaller rate."
        )
    elif stable is not None:
        hint = f"The estimated largest stable rate of {settings.optimizer} is {stable:.4g}; take a rate below it."
    else:
        hint = f"There is no estimate of the largest stable rate of {settings.optimizer} here; take a smaller one."
    return f"{text} at rate {given}. {hint}"
