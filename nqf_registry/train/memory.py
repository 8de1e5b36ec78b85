"""Whether the weights of a run fit into memory, told before any of them is made."""

from __future__ import annotations

import os
from typing import Any

import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.train.settings import DTYPES, Settings

COPIES = 3  # of a model's weights at once: themselves, their gradient, and what the rule keeps or makes of them


def check_memory(subject: Any, models: int, settings: Settings) -> None:
    """Refuses a run whose weights alone are more than the device's memory.

    Raises:
        InvalidInput: with the estimate, replicas · weights · bytes · models · copies.
    """
    total = subject.n_params * subject.width if hasattr(subject, "n_params") else subject.n_weights
    size = DTYPES[settings.dtype].itemsize
    needed = settings.replicas * total * size * models * COPIES
    have = _memory(settings.device)
    if have is not None and needed > have:
        raise InvalidInput(
            f"{settings.replicas:,} replicas of {subject.key} with {total:,} weights in {models} models need about "
            f"{needed / 2**30:,.1f} GiB, and {settings.device} has {have / 2**30:,.1f} GiB; give fewer replicas, or smaller "
            "sizes."
        )


def _memory(device: str) -> int | None:
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # a system that does not say
        return None
