"""What is found out before a run has a folder: that data and subject fit, the verdicts, the rule with its rate."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput, LayerError, NQFError
from nqf_registry.layer import cast
from nqf_registry.train import manifest as manifests
from nqf_registry.train.data import Data
from nqf_registry.train.directory import check_path
from nqf_registry.train.flow import Flow, flow_times
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import initial_weights
from nqf_registry.train.optimizers import Optimizer
from nqf_registry.train.rates import Rate, automatic_rate
from nqf_registry.train.records import check_probes, record_steps
from nqf_registry.train.rules import find_optimizer
from nqf_registry.train.settings import DTYPES, Settings, make_settings


def check_settings(
    *,
    n: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    records: Any = 100,
    probes: Any = (),
    until: Any = None,
    **settings: Any,
) -> tuple[Settings, list[int]]:
    """Everything about a run that can be told before there is data: its settings, completed, and the steps to record.

    Raises:
        InvalidInput: a setting is none that a run can have, or the folder none for a new run.
        StorageError: the system does not let the folder be made.
    """
    times: tuple[float, ...] = ()
    if find_optimizer(settings["optimizer"]) is Flow:
        if settings["steps"] is not None:
            raise InvalidInput("gradient flow takes no steps; leave steps out and say until=, the time at which it ends.")
        times = flow_times(until, records)
    elif until is not None:
        raise InvalidInput("until is the time at which optimizer='flow' ends; other rules take steps.")
    made = make_settings(n=n, times=times, **settings)
    chosen = list(range(len(times))) if times else record_steps(made.steps, records)
    check_probes(probes)
    if directory is not None:
        check_path(directory)
    return made, chosen


def check_data(subject: Any, data: Data, settings: Settings) -> None:
    """Tries the subject on two samples of each set, so that data that does not fit is told before anything is computed.

    Raises:
        InvalidInput: inputs or targets are none that the subject, the loss or the dtype can take.
        LayerError: the subject breaks on them.
    """
    sets = [("", data.x, data.y)]
    if data.test_x is not None and data.test_y is not None:
        sets.append(("test ", data.test_x, data.test_y))
    ports = subject.ports()
    if set(data.x) != set(ports):
        raise InvalidInput(
            f"{subject.key} takes the inputs {', '.join(f'{name} {port}' for name, port in ports.items())}; "
            f"{data.name} has {', '.join(data.x)}."
        )
    for which, x, y in sets:
        find_loss(settings.loss).check(y)
        _check_range(f"{data.name}: {which}", {**{f"input {name!r}": t for name, t in x.items()}, "targets": y}, settings.dtype)
        _try(subject, data.name, which, {name: t[:2] for name, t in x.items()}, y, settings)


def _check_range(where: str, tensors: Mapping[str, Tensor], dtype: str) -> None:
    largest = torch.finfo(DTYPES[dtype]).max
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and tensor.numel() and float(size := tensor.abs().max()) > largest:
            raise InvalidInput(
                f"{where}{name} holds {float(size):.3g}, too large for {dtype} (at most {largest:.3g}); scale the data down"
                f"{'' if dtype == 'float64' else ', or give dtype float64'}."
            )


def _try(subject: Any, name: str, which: str, x: Mapping[str, Tensor], y: Tensor, settings: Settings) -> None:
    x = {port: t.cpu() for port, t in cast(dict(x), DTYPES[settings.dtype]).items()}
    W = initial_weights(subject, settings.seeds[:1], settings.scales[:1], DTYPES[settings.dtype])
    try:
        with torch.no_grad():
            outputs = subject({block: t[0] for block, t in W.items()}, x)
    except NQFError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{port} {tuple(t.shape)}" for port, t in x.items())
        raise LayerError(
            f"{subject.key} cannot take {which}samples of {name} ({shapes}): {type(error).__name__}: {error}"
        ) from error
    if outputs.shape[-1] != y.shape[-1]:
        raise InvalidInput(
            f"{subject.key} has {outputs.shape[-1]} outputs, {name} has {which}targets of {y.shape[-1]}; give the layer "
            f"as many outputs."
        )


def choose_rule(subject: Any, data: Data, settings: Settings) -> tuple[Optimizer, Rate]:
    """The rule with its constants, and the rate with its reason.

    Raises:
        InvalidInput: no rate follows from the data, or none that the dtype holds.
    """
    decay, options = _merged(settings.weight_decay), settings.optimizer_options
    if settings.times:
        options = {**options, "times": settings.times}

    def rule(lr: tuple[float, ...]) -> Optimizer:
        return settings.rule(lr, decay, settings.momentum, options, settings.schedule)

    if not isinstance(settings.lr, str):
        return rule(_merged(settings.lr)), Rate(settings.lr[0], "given")
    largest = 1.0 if settings.schedule is None else settings.schedule.largest(settings.steps)
    rate = automatic_rate(subject, data, find_loss(settings.loss), rule((0.0,)), largest_start(subject, settings), largest)
    if not 0 < rate.value <= torch.finfo(DTYPES[settings.dtype]).max:
        raise InvalidInput(
            f"lr='auto' leads to the rate {rate.value:.3g}, which {settings.dtype} does not hold ({rate.rule}). "
            f"Scale the data, or give lr a number."
        )
    return rule((rate.value,)), rate


def largest_start(subject: Any, settings: Settings) -> dict[str, torch.Tensor]:
    """The initial weights of the replica of the largest scale, in float64, blocks (*shape, d)."""
    replica = max(range(settings.replicas), key=lambda r: settings.scales[r])
    W = initial_weights(subject, [settings.seeds[replica]], settings.scales[replica], torch.float64, settings.device)
    return {name: block[0] for name, block in W.items()}


def _merged(values: tuple[float, ...]) -> tuple[float, ...]:
    """One number where all replicas have the same, so that a step need not look it up by replica."""
    return values[:1] if len(set(values)) == 1 else values


def verdicts(subject: Any, told: bool) -> dict[str, str]:
    """The verdict line of every layer of the subject; a layer that nobody has verified is verified now."""
    from nqf_registry.verify.verdict import verdict

    said: dict[Any, Any] = {}
    for layer in manifests.layers_of(subject).values():
        if layer not in said:
            said[layer] = verdict(layer)
            if told:
                print(said[layer].line(), file=sys.stderr)
    # whether a verdict was measured now or before makes no difference to the run, so the manifest does not say
    return {name: dataclasses.replace(said[layer], cached=False).line() for name, layer in manifests.layers_of(subject).items()}
