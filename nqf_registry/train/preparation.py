"""What is found out before a run has a folder: that data and subject fit, the verdicts, the rule with its rate."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput, LayerError, NQFError
from nqf_registry.layer import cast
from nqf_registry.train import manifest as manifests
from nqf_registry.train.data import Data
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import initial_weights
from nqf_registry.train.optimizers import Optimizer, find_optimizer
from nqf_registry.train.rates import Rate, automatic_rate
from nqf_registry.train.settings import DTYPES, Settings


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
    rule, decay = find_optimizer(settings.optimizer), _merged(settings.weight_decay)
    if not isinstance(settings.lr, str):
        return rule(_merged(settings.lr), decay, settings.momentum), Rate(settings.lr[0], "given")
    rate = automatic_rate(
        subject, data, find_loss(settings.loss), rule((0.0,), decay, settings.momentum), largest_start(subject, settings)
    )
    if not 0 < rate.value <= torch.finfo(DTYPES[settings.dtype]).max:
        raise InvalidInput(
            f"lr='auto' leads to the rate {rate.value:.3g}, which {settings.dtype} does not hold ({rate.rule}). "
            f"Scale the data, or give lr a number."
        )
    return rule((rate.value,), decay, settings.momentum), rate


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
