"""How far f moves when one neuron, or several, change sign."""

from __future__ import annotations

import torch
from torch import Tensor

from nqf_registry.verify.residuals.given import given_weights
from nqf_registry.verify.residuals.permutation_symmetry import changes
from nqf_registry.verify.setting import Nothing, Setting


def sign_symmetry(setting: Setting, W: Tensor) -> tuple[float, int]:
    """Max over neurons of |f(…, −w_i, …) − f(W)|, relative to how far f moves from f(0).

    Args:
        setting: the layer and its inputs.
        W: weights (p, d), or a dict of blocks.

    Returns:
        The residual, and the worst neuron; a neuron that is zero is its own mirror image and adds nothing.

    Raises:
        InvalidInput: no setting, or weights that do not fit it.
        Undecided: W = 0, where no sign changes anything; or f is no function, has no length scale, or computes in a coarser
            arithmetic than float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, activation="gelu")
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> W = torch.randn(setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> sign_symmetry(setting, W)[0] > 0.1                    # v gelu(u·x) is not even
        True
    """
    W = given_weights(setting, W)
    if not bool(W.any()):
        raise Nothing(
            f"{setting.layer.key}: at W = 0 no neuron has a sign, so nothing can be measured. Let a neuron differ from zero."
        )
    setting.check_exact()
    flips = 1 - 2 * torch.eye(setting.d, dtype=W.dtype)  # (d, d): row i flips neuron i
    gaps = changes(setting, W, W * flips[:, None, :])
    return float(gaps.max()), int(gaps.argmax())
