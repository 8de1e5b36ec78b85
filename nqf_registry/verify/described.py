"""The value of a layer's field as something that can be compared, written and hashed, whatever it is."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy
import torch
from torch import Tensor

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def described(value: Any) -> Any:
    """A number or word as it is; a tensor, array or module as its kind, its shape and a hash of what is in it.

    >>> described(3), described((1, 2)), described(torch.zeros(2)) == described(torch.zeros(2))
    (3, (1, 2), True)
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, tuple | list):
        return type(value)(map(described, value)) if type(value) in (tuple, list) else repr(value)
    if isinstance(value, Tensor):
        return f"{type(value).__name__} {tuple(value.shape)} {_hash([value])}"
    if isinstance(value, numpy.ndarray):
        return f"array {value.shape} {_hash([torch.from_numpy(numpy.ascontiguousarray(value))])}"
    if isinstance(value, torch.nn.Module):
        return f"{type(value).__name__} {_hash(value.state_dict().values())}"
    return value if type(value).__eq__ is object.__eq__ else repr(value)


def _hash(tensors: Iterable[Any]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        if isinstance(tensor, Tensor):
            found.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            # a clone: numpy() makes a storage one that can no longer be resized
            found.update(tensor.detach().cpu().clone().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()[:12]
