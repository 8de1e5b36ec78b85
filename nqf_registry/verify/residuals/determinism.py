"""Whether the layer is a function: the same W and x give the same bits, and nothing outside changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqf_registry import length_scale
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.holdings import Holdings
from nqf_registry.verify.residuals.given import given_weights
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.surroundings import differences, global_state


@dataclass(frozen=True)
class Repetition:
    """What repeating a call shows.

    Attributes:
        residual: max |f − f'| / max |f| over repeated calls, one of them after a call at other weights; 0 where they are
            bit-equal.
        replicas: the same between calls one by one and one call with a replica axis.
        samples: the same between a sample among others and the sample alone.
        changed: what the calls changed: W, x, what the layer holds, a random state, a global setting.
    """

    residual: float
    replicas: float
    samples: float
    changed: tuple[str, ...]


def determinism(setting: Setting, first: Tensor, second: Tensor) -> Repetition:
    """Calls a layer at two weights (p, d), the first again after the second, and looks at everything around it.

    Args:
        setting: the layer and its inputs.
        first: weights that are tried several times.
        second: weights that are tried in between, so that a state that one call leaves behind is seen by the next.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or twice the same.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> W = torch.ones(setting.p, setting.d, dtype=torch.float64)
        >>> seen = determinism(setting, W, 2 * W)
        >>> seen.residual, seen.changed
        (0.0, ())
    """
    first, second = given_weights(setting, first, "first"), given_weights(setting, second, "second")
    if torch.equal(first, second):
        raise InvalidInput(
            f"{setting.layer.key}: first and second must be different weights, so that what a call leaves behind is seen by "
            "one at others; got the same. Draw second anew."
        )
    layer, x = setting.layer, {name: t.clone() for name, t in setting.x.items()}
    held = Holdings(layer)
    own = [{name: t.clone() for name, t in layer.unstack(w).items()} for w in (first, second)]
    kept = [{name: t.clone() for name, t in W.items()} for W in own]
    values = []
    changed = []
    with torch.no_grad():
        before = global_state()
        for which in (0, 0, 1, 0):
            values.append(layer(own[which], x).clone())
            if not _same(own[which], kept[which]):
                changed.append("the weights W")
                own[which] = {name: t.clone() for name, t in kept[which].items()}
            if not _same(x, setting.x):
                changed.append("the inputs x")
                x = {name: t.clone() for name, t in setting.x.items()}
        changed += [*differences(before, global_state()), *held.changes()]
        together = length_scale.evaluate(layer, setting.x, torch.stack([first, second])) if not changed else None
    residual = max(_gap(values[0], values[1]), _gap(values[0], values[3]))
    replicas = 0.0 if together is None or residual else max(_gap(values[0], together[0]), _gap(values[2], together[1]))
    samples = 0.0 if residual or changed else _among_others(layer, own[0], x, values[0])
    return Repetition(residual, replicas, samples, tuple(dict.fromkeys(changed)))


def repeated_sample(layer: Layer, n: int, seed: int) -> str:
    """What is wrong with two samples from equal generators; "" where they are equal and nothing else was drawn from."""
    advice = "sample must draw from the generator it is given"
    before = global_state()
    first, second = (layer.sample(n, torch.Generator().manual_seed(seed)) for _ in range(2))
    if changed := differences(before, global_state()):
        return f"{advice}; it changes {' and '.join(changed)}"
    for name, tensor in first.items():
        other = second.get(name)
        if other is None or other.shape != tensor.shape or not torch.equal(_bits(tensor), _bits(other)):
            return f"{advice}; two equal generators gave different {name!r}"
    return ""


def _among_others(layer: Layer, W: dict[str, Tensor], x: dict[str, Tensor], value: Tensor) -> float:
    """How far the values of the first and the last sample change where they are alone, and all where the order is reversed."""
    with torch.no_grad():
        alone = [(layer(W, {name: t[i : i + 1] for name, t in x.items()}), value[i : i + 1]) for i in {0, len(value) - 1}]
        reverse = layer(W, {name: t.flip(0) for name, t in x.items()}).flip(0)
    return max(_gap(a, b) for a, b in [*alone, (reverse, value)])


def _bits(tensor: Tensor) -> Tensor:
    return tensor.nan_to_num(0.0) if tensor.is_floating_point() else tensor


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
