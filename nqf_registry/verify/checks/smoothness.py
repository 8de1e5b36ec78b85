"""``smoothness``: f is three times continuously differentiable near W = 0."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.couplings import layout
from nqf_registry.verify.context import Context, weights_of
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.smoothness import Kinks, smoothness
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import KINK

NAME = "smoothness"


def check(context: Context) -> Check:
    """Runs the check: along rays of all neurons, of two neurons alone, and of one neuron with the others not zero."""

    def measure(draw: Draw) -> Measurement | None:
        if draw.instance and context.instances[draw.instance].claims.smooth != context.layer.claims.smooth:
            return None
        setting = context.exact_setting(draw)
        tried = [found for found in _rays(context, draw, setting) if found[2].rays]
        if not tried:
            raise Undecided("f is not finite along any ray from W = 0.")
        where, ray, kinks = max(tried, key=lambda found: found[2].worst[0])
        residual, what = kinks.worst
        data = {"where": where, "what": what}
        advice = _FORM if "form" in what else _KINK
        numbers: dict[str, Any] = {"sides": kinks.sides, "forms": kinks.forms[1:], "drift": kinks.drift}
        return Measurement(
            residual,
            KINK,
            counterexample=lambda: context.describe(
                draw, setting, weights_seed=draw.weights, **data, **numbers, ray=weights_of(setting, ray)
            ),
            details=data | {"advice": advice},
        )

    outcome = context.run(measure, every_width=True, samples=(4,), share=0.75)
    context.facts.smooth = None if outcome.worst is None or (outcome.reason and not outcome.failed) else not outcome.failed
    return context.conclude(
        NAME,
        outcome,
        context.layer.claims.smooth,
        holds="the one-sided derivatives of order 1 to 3 agree and are forms of their degree in the direction",
        broken="{what} ({where}), by {residual} of |f(W) − f(0)|",
        advice="{advice}",
    )


_CLAIM = "A layer that is not smooth has no quadratic form; if it is meant, claim smooth=False."
_KINK = f"Look for relu, abs, clamp, where, max or a norm, and put a smooth function (softplus, tanh, a square) there. {_CLAIM}"
_FORM = (
    f"Look for a choice between terms (max, sort, top-k) or a quotient of powers (a norm, a normalisation), which no "
    f"polynomial is near to. {_CLAIM}"
)


def _rays(context: Context, draw: Draw, setting: Setting) -> list[tuple[str, Tensor, Kinks]]:
    """Where it was looked, along which ray, and what was seen."""
    a, b = context.rays(draw, setting, 2)
    found = [("along rays of all neurons", a, smoothness(setting, setting.zero, a, b))]
    first = draw.neuron % setting.d
    base = context.weights(draw, setting, salt=5) / 4
    if setting.d > 1:
        second = (first + 1) % setting.d
        only, other = _on_neuron(a, first), _on_neuron(b, second)
        found.append(
            (
                f"along rays of neurons {first} and {second}, the others zero",
                only,
                smoothness(setting, setting.zero, only, other),
            )
        )
        start = base - _on_neuron(base, first)
        where = f"along rays of neuron {first} through zero, the others not zero"
        found.append((where, only, smoothness(setting, start, only, _on_neuron(b, first))))
    slices = layout(setting.layer.blocks())
    if len(slices) > 1:  # a kink in one block only is of higher order where the whole neuron is zero
        name = list(slices)[draw.weights % len(slices)]
        inside = torch.zeros_like(base)
        inside[slices[name], first] = 1
        where = f"along rays of block {name} of neuron {first} through zero, the others not zero"
        found.append((where, a * inside, smoothness(setting, base * (1 - inside), a * inside, b * inside)))
    return found


def _on_neuron(rays: Tensor, neuron: int) -> Tensor:
    """The same weights with every other neuron zero."""
    kept = torch.zeros_like(rays)
    kept[:, neuron] = rays[:, neuron]
    return kept
