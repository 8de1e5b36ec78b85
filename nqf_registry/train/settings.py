"""What a run was asked for, checked and completed before anything is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.train.events import check_events
from nqf_registry.train.losses import find_loss
from nqf_registry.train.numbers import SEEDS, number, short, whole
from nqf_registry.train.optimizers import Optimizer
from nqf_registry.train.rules import PREFIX, find_optimizer
from nqf_registry.train.schedules import Schedule, find_schedule, source_of

REPLICAS = 10**6  # each has its seed in the manifest
STEPS = 2**53  # so many are still counted exactly where they become times
DTYPES = {"float32": torch.float32, "float64": torch.float64}
STEPS_DEFAULT = 1000


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
        rule: the class of the rule.
        optimizer_options: further constants of the rule, by name.
        schedule: a factor on the rate by step; None for a constant rate.
        times: the recorded times of gradient flow; empty for rules that take steps.
        events: the fraction by which a loss has to move to be recorded beside what is planned; None for planned records only.
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
    rule: type[Optimizer]
    optimizer_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    schedule: Schedule | None = None
    times: tuple[float, ...] = ()
    events: float | None = None

    @property
    def replicas(self) -> int:
        """The number of replicas, R."""
        return len(self.seeds)

    def described(self) -> dict[str, Any]:
        """The settings for a manifest: names in place of functions and classes, with a hash of the source of those given."""
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self) if one.name != "rule"}
        found["schedule"] = None if self.schedule is None else self.schedule.described()
        given = getattr(self.rule, "torch_class", None)
        if given is not None and not self.optimizer.startswith(PREFIX):
            found["optimizer_source"] = source_of(given)
        return found

    def elapsed(self, steps: Sequence[int]) -> list[float] | None:
        """Flow time over the rate after each of these steps, which ascend; None where that is their number."""
        if self.times:
            return [self.times[step] for step in steps]
        return None if self.schedule is None else self.schedule.elapsed(steps)


def make_settings(
    *,
    n: int | None,
    optimizer: Any,
    lr: Any,
    steps: int | None,
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
    optimizer_options: Any = None,
    schedule: Any = None,
    schedule_options: Any = None,
    times: tuple[float, ...] = (),
    events: Any = None,
) -> Settings:
    """Checks every setting; n is the number of training samples, None where it is not known yet.

    ``times`` are those of :func:`nqf_registry.train.flow.flow_times`, for gradient flow.

    Raises:
        InvalidInput: a setting is none that a run can have.
    """
    rule, dtype = find_optimizer(optimizer), find_dtype(dtype)
    steps = len(times) - 1 if times else whole("steps", STEPS_DEFAULT if steps is None else steps, 0, STEPS)
    replicas = whole("replicas", replicas, 1, REPLICAS)
    batch_seed = whole("batch_seed", batch_seed, 0, SEEDS)
    if batch is not None:
        batch = whole("batch", batch, 1)
        if rule.full_batch:
            raise InvalidInput(f"optimizer {rule.name!r} follows the gradient of all samples; leave batch out.")
        if n is not None and batch > n:
            raise InvalidInput(
                f"batch must be at most the {n} training samples, got {batch}; leave it out to use all of them in every step."
            )
    options = _options(optimizer_options)
    weight_decay = _once("weight_decay", weight_decay, options)
    if rule.takes_momentum:
        momentum = _once("momentum", momentum, options)
    if weight_decay is None:
        weight_decay = rule.weight_decay_default
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
    rates, momentum = _rates(rule, lr, count, dtype), _momentum(rule, momentum)
    decays = _numbers("weight_decay", weight_decay, count, dtype, positive=False, word="a number of at least 0")
    return Settings(
        optimizer=rule.name,
        rule=rule,
        optimizer_options=rule.check_options(
            options, DTYPES[dtype], None if isinstance(rates, str) else rates[0], decays[0], momentum
        ),
        schedule=_schedule(rule, schedule, schedule_options, steps),
        times=times,
        events=check_events(events, bool(times)),
        lr=rates,
        steps=steps,
        batch=batch,
        batch_seed=batch_seed,
        seeds=seeds,
        scales=_numbers("scale", scale, count, dtype, positive=True, word="a positive number"),
        weight_decay=decays,
        momentum=momentum,
        loss=find_loss(loss).name,
        dtype=dtype,
        device=find_device(device, dtype),
        chunk=whole("chunk", max(1, 16384 // count) if chunk is None else chunk, 1),
    )


def _options(options: Any) -> dict[str, Any]:
    """The options of a rule as they were given."""
    if options is None:
        return {}
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise InvalidInput(f"optimizer_options must be a dict of options by name, got {short(options)}.")
    return dict(options)


def _once(name: str, value: Any, options: dict[str, Any]) -> Any:
    """A setting that may also stand among the options of the rule, which it is taken from."""
    if name in options and value is not None:
        raise InvalidInput(f"{name} is given twice, by itself and in optimizer_options; give it once.")
    return options.pop(name) if name in options else value


def _rates(rule: type[Optimizer], lr: Any, count: int, dtype: str) -> tuple[float, ...] | str:
    if isinstance(lr, str) and lr == "auto":
        return lr
    if not rule.takes_rate:
        raise InvalidInput("gradient flow has no rate: its time is that of rate 1. Leave lr out.")
    return _numbers("lr", lr, count, dtype, positive=True, word="a positive number, or 'auto'")


def _momentum(rule: type[Optimizer], momentum: Any) -> float:
    if rule.takes_momentum:
        beta = rule.momentum_default if momentum is None else number("momentum", momentum)
        if not 0 <= beta < 1:
            raise InvalidInput(f"momentum must be at least 0 and below 1, got {momentum}.")
        return beta
    if momentum is not None and number("momentum", momentum):
        raise InvalidInput(
            f"optimizer {rule.name!r} takes no momentum; use optimizer='momentum' or 'nesterov', or leave momentum out."
        )
    return 0.0


def _schedule(rule: type[Optimizer], schedule: Any, options: Any, steps: int) -> Schedule | None:
    found = find_schedule(schedule, options, steps)
    if not rule.takes_rate and found is not None:
        raise InvalidInput("gradient flow has no rate that a schedule could change; leave schedule out.")
    return found


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
                f"{name} must lie in the range of {dtype}, {limits.smallest_normal:.3g} to {limits.max:.3g}; got {short(one)}."
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
