"""A loss in pieces of its samples and replicas, so that what a gradient computes in between stays in the cache.

The loss is a mean over samples, so its gradient is the sum of the pieces'. A pass over a whole training set writes every
intermediate result to memory and reads it back; over a piece that fits the cache it does neither. How large a piece is follows
from sizes and the number of threads alone, never from a clock: the bytes that one sample of one replica makes are counted once,
from the shapes of what the operations of a gradient return, and a piece makes about :data:`CACHE` of them. On a GPU pieces only
keep to its memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nqf_registry.layer import Inputs, Weights
from nqf_registry.train.gradients import Gradient
from nqf_registry.train.models.base import Bound, Objective
from nqf_registry.train.optimizers import Optimizer

# Bytes that one piece makes, not all of them at once. Measured on cores with 2 MiB of second-level cache each.
CACHE = 4 << 20
TOGETHER = 8 << 20  # the same where there are several threads, which wait for each other after every operation
GPU_SHARE = 8  # a piece makes at most this part of a GPU's memory


@dataclass(frozen=True, eq=False)
class Pieces(Objective):
    """The loss of a model, its gradient summed over pieces.

    Attributes:
        parts: the model bound to the inputs of each piece, and the targets.
        samples: how many samples the largest piece has.
        replicas: how many replicas a piece has at most.
    """

    parts: Sequence[tuple[Bound, Tensor]]
    samples: int
    replicas: int

    def gradient(self, W: Weights) -> Gradient:
        """∇L, blocks as W."""
        total = next(iter(W.values())).shape[0]
        if total <= self.replicas:
            return self._summed(W)
        found = [self._summed(piece) for piece in _replicas(W, total, self.replicas)]
        return {name: torch.cat([part[name] for part in found]) for name in W}

    def way_for(self, rule: Optimizer, shapes: dict[str, tuple[int, ...]]) -> str:
        """The way, with the sizes of a piece where there is more than one."""
        replicas = next(iter(shapes.values()))[0]
        sizes = [f"{self.samples} of {len(self.targets)} samples"] if len(self.parts) > 1 else []
        sizes += [f"{self.replicas} of {replicas} replicas"] if replicas > self.replicas else []
        return f"{self.way}, in pieces of {' and '.join(sizes)}" if sizes else self.way

    def _summed(self, W: Weights) -> dict[str, Tensor]:
        total: dict[str, Tensor] = {}
        for count, (bound, targets) in enumerate(self.parts):
            part = bound.differentiate(W, self._cotangent(targets))
            if count == 0:
                total = part
            elif count == 1:  # not in place: a layer may have handed out what is not its own
                total = {name: total[name] + g for name, g in part.items()}
            else:
                for name, g in part.items():
                    total[name].add_(g)
        return total

    def _cotangent(self, targets: Tensor) -> Callable[[Tensor], Tensor]:
        """The derivative of the loss by the outputs of a piece, whose own loss is the mean over its own samples."""
        share = len(targets) / len(self.targets)
        if share == 1:
            return lambda outputs: self.loss.cotangent(outputs, targets)
        return lambda outputs: self.loss.cotangent(outputs, targets) * share


@dataclass(frozen=True, eq=False)
class Joined(Bound):
    """A model bound to pieces of its samples, one after the other."""

    parts: Sequence[Bound]
    sizes: Sequence[int]

    def evaluate(self, W: Weights) -> Tensor:
        """Outputs at W, of all samples."""
        return torch.cat([part.evaluate(W) for part in self.parts], 1)

    def differentiate(self, W: Weights, cotangent: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
        """The gradient: the cotangent may be any function of all outputs, so they are computed beforehand."""
        pulled = [part.pullback(W, c) for part, c in zip(self.parts, self._split(cotangent(self.evaluate(W))), strict=True)]
        return {name: torch.stack([gradient[name] for gradient in pulled]).sum(0) for name in W}

    def _split(self, outputs: Tensor) -> Sequence[Tensor]:
        return outputs.split(list(self.sizes), 1)


def _replicas(W: Weights, total: int, size: int) -> Iterator[dict[str, Tensor]]:
    for start in range(0, total, size):
        yield {name: block[start : start + size] for name, block in W.items()}


def in_pieces(
    objective: Objective,
    bind: Callable[[Inputs], Bound],
    x: Inputs,
    zeros: Callable[[], Mapping[str, Tensor]],
    samples: int | None = None,
    replicas: int | None = None,
    known: dict[Any, int] | None = None,
) -> Objective:
    """The loss in pieces.

    Args:
        objective: the loss of a model on all samples.
        bind: the model at some inputs.
        x: the inputs.
        zeros: weights to count at, blocks (1, *shape, d).
        samples: how many samples a piece has; from the sizes if left out.
        replicas: how many replicas a piece has; likewise.
        known: what was counted before for this model, by way and dtype.
    """
    n = len(objective.targets)
    if samples is None or replicas is None:
        known = {} if known is None else known
        key = (objective.way, objective.targets.dtype)
        if key not in known:
            known[key] = made_by_one(bind, x, zeros())
        one, budget = max(1, known[key]), _budget(objective)
        if samples is None:
            samples = max(1, min(n, budget // one))
        if replicas is None:
            replicas = max(1, budget // (one * min(n, samples)))
    samples = math.ceil(n / math.ceil(n / samples))  # pieces of about equal size
    bound, parts = objective.bound, [(objective.bound, objective.targets)]
    if samples < n:
        parts = [
            (bind({name: t[start : start + samples] for name, t in x.items()}), objective.targets[start : start + samples])
            for start in range(0, n, samples)
        ]
        bound = Joined([part for part, _ in parts], [len(targets) for _, targets in parts])
    return Pieces(bound, objective.targets, objective.loss, objective.way, parts, samples, replicas)


def _budget(objective: Objective) -> int:
    device = objective.targets.device
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory // GPU_SHARE
    threads = torch.get_num_threads()
    return CACHE if threads == 1 else TOGETHER * threads


def made_by_one(bind: Callable[[Inputs], Bound], x: Inputs, W: Weights) -> int:
    """How many bytes a gradient makes for one sample, as the difference of two samples and one."""
    if len(next(iter(x.values()))) < 2:
        return 1
    made = []
    for n in (1, 2):
        bound = bind({name: t[:n] for name, t in x.items()})
        with torch.no_grad(), _Count() as count:
            bound.differentiate(W, lambda outputs: outputs)
        made.append(count.bytes)
    return made[1] - made[0]


class _Count(TorchDispatchMode):
    """Adds up the storages that operations make; views and results in place make none."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, Any] = {}  # a storage that is let go could be given out again at the same address

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)}
        out = func(*args, **(kwargs or {}))
        for t in tree_leaves(out):
            if isinstance(t, Tensor) and (storage := t.untyped_storage()).data_ptr() not in given:
                self.kept[storage.data_ptr()] = storage
        return out

    @property
    def bytes(self) -> int:
        """What was made."""
        return sum(storage.nbytes() for storage in self.kept.values())
