"""Numbers that belong to a layer and are not trained, such as a fixed readout: one seed gives them, everywhere the same."""

from __future__ import annotations

import random
from functools import lru_cache
from math import prod

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput


def fixed_normal(seed: int, shape: tuple[int, ...], scale: float, like: Tensor) -> Tensor:
    """Independent normal numbers of standard deviation ``scale``, in the dtype and on the device of a tensor.

    They are made once for each dtype and device, and do not change any random state. They come from Python's generator: torch's
    is refused inside ``vmap``. The same tensor is given again at the next call, so it must not be written to.

    Args:
        seed: an integer from 0 up.
        shape: of the result, filled row-major.
        scale: the standard deviation.
        like: a tensor with the wanted dtype and device, such as an input.

    Raises:
        InvalidInput: the seed is no integer from 0 up.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> nqf.fixed_normal(0, (2, 3), 0.1, torch.zeros(1)).shape
        torch.Size([2, 3])
    """
    if not isinstance(seed, int) or seed < 0:
        raise InvalidInput(f"the seed of fixed numbers must be an integer from 0 up, got {seed!r}.")
    return _made(seed, tuple(shape), float(scale), like.dtype, like.device)


@lru_cache(maxsize=64)
def _made(seed: int, shape: tuple[int, ...], scale: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    generator = random.Random(seed)
    values = [generator.gauss(0.0, scale) for _ in range(prod(shape))]
    with torch.inference_mode(False):  # the first caller's mode must not mark the tensor for all later ones
        return torch.tensor(values, dtype=dtype, device=device).reshape(shape)
