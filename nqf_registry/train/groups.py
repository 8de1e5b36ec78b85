"""Replicas in groups: which are computed by one call, and which step through a block before the next ones do.

A call that takes more replicas may add in another order, so the replicas of one call, a *group*, decide the last bits; their
number belongs to a run from its beginning. A *chunk* is one group or several that step together, and decides nothing: each
group is computed by the same calls, whatever stands beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.train.optimizers import OPTIMIZERS, Optimizer, Slots

# Bytes that a step may touch on a CPU, measured with two-layer layers on a core with 2 MiB of second-level cache.
# A group's, where the gradient is a sum over samples: 64 or 256 replicas then step up to 2.6 times as quick.
BY_SAMPLE = 1 << 20
TOGETHER = 12 << 20  # all replicas', where there is no such sum: within it one call for all is quickest, beyond it one for each
GPU_SHARE = 8  # a group touches at most this part of a GPU's memory
COPIES = 4  # of what is trained: itself, its gradient, and what a rule keeps or makes


def divides(rule: Optimizer) -> bool:
    """Whether what a rule remembers is laid out by replica, so that it can be applied to some of them."""
    return type(rule) in OPTIMIZERS.values()


def check_rule(rule: Optimizer, replicas: int, group: int) -> None:
    """Whether a rule can be applied to a group of replicas at a time.

    Raises:
        InvalidInput: what it remembers is not laid out by replica.
    """
    if group < replicas and not divides(rule):
        raise InvalidInput(
            f"optimizer {rule.name!r} takes all replicas at once; leave replica_chunk out, or use {', '.join(OPTIMIZERS)}."
        )


def fitting(state: Mapping[str, Tensor], samples: int | None) -> int:
    """How many replicas a call should take: those that fit the cache of a CPU, or the memory of a GPU.

    Args:
        state: the trained blocks (R, *shape, d).
        samples: how many samples the gradient is a sum over, None where it is none.

    >>> state = {"u": torch.zeros(256, 10, 30)}
    >>> fitting(state, samples=None), fitting(state, samples=200)
    (256, 19)
    """
    block = next(iter(state.values()))
    replicas, width = block.shape[0], max(block.shape[-1] for block in state.values())
    touched = COPIES * sum(block[0].numel() for block in state.values()) + 2 * (samples or 0) * width
    bytes_each = touched * block.element_size()
    if block.is_cuda:
        room = torch.cuda.get_device_properties(block.device).total_memory // GPU_SHARE
        return min(replicas, max(1, room // bytes_each))
    if samples is None:
        return replicas if replicas * bytes_each <= TOGETHER else 1
    return min(replicas, max(1, BY_SAMPLE // bytes_each))


def spans(replicas: int, group: int) -> list[tuple[int, int]]:
    """The first replica of each group and the first after it."""
    return [(begin, min(begin + group, replicas)) for begin in range(0, replicas, group)]


def chunks(replicas: int, group: int, chunk: int) -> Iterator[list[tuple[int, int]]]:
    """The groups of each chunk; a chunk is rounded up to whole groups.

    >>> list(chunks(5, group=2, chunk=3))
    [[(0, 2), (2, 4)], [(4, 5)]]
    """
    found, count = spans(replicas, group), -(-chunk // group)
    yield from (found[first : first + count] for first in range(0, len(found), count))


def part_of_rule(rule: Optimizer, begin: int, end: int) -> Optimizer:
    """The rule of some replicas."""
    own = {name: values[begin:end] for name in ("lr", "weight_decay") if len(values := getattr(rule, name)) > 1}
    return dataclasses.replace(rule, **own) if own else rule


def part_of_state(state: Mapping[str, Tensor], begin: int, end: int) -> dict[str, Tensor]:
    """Views of the blocks of some replicas."""
    return {name: block[begin:end] for name, block in state.items()}


def part_of_slots(slots: Slots, begin: int, end: int) -> Slots:
    """Views of what a rule remembers of some replicas."""
    return {slot: part_of_state(held, begin, end) for slot, held in slots.items()}
