"""What an optimiser of torch remembers, as plain tensors by name and back, bit for bit.

``optimizer.state`` maps a parameter to a dict of tensors, numbers, lists and None, and some rules count in their parameter
groups. Every such value gets a name that says what it was: ``exp_avg`` a tensor, ``step#int`` a number of Python,
``group:k#int`` one of a parameter group, ``old_dirs#list`` the length of a list whose parts are ``old_dirs/0``, ….
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

GROUP = "group:"
NUMBERS = {"bool": (bool, torch.bool), "int": (int, torch.int64), "float": (float, torch.float64)}


def encode(name: str, value: Any, device: torch.device) -> dict[str, Tensor]:
    """A value as tensors by name; tensors come as they are, not copied.

    Args:
        name: of the value.
        value: a tensor, a number, None, or a list or tuple of such.
        device: of the parameter; a tensor that lies on the CPU beside a parameter elsewhere is marked as such.

    Raises:
        TypeError: the value is something else.
    """
    if isinstance(value, Tensor):
        return {name + ("#cpu" if value.device.type == "cpu" != device.type else ""): value}
    if value is None:
        return {f"{name}#none": torch.zeros(0)}
    for word, (kind, dtype) in NUMBERS.items():
        if type(value) is kind:
            return {f"{name}#{word}": torch.tensor(value, dtype=dtype)}
    if isinstance(value, list | tuple):
        word = "list" if isinstance(value, list) else "tuple"
        found = {f"{name}#{word}": torch.tensor(len(value))}
        for i, part in enumerate(value):
            found |= encode(f"{name}/{i}", part, device)
        return found
    raise TypeError(f"{name!r} is {type(value).__name__}")


def decode(found: Mapping[str, Tensor]) -> dict[str, Any]:
    """The values of :func:`encode` by name; tensors come as they are, not copied."""
    values: dict[str, Any] = {}
    lengths: dict[str, tuple[str, int]] = {}
    for key, tensor in found.items():
        name, _, word = key.partition("#")
        if word in NUMBERS:
            values[name] = NUMBERS[word][0](tensor.item())
        elif word in ("list", "tuple"):
            lengths[name] = (word, int(tensor))
        else:
            values[name] = None if word == "none" else tensor.cpu() if word == "cpu" else tensor
    for name in sorted(lengths, key=lambda name: -name.count("/")):  # what lies inside first
        word, length = lengths[name]
        parts = [values.pop(f"{name}/{i}") for i in range(length)]
        values[name] = parts if word == "list" else tuple(parts)
    return values


def changed(group: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """What of a parameter group is no longer as it was made, by name."""
    return {
        name: value
        for name, value in group.items()
        if name not in ("params", "param_names") and not (name in first and _same(value, first[name]))
    }


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, Tensor) or isinstance(other, Tensor):
        return isinstance(value, Tensor) and isinstance(other, Tensor) and torch.equal(value, other)
    return type(value) is type(other) and value == other
