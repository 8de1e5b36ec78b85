"""Whether the layer is a function: the same W and x give the same bits, and nothing outside changes."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from nqf_registry import length_scale
from nqf_registry.layer import Layer
from nqf_registry.verify.setting import Setting


@dataclass(frozen=True)
class Repetition:
    """What repeating a call shows.

    Attributes:
        residual: max |f − f'| / max |f| over repeated calls, one of them after a call at other weights; 0 where they are
            bit-equal.
        replicas: the same between calls one by one and one call with a replica axis.
        changed: what the calls changed: W, x, a random state, a global setting.
    """

    residual: float
    replicas: float
    changed: tuple[str, ...]


def determinism(setting: Setting, first: Tensor, second: Tensor) -> Repetition:
    """Calls a layer at two weights (p, d), the first again after the second, and looks at everything around it.

    Args:
        setting: the layer and its inputs.
        first: weights that are tried several times.
        second: weights that are tried in between, so that a state that one call leaves behind is seen by the next.
    """
    layer, x = setting.layer, {name: t.clone() for name, t in setting.x.items()}
    before = global_state()
    own = [{name: t.clone() for name, t in layer.unstack(w).items()} for w in (first, second)]
    kept = [{name: t.clone() for name, t in W.items()} for W in own]
    values = []
    changed = []
    with torch.no_grad():
        for which in (0, 0, 1, 0):
            values.append(layer(own[which], x).clone())
            if not _same(own[which], kept[which]):
                changed.append("the weights W")
                own[which] = {name: t.clone() for name, t in kept[which].items()}
            if not _same(x, setting.x):
                changed.append("the inputs x")
                x = {name: t.clone() for name, t in setting.x.items()}
        changed += _differences(before, global_state())
        together = length_scale.evaluate(layer, setting.x, torch.stack([first, second])) if not changed else None
    residual = max(_gap(values[0], values[1]), _gap(values[0], values[3]))
    replicas = 0.0 if together is None or residual else max(_gap(values[0], together[0]), _gap(values[2], together[1]))
    return Repetition(residual, replicas, tuple(dict.fromkeys(changed)))


def repeated_sample(layer: Layer, n: int, seed: int) -> str:
    """What is wrong with two samples from equal generators; "" where they are equal and nothing else was drawn from."""
    advice = "sample must draw from the generator it is given"
    before = global_state()
    first, second = (layer.sample(n, torch.Generator().manual_seed(seed)) for _ in range(2))
    if changed := _differences(before, global_state()):
        return f"{advice}; it changes {' and '.join(changed)}"
    for name, tensor in first.items():
        other = second.get(name)
        if other is None or other.shape != tensor.shape or not torch.equal(_bits(tensor), _bits(other)):
            return f"{advice}; two equal generators gave different {name!r}"
    return ""


def _bits(tensor: Tensor) -> Tensor:
    return tensor.nan_to_num(0.0) if tensor.is_floating_point() else tensor


def global_state() -> dict[str, Any]:
    """The random states and settings of the process that a layer must leave alone."""
    return {
        "torch's random state": torch.get_rng_state().clone(),
        "numpy's random state": numpy.random.get_state(),
        "Python's random state": random.getstate(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's matmul precision": torch.get_float32_matmul_precision(),
        "torch's deterministic mode": torch.are_deterministic_algorithms_enabled(),
        "torch's number of threads": torch.get_num_threads(),
        "the warnings filters": list(warnings.filters),
    }


def _differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [name for name in before if not _equal(before[name], after[name])]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return bool(numpy.array_equal(a, b))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


def _same(W: Any, kept: Any) -> bool:
    return all(torch.equal(W[name], kept[name]) for name in kept)


def _gap(a: Tensor, b: Tensor) -> float:
    """Max |a − b| / max |a|; nan at the same places counts as equal, elsewhere as infinitely different."""
    if a.shape != b.shape or not torch.equal(a.isnan(), b.isnan()):
        return float("inf")
    gap = torch.where(a == b, torch.zeros_like(a), (a - b).abs()).nan_to_num(0.0, posinf=float("inf"))
    size = float(a.abs().nan_to_num(0.0).max()) if a.numel() else 0.0
    worst = float(gap.max()) if gap.numel() else 0.0
    return worst / size if size and size != float("inf") else worst
