"""The rate that ``lr="auto"`` chooses, and the largest stable one: both from A(x) and the data, before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nqf_registry.dynamics.growth import GrowthRates, growth_rates
from nqf_registry.errors import InvalidInput
from nqf_registry.train.data import Data
from nqf_registry.train.landscape import Landscape
from nqf_registry.train.losses import Loss
from nqf_registry.train.optimizers import Optimizer

FRACTION = 0.1
SMALL = 0.1  # of ‖W‖² where the fastest mode is saturated: initial weights below it bend the loss less than the way down does


@dataclass(frozen=True)
class Rate:
    """A rate with its reason.

    Attributes:
        value: the rate η.
        rule: how it was chosen, in words and numbers.
        growth: λ₁, the fastest growth rate of W; None where it was not needed.
        stable: the estimated largest stable rate; None where none was made.
    """

    value: float
    rule: str
    growth: float | None = None
    stable: float | None = None


def automatic_rate(
    subject: Any, data: Data, loss: Loss, optimizer: Optimizer, start: dict[str, Tensor] | None = None, largest: float = 1.0
) -> Rate:
    """The rate of ``lr="auto"``.

    Rules of this library that are linear in the gradient get η = 0.1 (1 − β) / λ₁(Y), so that the fastest mode grows by a tenth
    a step, but at most half the estimated largest stable rate, at the largest factor of a schedule; Adam, whose steps do not
    scale with the gradient, gets 10⁻³, an optimiser of torch what its class has by default, and gradient flow 1.

    Args:
        subject: a layer or a composition.
        data: the training data.
        loss: the loss.
        optimizer: the rule.
        start: the initial weights, of the replica where they are largest; they count where they are not small.
        largest: the largest factor of the schedule.

    Raises:
        InvalidInput: no mode grows, so that no rate follows from the data.
    """
    limit = optimizer.stability_limit()
    if limit is None:
        default = optimizer.rate_default
        if default is None:
            raise InvalidInput(f"{optimizer.name} has no rate by default, so lr='auto' does not say which; give lr a number.")
        return Rate(default, f"auto: {default:g}, the default of {optimizer.name}")
    growth = growth_rates(subject, data, 1, loss.cotangent, tolerance=1e-4)
    fastest = float(growth.rates[0])
    if fastest <= 0:
        raise InvalidInput(
            f"lr='auto' needs a mode that grows from small weights, but the fastest growth rate of {subject.key} on "
            f"{data.name} is "
            f"{fastest:.3g}: its quadratic form does not correlate with the targets. Give lr a number, or change the targets."
        )
    value = FRACTION * (1 - optimizer.momentum) / fastest
    rule = f"auto: {FRACTION:g}{' (1 - momentum)' if optimizer.momentum else ''} / growth rate {fastest:.4g}"
    stable = largest_stable_rate(subject, data, loss, limit, growth, start)
    if stable is not None and value * largest > stable / 2:
        below = f"auto: half the estimated largest stable rate {stable:.4g}, which is below {rule[6:]}"
        if largest != 1:
            below = (
                f"auto: half the estimated largest stable rate {stable:.4g} over the schedule's largest factor {largest:.4g}"
            )
        return Rate(stable / 2 / largest, below, fastest, stable)
    return Rate(value, rule, fastest, stable)


def largest_stable_rate(
    subject: Any,
    data: Data,
    loss: Loss,
    limit: float | None,
    growth: GrowthRates | None = None,
    start: dict[str, Tensor] | None = None,
) -> float | None:
    """The optimiser's limit over κ, the largest curvature of the NQF's loss along its way down.

    A rule with velocity overshoots where a mode switches on, so its limit counts up to that of gradient descent, 2, and no
    further. The way is followed cheaply: along the fastest mode to its saturation, then by some steps of L-BFGS with a few
    neurons. Where the initial weights are not small beside those, the curvature there counts too. It is an estimate: slower
    modes may add to the curvature, and the original layer may differ from its NQF.

    Args:
        subject: a layer or a composition.
        data: the training data.
        loss: the loss.
        limit: the largest stable rate × curvature of the optimiser; None for one that has no such number.
        growth: the fastest mode, where it is known already.
        start: initial weights, blocks (*shape, d).

    Returns:
        The rate, None where there is no limit, no growing mode or no positive curvature.
    """
    if limit is None:
        return None
    growth = growth or growth_rates(subject, data, 1, loss.cotangent, tolerance=1e-4)
    if float(growth.rates[0]) <= 0:
        return None
    landscape = Landscape(subject, data, loss)
    saturated = landscape.saturated({name: part[0] for name, part in growth.modes.items()})
    largest = max(landscape.curvature(saturated), landscape.curvature(landscape.descended(saturated)))
    if start is not None and _top(start) > SMALL * float(saturated @ saturated):
        whole = Landscape(subject, data, loss, neurons=None)
        largest = max(largest, whole.curvature(whole.flat({name: block.double() for name, block in start.items()})))
    return min(limit, 2.0) / largest if largest > 0 else None


def _top(W: dict[str, Tensor]) -> float:
    """The largest eigenvalue of W Wᵀ within a block."""
    return max(float(torch.linalg.matrix_norm(block.double().flatten(0, -2), 2)) ** 2 for block in W.values())
