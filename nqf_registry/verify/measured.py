"""The expansion at W = 0 that is taken for the truth: autodiff where differences agree with it, differences where they do not.

``w.norm()**2`` has Hessian 2 and autodiff says 0 or nan; ``w.abs()**2`` says 0 in every mode; a kink gives one side. So two
autodiff modes are compared with each other and with polynomial fits of f along random rays, and the truth is what f itself
does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.errors import InvalidInput
from nqf_registry.expansion import Expansion, expand, two_neurons
from nqf_registry.verify.jets import jets
from nqf_registry.verify.matrix_free import dense_bytes
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.tolerances import AUTODIFF, COARSE, DIFFERENCES, MEMORY


@dataclass(frozen=True, eq=False)
class Measured:
    """f = f(0) + g·μ + Σ w_iᵀ Ā w_i + Σ_{i≠j} w_iᵀ B w_j as measured, with where it comes from.

    Attributes:
        expansion: offset (n, k), linear (n, k, p), diagonal and cross (n, k, p, p).
        source: "autodiff" or "differences".
        error: relative error of the diagonal and cross parts that the source allows.
        disagreement: relative distance between autodiff and differences along random rays; nan where autodiff gave nan.
        notes: what was refused or fell back on the way.
    """

    expansion: Expansion
    source: str
    error: float
    disagreement: float
    notes: tuple[str, ...] = field(default=())

    def evaluate(self, stacked: Tensor) -> Tensor:
        """The measured expansion at weights (R, p, d): (R, n, k)."""
        e = self.expansion
        mu = stacked.sum(-1)
        value = e.offset + torch.einsum("nkp,rp->rnk", e.linear, mu)
        value = value + torch.einsum("nkpq,rpd,rqd->rnk", e.diagonal - e.cross, stacked, stacked)
        return value + torch.einsum("nkpq,rp,rq->rnk", e.cross, mu, mu)


def measure(setting: Setting) -> Measured:
    """Measures the expansion of a layer at W = 0.

    Args:
        setting: the layer and its inputs.

    Raises:
        InvalidInput: no setting.
        Undecided: the dense matrices would not fit the memory budget, f(0) is not finite, f is no function, has no length scale
            or computes in a coarser arithmetic than float64's, or neither autodiff nor differences can be relied on.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("quadratic-network", n_in=3)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> seen = measure(setting)
        >>> seen.source, seen.expansion.structure.shape
        ('autodiff', torch.Size([2, 1, 3, 3]))
    """
    if not isinstance(setting, Setting):
        raise InvalidInput(f"measure takes a Setting, a layer at given inputs; got {type(setting).__name__}.")
    if not setting.offset.isfinite().all():
        raise Undecided("f is not finite at W = 0, so it has no expansion there.")
    n, k = setting.offset.shape
    needed = dense_bytes(setting)
    if needed > MEMORY:
        raise Undecided(
            f"the second derivatives by sample, output and pair of parameters (n = {n}, k = {k}, p = {setting.p}) would take "
            f"{needed / 2**30:.1f} GiB; the budget is {MEMORY / 2**30:.1f} GiB. Verify the layer at smaller sizes."
        )
    setting.check_exact()
    notes: list[str] = []
    forward = _attempt(lambda: expand(setting.layer, setting.x, "forward-over-reverse"), "forward-over-reverse", notes)
    if forward is None:
        forward = _attempt(lambda: expand(setting.layer, setting.x, "reverse-over-reverse"), "reverse-over-reverse", notes)
        reverse = None
    else:
        reverse = _attempt(lambda: contracted_hessian(setting), "reverse-over-reverse", notes)
    disagreement = float("nan") if forward is None else _against_rays(setting, forward)
    modes = 0.0 if forward is None or reverse is None else _between_modes(setting, forward, reverse)
    if forward is not None and disagreement <= DIFFERENCES and modes <= AUTODIFF:
        return Measured(forward, "autodiff", AUTODIFF, disagreement, tuple(notes))
    if forward is not None and disagreement <= DIFFERENCES:
        notes.append(f"the two autodiff modes differ by {modes:.1e} (relative)")
    coarse = expand(setting.layer, setting.x, "finite-difference", 2**-8 * setting.scale)
    fine = expand(setting.layer, setting.x, "finite-difference", 2**-9 * setting.scale)
    size = max(float(fine.diagonal.abs().max()), float(fine.cross.abs().max()), 1e-300)
    change = max(float((coarse.diagonal - fine.diagonal).abs().max()), float((coarse.cross - fine.cross).abs().max())) / size
    if not change <= COARSE:
        raise Undecided(
            f"the second derivatives at W = 0 are not known: {_doubt(forward, disagreement, modes)}, and differences at two "
            f"steps agree only to {change:.1e}. Look at f near zero along a ray."
        )
    if forward is not None and modes <= AUTODIFF and _apart(setting, forward, fine) <= DIFFERENCES:
        # A sample that leaves its leading order early bends the fits along rays; entry by entry, at small steps, all agree.
        return Measured(forward, "autodiff", AUTODIFF, disagreement, tuple(notes))
    return Measured(fine, "differences", max(AUTODIFF, 4 * change), disagreement, tuple(notes))


def _doubt(forward: Expansion | None, disagreement: float, modes: float) -> str:
    """Why autodiff is not taken for the truth."""
    if forward is None:
        return "no mode of autodiff is available"
    if disagreement <= DIFFERENCES:
        return (
            f"autodiff agrees with differences along random rays, but its two modes differ by {modes:.1e} of the largest entry"
        )
    off = "gives nan" if disagreement != disagreement else f"is off by {disagreement:.1e} of |f(W) − f(0)|"
    return f"autodiff {off} along random rays"


def _apart(setting: Setting, one: Expansion, other: Expansion) -> float:
    """The largest distance of two expansions entry by entry, at weights of the length scale; nan where either has one."""
    size, s = setting.spread, setting.scale
    gaps = [
        s * (one.linear - other.linear).abs().amax(-1) / size,
        s**2 * (one.diagonal - other.diagonal).abs().amax((-1, -2)) / size,
        s**2 * (one.cross - other.cross).abs().amax((-1, -2)) / size,
    ]
    return float(torch.stack(gaps).max())


def contracted_hessian(setting: Setting) -> tuple[Tensor, Tensor]:
    """∂²/∂w_1∂w_j of Σ c f for one random cotangent c (n, k), by two reverse passes: c and (p, count · p)."""
    generator = torch.Generator().manual_seed(setting.seed + 1)
    cotangent = torch.randn(setting.offset.shape, generator=generator, dtype=torch.float64)
    p, count = setting.p, min(setting.d, 2)
    flat = torch.zeros(count * p, dtype=torch.float64, requires_grad=True)
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        total = (two_neurons(setting.layer, setting.x)(flat) * cotangent).sum()
        if not total.requires_grad:
            return cotangent, flat.new_zeros(p, count * p)
        (slope,) = torch.autograd.grad(total, flat, create_graph=True)
        rows = []
        for a in range(p):
            if not slope.requires_grad:
                rows.append(flat.new_zeros(count * p))
                continue
            (row,) = torch.autograd.grad(slope[a], flat, retain_graph=True, allow_unused=True)
            rows.append(torch.zeros_like(flat) if row is None else row)
    return cotangent, torch.stack(rows).detach()


def _between_modes(setting: Setting, forward: Expansion, reverse: tuple[Tensor, Tensor]) -> float:
    cotangent, hessian = reverse
    other = torch.einsum("nk,nkpq->pq", cotangent, torch.cat([forward.diagonal, forward.cross], -1))[:, : hessian.shape[1]]
    size = max(float(hessian.abs().max()) / 2, float((setting.spread / setting.scale**2).max()) * 1e-3)
    return float((hessian / 2 - other).abs().max()) / size


def _against_rays(setting: Setting, expansion: Expansion) -> float:
    """How far an expansion is from fits of f along random rays of one and of two neurons, relative to f's own size there."""
    p, d = setting.p, setting.d
    generator = torch.Generator().manual_seed(setting.seed + 2)
    rays = torch.zeros(4, p, d, dtype=torch.float64)
    rays[:, :, :2] = torch.randn(4, p, min(d, 2), generator=generator, dtype=torch.float64)
    rays[:2, :, 1:] = 0
    fitted = jets(setting, setting.zero, rays)
    mu = rays.sum(-1)
    slope = setting.scale * torch.einsum("nkp,rp->rnk", expansion.linear, mu)
    curvature = torch.einsum("nkpq,rpd,rqd->rnk", expansion.diagonal - expansion.cross, rays, rays)
    curvature = setting.scale**2 * (curvature + torch.einsum("nkpq,rp,rq->rnk", expansion.cross, mu, mu))
    gaps = [
        ((fitted.central(1) - slope).abs() - fitted.rounding[1]),
        ((fitted.central(2) - curvature).abs() - fitted.rounding[2]),
    ]
    largest = torch.stack(
        [(gap.clamp_min(0) / setting.spread).max() if gap.isfinite().all() else gap.new_tensor(torch.nan) for gap in gaps]
    )
    return float(largest.max())  # nan where either is: Python's max(0.0, nan) is 0.0


def _attempt(take: Callable[[], Any], mode: str, notes: list[str]) -> Any:
    try:
        return take()
    except Undecided:
        raise
    except Exception as error:
        notes.append(f"{mode} is not available ({type(error).__name__}: {_first_line(error)})")
        return None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else ""
