"""The gradient by one neuron where that neuron is zero and the others are anything.

At W = 0 alone it proves nothing: (Σ_i w_i·x)² is flat there, and its gradient by a zero neuron is 2x Σ_j w_j·x elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.verify.jets import Jets, jets
from nqf_registry.verify.residuals.given import given_columns, given_neuron, given_weights
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.tolerances import DIFFERENCES

REACHES = (2.0**-8, 2.0**-12)


@dataclass(frozen=True)
class ZeroGradient:
    """The gradient by one zero neuron, times the length scale, relative to how far f moves from f(0).

    Attributes:
        differences: largest one-sided directional derivative, from either side.
        autodiff: largest component of the gradient; None where autodiff refused, nan where it gave nan.
        disagreement: largest distance between the two along the same directions; nan without autodiff.
        refusal: why autodiff refused.
        parameter: index of the largest component.
    """

    differences: float
    autodiff: float | None
    disagreement: float
    refusal: str
    parameter: int


def zero_gradient(setting: Setting, others: Tensor, neuron: int, directions: Tensor) -> ZeroGradient:
    """Differentiates f by one neuron at zero.

    Args:
        setting: the layer and its inputs.
        others: weights (p, d); the chosen neuron is set to zero.
        neuron: which one.
        directions: in the space of that neuron, (q, p), none of them zero.

    Raises:
        InvalidInput: no setting, weights that do not fit it, a neuron that there is not, or no directions.
        Undecided: f is not finite there, is no function, has no length scale, or computes in a coarser arithmetic than
            float64's.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=3, width=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> W = torch.randn(setting.p, setting.d, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        >>> seen = zero_gradient(setting, W, 0, torch.eye(setting.p, dtype=torch.float64))
        >>> seen.differences < 1e-6, seen.autodiff < 1e-12
        (True, True)
    """
    base, neuron = given_weights(setting, others, "others").clone(), given_neuron(setting, neuron)
    directions = given_columns(setting, directions)
    setting.check_exact()
    base[:, neuron] = 0
    if not setting.values(base[None]).isfinite().all():
        raise Undecided("f is not finite where a neuron is zero, so it has no gradient there.")
    rays = torch.zeros(len(directions), setting.p, setting.d, dtype=torch.float64)
    rays[:, :, neuron] = directions
    fitted = jets(setting, base, rays)
    slopes = torch.stack([fitted.plus[:, 1], fitted.minus[:, 1]])  # (2, q, n, k)
    differences = _size(setting, fitted)
    for reach in REACHES:  # a kink elsewhere within reach spoils a fit; a gradient at zero stays when the fit draws closer
        if differences > DIFFERENCES:
            differences = min(differences, _size(setting, jets(setting, base, rays, reach)))
    try:
        f = setting.neuron_function(base, neuron)
        with sdpa_kernel(SDPBackend.MATH):
            gradient = setting.scale * torch.func.jacrev(f)(torch.zeros(setting.p, dtype=torch.float64)).detach()  # (n, k, p)
    except Exception as error:
        return ZeroGradient(differences, None, float("nan"), f"{type(error).__name__}: {error}".splitlines()[0][:200], 0)
    relative = gradient.abs() / setting.spread[..., None]
    gap = ((slopes - torch.einsum("nkp,qp->qnk", gradient, directions)).abs() - fitted.rounding[1]).clamp_min(
        0
    ) / setting.spread
    worst = relative.flatten(0, 1).amax(0) if relative.isfinite().all() else torch.zeros(1)
    return ZeroGradient(differences, float(relative.max()), float(gap.max()), "", int(worst.argmax()))


def _size(setting: Setting, fitted: Jets) -> float:
    """The largest one-sided derivative of a fit, less what rounding explains, relative to how far f moves from f(0)."""
    slopes = torch.stack([fitted.plus[:, 1], fitted.minus[:, 1]])
    sized = (slopes.abs() - fitted.rounding[1]).clamp_min(0) / setting.spread
    return float(sized.max()) if sized.isfinite().all() else float("inf")
