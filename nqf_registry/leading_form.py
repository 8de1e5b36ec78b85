r"""The first term of a layer's expansion at W = 0 that does not vanish, whole: by partition, as tensors, and as a form of W.

f(W) = f(0) + Σ_{λ ⊢ k} Σ_{i1, …, im distinct} T_λ(x)[w_{i1}^{⊗c1}, …, w_{im}^{⊗cm}] + O(‖W‖^{k+1}), where λ = (c1 ≥ … ≥ cm)
runs over the partitions of k and the tuples of neurons are ordered. So T_λ is the mixed derivative at zero divided by Π c_j!
and by Π m_r! for parts that occur m_r times: at order two T_(2) = Ā = ½ H_ii and T_(1,1) = B = ½ H_ij. Under ZGZ every λ with a
part 1 vanishes.

Source: arXiv 2608.13335, appendix B.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement, permutations, product
from math import comb, prod
from typing import Any

import torch
from torch import Tensor

from nqf_registry.directional import Fit, directional, fit, taylor
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, Weights, cast, check_layer_inputs, given_weights
from nqf_registry.length_scale import find_scale, profile
from nqf_registry.partitions import Partition, label, partitions, symmetry_factor

HIGHEST = 6
MEMORY = 2**26  # bytes that the tensor of one partition may take
WORK = 2**27  # numbers that go through nested forward passes while entries are taken one by one
PROBES = 256
RAYS = 4
AUTODIFF = 1e-10
AGREE = 1e-6  # a fit and nested forward passes; a fit is good to about 1e-8
FORM = 1e-5  # tensors by polarised fits against fits along other rays


@dataclass(frozen=True, eq=False)
class LeadingForm:
    r"""The term of one order at n inputs.

    Attributes:
        layer: whose term it is.
        x: the inputs, floating ones in float64.
        order: k.
        partitions: those λ ⊢ k of which T_λ does not vanish, of at most as many parts as there are neurons.
        norms: the Frobenius norm of T_λ by sample and output, (n, outputs).
        tensors: T_λ, (n, outputs, p, …, p) with k axes of parameters: c1 for the first neuron, c2 for the second, and so on.
            None where it would not fit ``MEMORY`` or takes more than ``WORK`` to make; its norm is then an estimate.
        estimated: the partitions whose norm is an estimate from ``PROBES`` random directions.
        source: "autodiff", or "differences" where autodiff refuses or does not follow f.
        error: the largest distance between the form and fits of f along random rays, relative to the form there.
        scale: the length scale of W that fits are taken at.
        leading: whether every lower order vanishes.
    """

    layer: Layer
    x: Inputs
    order: int
    partitions: tuple[Partition, ...]
    norms: Mapping[Partition, Tensor]
    tensors: Mapping[Partition, Tensor | None]
    estimated: frozenset[Partition]
    source: str
    error: float
    scale: float
    leading: bool

    def evaluate(self, W: Weights | Tensor) -> Tensor:
        r"""The term of order k at W: (n, outputs), or (R, n, outputs) for weights with a leading replica axis.

        By k nested forward passes, 2^k times the cost of one: p^k numbers are never formed. It can be differentiated by W
        unless its source is differences.

        Args:
            W: blocks (\*shape, d) or stacked (p, d); each may have one leading replica axis R.

        Raises:
            InvalidInput: W does not fit the layer.
        """
        blocks, replicas = given_weights(self.layer, W)
        stacked = self.layer.stack(blocks)
        rays = (stacked if replicas is not None else stacked[None]).to(torch.float64)
        if self.source == "autodiff":
            value = taylor(self.layer, self.x, rays, self.order)
        else:
            size = rays.detach().abs().amax((-2, -1), keepdim=True).clamp_min(1e-300)
            value = _fitted(self, rays.detach() / size).value * size**self.order
        value = (value if replicas is not None else value[0]).to(stacked.dtype)
        return value if stacked.requires_grad and torch.is_grad_enabled() else value.detach()

    def summary(self) -> str:
        """In one line: the order, and the partitions with the largest norm over samples and outputs."""
        parts = ", ".join(
            f"({label(part)}), |T| = {'about ' if part in self.estimated else ''}{float(self.norms[part].max()):.3g}"
            for part in self.partitions
        )
        word = "leading order" if self.leading else "order"
        return f"{word} {self.order}: partition{'s' if len(self.partitions) > 1 else ''} {parts or 'none'}"


def leading_form(layer: Layer, x: Inputs, order: int | None = None) -> LeadingForm:
    r"""The term of the first order that does not vanish, or of a given one.

    Args:
        layer: any layer; partitions of more parts than it has neurons do not occur in it and are left out.
        x: inputs with leading axis n.
        order: k, up to 6; by default the leading one, as f itself shows it along random rays.

    Returns:
        The form. Nested forward passes give it, unless fits of f along random rays show that they are wrong.

    Raises:
        InvalidInput: x does not fit the layer; f has no leading order up to six, because it is constant or not smooth; or its
            term of this order is no form in W, because f has a kink.

    Example:
        >>> import nqf_registry as nqf, torch
        >>> layer = nqf.default_registry().get("quadratic-network", n_in=2, width=2)
        >>> x = {"x": torch.tensor([[3.0, 4.0]])}
        >>> form = leading_form(layer, x)
        >>> form.order, form.partitions
        (2, ((2,),))
        >>> form.tensors[(2,)][0, 0]                              # A = x xᵀ
        tensor([[ 9., 12.],
                [12., 16.]], dtype=torch.float64)
        >>> form.evaluate(torch.ones(2, 2))
        tensor([[98.]])
    """
    check_layer_inputs(layer, x)
    x = cast(x, torch.float64)
    found = find_scale(profile(layer, x))
    leading = found.order if found is not None else None
    if order is None:
        order = _whole(layer, leading)
    elif not isinstance(order, int) or isinstance(order, bool) or not 1 <= order <= HIGHEST:
        raise InvalidInput(f"order must be a whole number from 1 to {HIGHEST}; got {order!r}.")
    scale = found.size if found is not None else 1.0
    term = _Term(layer, x, order, scale, leading is not None and leading >= order - 0.5)
    generator = torch.Generator().manual_seed(0)
    rays = torch.randn(RAYS, layer.n_params, layer.width, generator=generator, dtype=torch.float64)
    rays[: RAYS // 2, :, 2:] = 0
    seen = _fitted(term, rays)
    if not (jump := _relative(seen.jump, seen)) <= FORM:
        raise InvalidInput(
            f"{layer.key}: its term of order {order} differs on either side of W = 0, by {jump:.1e} (relative): f has a kink."
        )
    source, error = "autodiff", _relative(_attempted(term, rays) - seen.value, seen)
    if not error <= AGREE:
        source = "differences"
    norms: dict[Partition, Tensor] = {}
    tensors: dict[Partition, Tensor | None] = {}
    estimated: set[Partition] = set()
    sizes = {part: _probe(term, part, source, generator) for part in partitions(order, layer.width)}
    small = AUTODIFF if source == "autodiff" else AGREE
    least = small * max(float(seen.size.max()), *(float(value.abs().max()) for value in sizes.values()))
    for part, probed in sizes.items():
        if not float(probed.abs().max()) > least:
            continue
        tensor = _tensor(term, part, source)
        tensors[part] = tensor
        if tensor is None:
            estimated.add(part)
            norms[part] = _probe(term, part, source, generator, PROBES).square().mean(0).sqrt()
        else:
            norms[part] = tensor.flatten(2).norm(dim=-1)
    parts, guessed = tuple(tensors), frozenset(estimated)
    form = LeadingForm(layer, x, order, parts, norms, tensors, guessed, source, error, scale, term.leading)
    if source == "differences":
        error = _relative(_summed(form, rays) - seen.value, seen)
        if error > FORM:
            raise InvalidInput(
                f"{layer.key}: its term of order {order} is no form in W: tensors fitted along some rays miss f along "
                f"others by {error:.1e} (relative), and autodiff is off as well. f has a kink; nqf.verify says where."
            )
    return form


@dataclass(frozen=True, eq=False)
class _Term:
    layer: Layer
    x: Inputs
    order: int
    scale: float
    leading: bool


def _whole(layer: Layer, leading: float | None) -> int:
    if leading is None:
        raise InvalidInput(
            f"{layer.key}: f follows no power of the size of W near zero, so it has no leading order: it is constant there, or "
            "not finite. Give order= to look at one term."
        )
    if abs(leading - round(leading)) > 1e-6:
        raise InvalidInput(f"{layer.key}: f follows a fractional power near zero, {leading:.3g}, so it is not smooth there.")
    if leading > HIGHEST:
        raise InvalidInput(f"{layer.key}: its leading order is {leading:.0f}; terms are taken up to order {HIGHEST}.")
    return round(leading)


def _fitted(term: Any, rays: Tensor) -> Fit:
    return fit(term.layer, term.x, rays, term.order, term.scale, term.order if term.leading else None)


def _attempted(term: _Term, rays: Tensor) -> Tensor:
    try:
        return taylor(term.layer, term.x, rays, term.order).detach()
    except Exception:  # a layer may refuse forward mode in any way; the fit remains
        return torch.full((len(rays), 1, 1), torch.nan, dtype=torch.float64)


def _relative(gap: Tensor, seen: Fit) -> float:
    """The largest gap by sample and output, relative to the term there or a hundredth of how far f moves.

    Less what rounding explains; nan without a value.
    """
    size = torch.maximum(seen.value.abs().amax(0), 1e-2 * seen.size)
    size = size.clamp_min(1e-3 * float(size.max())).clamp_min(1e-300)
    return float(((gap.abs() - seen.rounding).clamp_min(0) / size).max()) if gap.isfinite().all() else float("nan")


def _mixed(term: _Term, part: Partition, source: str, directions: list[Tensor]) -> Tensor:
    """T_λ[r_1, …, r_k] for directions (R, p) of one neuron each, in the order of the groups of λ: (R, n, outputs)."""
    rays = []
    for neuron, direction in zip(_neurons(part), directions, strict=True):
        ray = torch.zeros(len(direction), term.layer.n_params, term.layer.width, dtype=torch.float64)
        ray[:, :, neuron] = direction
        rays.append(ray)
    if source == "autodiff":
        return directional(term.layer, term.x, rays).detach() / symmetry_factor(part)
    # Polarisation: Σ over signs of Π signs · C(Σ ± r_j) = 2^k · D[r_1, …, r_k] for the term C of order k; the first is +.
    total, count = torch.zeros(()), 2 ** (term.order - 1)
    for signs in product((1.0, -1.0), repeat=term.order - 1):
        combined = rays[0] + sum(sign * ray for sign, ray in zip(signs, rays[1:], strict=True))
        total = total + prod(signs) * _fitted(term, combined / term.order**0.5).value
    return total * term.order ** (term.order / 2) / count / symmetry_factor(part)


def _neurons(part: Partition) -> list[int]:
    return [neuron for neuron, count in enumerate(part) for _ in range(count)]


def _probe(term: _Term, part: Partition, source: str, generator: torch.Generator, count: int = RAYS) -> Tensor:
    """T_λ along random normal directions, (count, n, outputs): the mean of its square is the squared norm."""
    p = term.layer.n_params
    directions = [torch.randn(count, p, generator=generator, dtype=torch.float64) for _ in range(term.order)]
    return _mixed(term, part, source, directions)


def _tensor(term: _Term, part: Partition, source: str) -> Tensor | None:
    """T_λ entry by entry, each group of equal factors once; None where it is too large."""
    p, k = term.layer.n_params, term.order
    n, outputs = _probe(term, part, source, torch.Generator().manual_seed(1), 1).shape[1:]
    if n * outputs * p**k * 8 > MEMORY or prod(comb(p + c - 1, c) for c in part) * p * term.layer.width * 2**k > WORK:
        return None
    groups = [list(combinations_with_replacement(range(p), c)) for c in part]
    index = torch.tensor([[i for group in choice for i in group] for choice in product(*groups)])  # (entries, k)
    basis = torch.eye(p, dtype=torch.float64)
    values = _mixed(term, part, source, [basis[index[:, j]] for j in range(k)]).movedim(0, -1)  # (n, outputs, entries)
    tensor = values.new_zeros(n, outputs, *[p] * k)
    starts = [sum(part[:j]) for j in range(len(part))]
    orders = [list(permutations(range(start, start + c))) for start, c in zip(starts, part, strict=True)]
    for choice in product(*orders):
        axes = [axis for group in choice for axis in group]
        tensor[(slice(None), slice(None), *(index[:, axis] for axis in axes))] = values
    return tensor


def _summed(form: LeadingForm, rays: Tensor) -> Tensor:
    """The form at weights (R, p, d) from its tensors, neuron by neuron; nan where a tensor is too large to be taken."""
    total = torch.zeros((), dtype=torch.float64)
    for part in form.partitions:
        tensor = form.tensors[part]
        if tensor is None:
            return torch.full((len(rays), 1, 1), torch.nan, dtype=torch.float64)
        for tuple_ in permutations(range(rays.shape[-1]), len(part)):
            value = tensor.expand(len(rays), *tensor.shape)
            for neuron in reversed([i for i, c in zip(tuple_, part, strict=True) for _ in range(c)]):
                value = torch.einsum("rnk...p,rp->rnk...", value, rays[:, :, neuron])
            total = total + value
    return total
