"""What autodiff and finite differences say of a layer at W = 0: f(0), g, Ā and B, dense, for small p.

Two autodiff modes and central differences are kept apart because each can be silently wrong: autodiff at kinks and norms,
differences in their digits. The verifier compares them. What trains never goes through here, see ``quadratic_form``.

Source: arXiv 2608.13335, appendix B.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.arguments import cast, check_samples
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, check_layer_inputs
from nqf_registry.length_scale import evaluate, length_scale

Method = Literal["forward-over-reverse", "reverse-over-reverse", "finite-difference"]


@dataclass(frozen=True, eq=False)
class Expansion:
    """The second-order expansion at W = 0, f = f(0) + g·μ + Σ_i w_iᵀ Ā w_i + Σ_{i≠j} w_iᵀ B w_j + O(‖W‖³).

    Attributes:
        method: how the derivatives were taken.
        offset: f(0), (n, k).
        linear: g = ∂f/∂w_i, (n, k, p).
        diagonal: Ā = ½ ∂²f/∂w_i∂w_i, (n, k, p, p).
        cross: B = ½ ∂²f/∂w_i∂w_j for i ≠ j, (n, k, p, p); zero where the width is 1.
    """

    method: str
    offset: Tensor
    linear: Tensor
    diagonal: Tensor
    cross: Tensor

    @property
    def structure(self) -> Tensor:
        """A = Ā − B, the matrix of the dynamics: f = f(0) + g·μ + μᵀBμ + Tr[M A]."""
        return self.diagonal - self.cross


def expand(layer: Layer, x: Inputs, method: Method = "forward-over-reverse", step: float | None = None) -> Expansion:
    """Expands a layer at W = 0 in float64, by the first neuron and one other (by symmetry any two would do).

    Args:
        layer: any layer.
        x: inputs with leading axis n; a few samples are enough, the cost is n · k · p².
        method: "forward-over-reverse", "reverse-over-reverse" or "finite-difference".
        step: the step of the differences; by default 1/128 of :func:`length_scale`, where rounding and truncation meet.

    Returns:
        The expansion, dense.

    Raises:
        InvalidInput: an unknown method, inputs that do not fit the layer, or none at all.
    """
    if method not in get_args(Method):
        raise InvalidInput(f"method must be one of {', '.join(get_args(Method))}; got {method!r}.")
    check_samples("an expansion", check_layer_inputs(layer, x))
    x = cast(x, torch.float64)
    p, count = layer.n_params, min(layer.width, 2)
    f = two_neurons(layer, x)
    zero = torch.zeros(count * p, dtype=torch.float64)
    # The fused kernels have no second derivative: neither attention's nor, where gradients are off, silu's and mish's.
    with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
        value = f(zero)
        if method == "finite-difference":
            h = step if step is not None else 2**-7 * length_scale(layer, x)
            slope, hessian = _differences(layer, x, p, h)
        else:
            slope = torch.func.jacrev(f)(zero)[..., :p]  # (n, k, p)
            hessian = _hessian(f, zero, p, method)  # (n, k, p, count · p), rows of the first neuron
    value, slope, hessian = value.detach(), slope.detach(), hessian.detach()
    diagonal = hessian[..., :p] / 2
    cross = hessian[..., p:] / 2 if count == 2 else torch.zeros_like(diagonal)
    return Expansion(method, value, slope, diagonal, cross)


def two_neurons(layer: Layer, x: Inputs) -> Callable[[Tensor], Tensor]:
    """The layer as a function of its first one or two neurons, stacked to (count · p,), the others held at zero."""
    p, count = layer.n_params, min(layer.width, 2)

    def f(flat: Tensor) -> Tensor:
        head = flat.reshape(count, p).mT  # (p, count)
        rest = flat.new_zeros(p, layer.width - count)
        return layer(layer.unstack(torch.cat([head, rest], -1)), x)

    return f


def _hessian(f: Callable[[Tensor], Tensor], zero: Tensor, p: int, method: Method) -> Tensor:
    """∂²f/∂w_1∂w_j as (n, k, p, count · p)."""
    first = torch.func.jacrev(f)  # (n, k, count · p)
    if method == "reverse-over-reverse":
        return torch.func.jacrev(lambda w: first(w)[..., :p])(zero)
    basis = torch.eye(len(zero), dtype=zero.dtype)[:p]

    def column(direction: Tensor) -> Tensor:
        return torch.func.jvp(first, (zero,), (direction,))[1]

    try:
        columns = torch.func.vmap(column)(basis)  # (p, n, k, count · p)
    except Exception:  # vmap's refusals have no class of their own; a real error comes again below
        columns = torch.stack([column(direction) for direction in basis])
    return columns.movedim(0, -2)


def _differences(layer: Layer, x: Inputs, p: int, h: float) -> tuple[Tensor, Tensor]:
    """Central differences extrapolated once (Richardson): slope (n, k, p) and Hessian (n, k, p, count · p), error O(h⁴).

    All points are evaluated together, along the replica axis.
    """
    count = min(layer.width, 2)
    basis = torch.eye(count * p, dtype=torch.float64)
    first, second = torch.triu_indices(p, count * p, 1)  # pairs within the first neuron, and every pair across the two
    directions = torch.cat([basis, basis[first] + basis[second]])
    base = evaluate(layer, x, torch.zeros(1, p, layer.width, dtype=torch.float64))[0]

    def at(step: float) -> tuple[Tensor, Tensor]:
        heads = torch.cat([step * directions, -step * directions]).reshape(-1, count, p).mT
        points = torch.zeros(len(heads), p, layer.width, dtype=torch.float64)
        points[:, :, :count] = heads
        plus, minus = evaluate(layer, x, points).chunk(2)
        curvature = (plus + minus - 2 * base) / step**2
        own, both = curvature[: count * p], curvature[count * p :]
        hessian = base.new_zeros(p, count * p, *base.shape)
        mixed = (both - own[first] - own[second]) / 2
        hessian[first, second] = mixed
        inside = second < p
        hessian[second[inside], first[inside]] = mixed[inside]
        hessian[range(p), range(p)] = own[:p]
        return ((plus - minus) / (2 * step))[:p].movedim(0, -1), hessian.movedim((0, 1), (-2, -1))

    coarse, fine = at(h), at(h / 2)
    slope, hessian = ((4 * b - a) / 3 for a, b in zip(coarse, fine, strict=True))
    return slope, hessian


__all__ = ["Expansion", "expand", "length_scale", "two_neurons"]
