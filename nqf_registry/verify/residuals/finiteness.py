"""Whether f is a finite number at W = 0, near it, and where one neuron is zero."""

from __future__ import annotations

import torch
from torch import Tensor

from nqf_registry.verify.residuals.given import given_weights
from nqf_registry.verify.setting import Setting


def finiteness(setting: Setting, W: Tensor) -> tuple[int, str]:
    """Counts the values of f that are not finite.

    Args:
        setting: the layer and its inputs.
        W: weights (p, d).

    Returns:
        How many of the values at W = 0, at W, at W / 10⁶ and at W with each neuron zero in turn are not finite, and where the
        first one is.

    Raises:
        InvalidInput: no setting, or weights that do not fit it.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, width=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> finiteness(setting, torch.ones(setting.p, setting.d, dtype=torch.float64))
        (0, '')
    """
    W = given_weights(setting, W)
    points, names = [setting.zero, 1e-6 * W, W], ["at W = 0", "near W = 0", "at W"]
    for neuron in range(setting.d):
        point = W.clone()
        point[:, neuron] = 0
        points.append(point)
        names.append(f"at W with neuron {neuron} zero")
    bad = (~setting.values(torch.stack(points)).isfinite()).flatten(1).sum(1)  # by point
    where = next((name for name, count in zip(names, bad.tolist(), strict=True) if count), "")
    return int(bad.sum()), where
