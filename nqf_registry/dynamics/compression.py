"""Theorem 3: a layer of d neurons and one of at most k + 1 that predict the same on given data, at every step.

k is the dimension of the space that A(x), B(x) and g(x) of the data span. Only what W has in that space is ever seen.

Source: arXiv 2608.13335, Theorem 3 and appendix B.5.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

import torch
from torch import Tensor

from nqf_registry.couplings import Weights, stack, unstack
from nqf_registry.dynamics.general_form import GeneralForm
from nqf_registry.dynamics.order_parameters import declared
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, cast
from nqf_registry.quadratic_form import QuadraticForm, quadratic_form

PROBES = 8  # columns that A(x) is first tried on
CHUNK = 2**22  # numbers of A(x) W at a time


@dataclass(frozen=True, eq=False)
class Compression:
    """How a layer's neurons are replaced by fewer.

    Attributes:
        layer: the layer.
        basis: V, orthonormal columns that span Col A, Col B and g over the data, (p, k) in float64.
        general: whether μ enters, as it does without ZGZ.
        width: d′, the number of new neurons: k + 1, or k where μ does not enter, and never more than the layer has.
    """

    layer: Layer
    basis: Tensor
    general: bool
    width: int

    @property
    def factor(self) -> float:
        """The ratio d / d′, by which the rate grows and the weight decay and A shrink."""
        return self.layer.width / self.width

    def start(self, W: Weights) -> dict[str, Tensor]:
        r"""The new neurons that stand for W, blocks (R, \*shape, d): V (L Z + Vᵀμ 1ᵀ / d′)."""
        blocks, d = self.layer.blocks(), self.layer.width
        S = stack(W, blocks)
        V = self.basis.to(S.device)
        w = V.mT @ S.double()  # (R, k, d)
        if self.width < d:
            if self.general:
                mu = w.sum(-1, keepdim=True)
                spread = sqrt(self.factor) * _factor(w - mu / d) @ _zero_sum(self.width, w)
                w = spread + mu / self.width
            else:
                w = sqrt(self.factor) * _factor(w)
        return {name: block.contiguous() for name, block in unstack((V @ w).to(S.dtype), blocks).items()}

    def form(self, form: QuadraticForm) -> GeneralForm:
        """The quadratic form of the new neurons at the inputs of the layer's, which is declared throughout.

        It has Ã = (d′ / d)(Ā − B) for A, at weights of any width. A is the layer's own, never taken at the new width, on which
        it may depend; so is f(0).
        """
        assert form.structure is not None
        A = form.structure if form.cross is None else form.structure - form.cross
        return GeneralForm(replace(1 / self.factor * A, blocks=None), form.offset, form.linear, form.cross)


def compression(layer: Layer, x: Inputs, tolerance: float | None = None) -> Compression:
    """Finds the space that A(x), B(x) and g(x) span and the number of neurons that it takes.

    Args:
        layer: the layer.
        x: the inputs of the data.
        tolerance: singular values below it, relative to the largest, count as zero; by default 64 roundings of the
            inputs' dtype, at least 10⁻¹².

    Raises:
        InvalidInput: A(x) would have to be derived and is too large for that.
    """
    if tolerance is None:
        floating = [t.dtype for t in x.values() if t.is_floating_point()]
        tolerance = max(1e-12, 64 * torch.finfo(floating[0]).eps) if floating else 1e-12
    elif not 0 < tolerance < 1:
        raise InvalidInput(f"tolerance must lie between 0 and 1, got {tolerance!r}.")
    p, d = layer.n_params, layer.width
    general = not layer.claims.zgz
    probes = min(p, PROBES)
    basis = _span(layer, x, probes, general, tolerance)
    while probes < p:  # more columns than A has rank show its whole range
        probes = min(p, 4 * probes)
        wider = _span(layer, x, probes, general, tolerance)
        if wider.shape[1] == basis.shape[1]:
            break
        basis = wider
    k = basis.shape[1]
    return Compression(layer, basis, general, max(1, min(d, k + general)))


def _span(layer: Layer, x: Inputs, probes: int, general: bool, tolerance: float) -> Tensor:
    """An orthonormal basis of the range of A, B and g on all samples, as seen on some columns."""
    blocks, p = layer.blocks(), layer.n_params
    device = next(iter(x.values())).device
    generator = torch.Generator().manual_seed(0)
    tried = torch.eye(p, dtype=torch.float64)
    if probes < p:
        tried = torch.randn(p, probes, generator=generator, dtype=torch.float64)
    W = unstack(tried.to(device), blocks)
    factor = torch.zeros(p, 0, dtype=torch.float64, device=device)
    for form in _chunks(layer, x, probes):
        assert form.structure is not None
        columns = [stack(form.structure.apply(W), blocks)]
        if form.cross is not None:
            columns.append(stack(form.cross.apply(W), blocks))
        if form.linear:
            n, k = next(iter(form.linear.values())).shape[:2]
            g = {name: form.linear.get(name, tried.new_zeros(n, k, *shape).to(device)) for name, shape in blocks.items()}
            columns.append(stack({name: part[..., None] for name, part in g.items()}, blocks))
        found = torch.cat([c.movedim(-2, 0).reshape(p, -1) for c in columns], 1)
        factor = _factor(torch.cat([factor, found], 1))  # the singular values of all columns met so far
    U, s, _ = torch.linalg.svd(factor, full_matrices=False)
    return U[:, s > tolerance * s.max().clamp_min(1e-300)]


def _chunks(layer: Layer, x: Inputs, probes: int) -> Iterator[QuadraticForm]:
    n = len(next(iter(x.values())))
    x = cast(x, torch.float64)
    one = declared(quadratic_form(layer, {name: t[:1] for name, t in x.items()}, torch.float64))
    assert one.structure is not None
    k = one.structure.bind(layer.blocks()).shape[1]
    size = max(1, CHUNK // (k * layer.n_params * probes))
    for start in range(0, n, size):
        part = {name: t[start : start + size] for name, t in x.items()}
        yield declared(quadratic_form(layer, part, torch.float64))


def _factor(S: Tensor) -> Tensor:
    """L of S = L Oᵀ with orthonormal columns in O; square at most."""
    return S if S.shape[-1] <= S.shape[-2] else torch.linalg.qr(S.mT, mode="r").R.mT


def _zero_sum(width: int, like: Tensor) -> Tensor:
    """Orthonormal rows (width − 1, width) that are orthogonal to 1, Helmert's."""
    i = torch.arange(1, width, dtype=like.dtype, device=like.device)[:, None]
    j = torch.arange(width, dtype=like.dtype, device=like.device)
    rows = torch.where(j < i, torch.ones_like(j), torch.where(j == i, -i, torch.zeros_like(j)))
    return rows / (i * (i + 1)).sqrt()
