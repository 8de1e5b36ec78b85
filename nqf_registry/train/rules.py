"""The rule that a name or a class stands for."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.flow import Flow
from nqf_registry.train.numbers import short
from nqf_registry.train.optimizers import OPTIMIZERS, Optimizer

PREFIX = "torch.optim."


def of_torch() -> dict[str, type[torch.optim.Optimizer]]:
    """The optimisers of torch by name in small letters."""
    classes = (getattr(torch.optim, name) for name in dir(torch.optim))
    return {
        cls.__name__.lower(): cls
        for cls in classes
        if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
    }


def find_optimizer(optimizer: Any) -> type[Optimizer]:
    """A rule by name, or by a class of torch's optimisers.

    ``adam`` is this library's own; ``torch.optim.Adam`` is torch's.

    Raises:
        InvalidInput: there is no such rule.

    Example:
        >>> find_optimizer("adamw").name, find_optimizer(torch.optim.SGD).name
        ('torch.optim.AdamW', 'torch.optim.SGD')
    """
    own = {**OPTIMIZERS, Flow.name: Flow}
    if isinstance(optimizer, str):
        if optimizer in own:
            return own[optimizer]
        word, known = optimizer.removeprefix(PREFIX).lower().replace("-", ""), of_torch()
        if word in known and (word not in own or optimizer.startswith(PREFIX)):
            return _wrapped(known[word])
    elif isinstance(optimizer, type) and issubclass(optimizer, torch.optim.Optimizer):
        if optimizer is not torch.optim.Optimizer:
            return _wrapped(optimizer)
    elif isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidInput(
            f"optimizer must be a name or a class, got a made {type(optimizer).__name__}: a run makes its own weights. Give "
            f"optimizer={type(optimizer).__name__} and its constants by lr and optimizer_options."
        )
    names = [*own, *(name for name in of_torch() if name not in own)]
    raise InvalidInput(
        f"optimizer must be one of {', '.join(names)}, or a class of torch.optim.Optimizer; got {short(optimizer)}."
        f"{did_you_mean(str(optimizer), names)}"
    )


def _wrapped(cls: type[torch.optim.Optimizer]) -> type[Optimizer]:
    from nqf_registry.train.torch_rules import torch_rule

    return torch_rule(cls)
