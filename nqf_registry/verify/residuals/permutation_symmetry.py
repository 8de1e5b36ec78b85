"""How far f(Wσ) is from f(W)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nqf_registry.verify.residuals.given import given_orders, given_weights
from nqf_registry.verify.setting import Nothing, Setting


def permutation_symmetry(setting: Setting, W: Tensor, orders: Sequence[Sequence[int]]) -> tuple[float, int]:
    """Max |f(Wσ) − f(W)| over the permutations, samples and outputs, relative to how far f moves from f(0).

    Args:
        setting: the layer and its inputs.
        W: weights (p, d), or a dict of blocks.
        orders: permutations of the columns, each a list of d indices.

    Returns:
        The residual, and the index of the worst permutation.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or orders that are none, no permutations, or move no neuron.
        Undecided: every permutation leaves W as it is, as where its neurons are all equal; or f is no function, has no length
            scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, width=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> W = torch.randn(setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> residual, worst = permutation_symmetry(setting, W, [[1, 0, 2], [2, 0, 1]])
        >>> residual < 1e-12
        True
    """
    W = given_weights(setting, W)
    moved = torch.stack([W[:, order] for order in given_orders(setting, orders)])
    if bool((moved == W).all()):
        raise Nothing(
            f"{setting.layer.key}: every permutation leaves W as it is, so nothing can be measured. Take different neurons."
        )
    setting.check_exact()
    gaps = changes(setting, W, moved)
    return float(gaps.max()), int(gaps.argmax())


def changes(setting: Setting, W: Tensor, moved: Tensor) -> Tensor:
    """Relative change of f between W (p, d) and each of moved (m, p, d), as (m,); measured rounding is taken off."""
    values = setting.values(torch.cat([W[None], moved]))
    size = torch.maximum(setting.spread, (values[0] - setting.offset).abs().nan_to_num(0.0))  # (n, k); f(0) may be a hole
    rounding = 16 * float(setting.rounding(W.abs().amax().clamp_min(1e-300)))
    gaps = ((values[1:] - values[0]).abs() - rounding).clamp_min(0) / size  # (m, n, k)
    return torch.where(gaps.isnan().any(-1).any(-1), torch.nan, gaps.amax((-1, -2)))
