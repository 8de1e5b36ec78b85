"""The expansion that a layer's remainder is measured against: what it declares, and as measured what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import declares
from nqf_registry.quadratic_form import offset as offset_of
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.verify.declared import declared_along, declared_part
from nqf_registry.verify.matrix_free import MatrixFree
from nqf_registry.verify.measured import Measured
from nqf_registry.verify.setting import Setting


@dataclass(frozen=True, eq=False)
class Reference:
    """An expansion f(0) + g·μ + Σ_i w_iᵀ Ā w_i + Σ_{i≠j} w_iᵀ B w_j.

    Attributes:
        evaluate: its values at stacked weights, (R, p, d) to (R, n, k).
        error: relative error of its second order where that was measured by differences, else 0.
    """

    evaluate: Callable[[Tensor], Tensor]
    error: float = 0.0


def left_out(setting: Setting) -> tuple[str, ...]:
    """The parts of the expansion that a layer has but does not declare; under a claim of ZGZ g and B are none."""
    names = ("structure",) if setting.layer.claims.zgz else ("structure", "linear", "cross")
    return tuple(name for name in names if not declares(setting.layer, name))


def declared_expansion(setting: Setting) -> Reference:
    """The expansion of a layer that declares every part of it."""
    layer: Any = setting.layer
    if not layer.claims.zgz:
        form = quadratic_form(layer, setting.x, torch.float64)
        return Reference(lambda stacked: form.evaluate(layer.unstack(stacked)))
    structure, start = layer.structure(setting.x), offset_of(layer, setting.x, torch.float64)
    return Reference(lambda stacked: structure.evaluate(layer.unstack(stacked)) + start)


def dense_expansion(setting: Setting, measured: Measured) -> Reference:
    """Each part as declared, or as measured where the layer leaves it out."""
    layer, e = setting.layer, measured.expansion
    A = declared_part(setting, "structure", e.diagonal) if declares(layer, "structure") else e.diagonal
    g = declared_part(setting, "linear", e.linear) if declares(layer, "linear") else e.linear
    B = declared_part(setting, "cross", e.cross) if declares(layer, "cross") else e.cross
    f0 = declared_part(setting, "offset", e.offset) if declares(layer, "offset") else e.offset
    if layer.claims.zgz:  # a claim of ZGZ is a claim that these vanish
        g, B = torch.zeros_like(g), torch.zeros_like(B)

    def general_form(stacked: Tensor) -> Tensor:
        mu = stacked.sum(-1)
        value = f0 + torch.einsum("nkp,rp->rnk", g, mu) + torch.einsum("nkpq,rpd,rqd->rnk", A - B, stacked, stacked)
        return value + torch.einsum("nkpq,rp,rq->rnk", B, mu, mu)

    return Reference(general_form, measured.error if measured.source == "differences" else 0.0)


def matrix_free_expansion(setting: Setting, measured: MatrixFree) -> Reference:
    """The same without any p × p: the form is measured once along each ray, and scaled along it."""
    layer = setting.layer
    zgz, missing = layer.claims.zgz, left_out(setting)
    f0 = declared_part(setting, "offset", setting.offset) if declares(layer, "offset") else setting.offset
    known: dict[bytes, tuple[Tensor, Tensor]] = {}

    def part(name: str, ray: Tensor) -> Tensor:
        """What one part contributes at one ray (p, d)."""
        if name not in missing:
            return declared_along(setting, name, ray[None])[0]
        if name == "linear":
            return measured.along(ray[None]).slope[0]
        alone = measured.neuron_by_neuron(ray)
        return alone if name == "structure" else measured.along(ray[None]).curvature[0] - alone

    def terms(ray: Tensor) -> tuple[Tensor, Tensor]:
        """First and second order at one ray (p, d)."""
        if zgz:  # a claim of ZGZ is a claim that g and B vanish
            return torch.zeros_like(f0), part("structure", ray)
        if {"structure", "cross"} <= set(missing):  # a ray shows their sum
            return part("linear", ray), measured.along(ray[None]).curvature[0]
        return part("linear", ray), part("structure", ray) + part("cross", ray)

    def evaluate(stacked: Tensor) -> Tensor:
        values = []
        for point in stacked:
            # Points along one ray differ by powers of two, so each has the same digits once its exponent is taken off.
            exponent = int(torch.frexp(point.abs().max())[1])
            ray = torch.ldexp(point, torch.tensor(-exponent))
            key = ray.numpy().tobytes()
            if key not in known:
                known[key] = terms(ray)
            first, second = known[key]
            values.append(f0 + 2.0**exponent * first + 4.0**exponent * second)
        return torch.stack(values)

    return Reference(evaluate, measured.error if measured.source == "differences" else 0.0)
