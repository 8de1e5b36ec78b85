"""What a run was asked for, checked and completed before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.train.losses import find_loss
from nqf_registry.train.optimizers import find_optimizer

SEEDS = 2**63 - 1  # the largest seed; with its sign, what every random generator and every file format takes
REPLICAS = 10**6  # each has its seed in the manifest
STEPS = 2**53  # so many are still counted exactly where they become times
DTYPES = {"float32": torch.float32, "float64": torch.float64}
MOMENTUM = 0.9


@dataclass(frozen=True)
class Settings:
    """The settings of a run; everything that decides its numbers, apart from subject, models and data.

    Attributes:
        optimizer: name of the rule.
        lr: one rate a replica, or ``"auto"`` until it is chosen.
        steps: how many steps.
        batch: samples a minibatch, None for all of them.
        batch_seed: of the order of the minibatches.
        seeds: one a replica.
        scales: standard deviation of the initial weights, one a replica.
        weight_decay: γ, one a replica.
        momentum: β; 0 for rules without it.
        loss: name of the loss.
        dtype: ``float32`` or ``float64``.
        device: as torch writes it.
        chunk: samples evaluated at a time.
    """

    optimizer: str
    lr: tuple[float, ...] | str
    steps: int
    batch: int | None
    batch_seed: int
    seeds: tuple[int, ...]
    scales: tuple[float, ...]
    weight_decay: tuple[float, ...]
    momentum: float
    loss: str
    dtype: str
    device: str
    chunk: int

    @property
    def replicas(self) -> int:
        """The number of replicas, R."""
        return len(self.seeds)


def make_settings(
    *,
    n: int | None,
    optimizer: Any,
    lr: Any,
    steps: int,
    batch: int | None,
    batch_seed: int,
    replicas: int,
    seed: Any,
    scale: Any,
    weight_decay: Any,
    momentum: Any,
    loss: Any,
    dtype: Any,
    device: Any,
    chunk: int | None,
) -> Settings:
    """Checks every setting; n is the number of training samples, None where it is not known yet.

    Raises:
        InvalidInput: a setting is none that a run can have.
    """
    rule, dtype = find_optimizer(optimizer), find_dtype(dtype)
    steps, replicas = whole("steps", steps, 0, STEPS), whole("replicas", replicas, 1, REPLICAS)
    batch_seed = whole("batch_seed", batch_seed, 0, SEEDS)
    if batch is not None:
        batch = whole("batch", batch, 1)
        if n is not None and batch > n:
            raise InvalidInput(
                f"batch must be at most the {n} training samples, got {batch}; leave it out to use all of them in every step."
            )
    seed, scale, weight_decay, lr = map(_listed, (seed, scale, weight_decay, lr))
    given = {"seed": seed, "scale": scale, "weight_decay": weight_decay, "lr": lr}
    lists = {name: len(value) for name, value in given.items() if isinstance(value, Sequence) and not isinstance(value, str)}
    count = max([replicas, *lists.values()])
    for name, length in lists.items():
        if length != count:
            raise InvalidInput(f"{name} has {length} values for {count} replicas; give one value, or one a replica.")
    if replicas not in (1, count):
        raise InvalidInput(f"replicas is {replicas}, but {max(lists, key=lambda n: lists[n])} has {count} values.")
    if isinstance(seed, Sequence) and not isinstance(seed, str):
        seeds = tuple(whole("seed", s, 0, SEEDS) for s in seed)
    else:
        first = whole("seed", seed, 0, SEEDS - count + 1)
        seeds = tuple(first + r for r in range(count))
    if rule.takes_momentum:
        beta = MOMENTUM if momentum is None else number("momentum", momentum)
        if not 0 <= beta < 1:
            raise InvalidInput(f"momentum must be at least 0 and below 1, got {momentum}.")
    elif momentum is not None and number("momentum", momentum):
        raise InvalidInput(
            f"optimizer {optimizer!r} takes no momentum; use optimizer='momentum' or 'nesterov', or leave momentum out."
        )
    else:
        beta = 0.0
    return Settings(
        optimizer=optimizer,
        lr=lr
        if isinstance(lr, str) and lr == "auto"
        else _numbers("lr", lr, count, dtype, positive=True, word="a positive number, or 'auto'"),
        steps=steps,
        batch=batch,
        batch_seed=batch_seed,
        seeds=seeds,
        scales=_numbers("scale", scale, count, dtype, positive=True, word="a positive number"),
        weight_decay=_numbers("weight_decay", weight_decay, count, dtype, positive=False, word="a number of at least 0"),
        momentum=beta,
        loss=find_loss(loss).name,
        dtype=dtype,
        device=find_device(device, dtype),
        chunk=whole("chunk", max(1, 16384 // count) if chunk is None else chunk, 1),
    )


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number of at least ``least``, and at most ``most``.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, got {_short(value)}.")
    return int(value)


def number(name: str, value: Any) -> float:
    """A finite number.

    Raises:
        InvalidInput: it is none.
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        found = float(value) if real else float("nan")
    except OverflowError:
        found = float("inf")
    if not abs(found) < float("inf"):
        raise InvalidInput(f"{name} must be a finite number, got {_short(value)}.")
    return found


def _short(value: Any) -> str:
    """A value for a message, cut where it is long; an integer of many digits is not even written out."""
    if isinstance(value, int) and abs(value) > 10**30:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _listed(value: Any) -> Any:
    """Arrays and tensors as lists and numbers."""
    return value.tolist() if hasattr(value, "tolist") else list(value) if isinstance(value, range) else value


def _numbers(name: str, value: Any, count: int, dtype: str, positive: bool, word: str) -> tuple[float, ...]:
    """One number a replica, each one that the dtype holds."""
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value] * count
    limits = torch.finfo(DTYPES[dtype])
    found = []
    for one in values:
        if isinstance(one, bool) or not isinstance(one, int | float) or not 0 <= one < float("inf") or (positive and one == 0):
            raise InvalidInput(f"{name} must be {word}, got {one!r}.")
        if one > limits.max or (positive and one < limits.smallest_normal):
            raise InvalidInput(
                f"{name} must lie in the range of {dtype}, {limits.smallest_normal:.3g} to {limits.max:.3g}; got {_short(one)}."
            )
        found.append(float(one))
    return tuple(found)


def find_dtype(dtype: Any) -> str:
    """The name of a dtype of weights.

    Raises:
        InvalidInput: neither float32 nor float64.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:
        raise InvalidInput(f"dtype must be float32 or float64, got {dtype}.")
    return name


def find_device(device: Any, dtype: str = "float32") -> str:
    """A device that is there and computes in the dtype; ``auto`` is CUDA where there is one, else the CPU.

    Raises:
        InvalidInput: torch has no such device here.
    """
    if isinstance(device, str) and device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
        float(torch.ones(2, dtype=DTYPES[dtype], device=found).sum())  # a device such as meta gives tensors and no numbers
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise InvalidInput(
            f"device {str(device)!r} cannot be used here ({reason}). Use device='cpu', or 'auto' for what there is."
        ) from None
    return str(found)
