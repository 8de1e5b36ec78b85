"""A step of a quadratic form under full-batch squared loss in four matrix products, with nothing between them.

At small sizes a step is not its arithmetic but the calls that it makes. Where one coupling links two blocks u and v, the
gradient is K v and Kᵀ u with K = 𝓛*𝓛 (u vᵀ) − 𝓛* y, so a rule can add each product to its block, or to its velocity, in the
call that makes it. What a step does is what the rule does with the formed gradient, to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nqf_registry.train.optimizers import GradientDescent, Momentum, Nesterov, Optimizer, Slots
from nqf_registry.train.statistics import Statistics

Step = Callable[[int], None]
Update = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]


def fused_steps(
    statistics: Statistics, rule: Optimizer, state: dict[str, Tensor], slots: Slots
) -> tuple[Step, Callable[[], None]] | None:
    """A function that takes one step, and one to call after the last; None where the form or the rule does not allow it.

    Args:
        statistics: of the samples.
        rule: the rule, with one rate for all replicas.
        state: the trained blocks (R, *shape, d), updated in place.
        slots: what the rule remembers, updated in place.
    """
    terms = statistics.terms
    if len(terms) != 1 or terms[0].names[0] == terms[0].names[1] or not all(terms[0].plain) or not terms[0].in_order:
        return None
    if len(state) != 2 and rule.weight_decay != (0.0,):  # further blocks decay by themselves
        return None
    names, (shared, rows, columns) = terms[0].names, terms[0].shape
    lead = len(state[names[0]]) * shared
    single = lead == 1

    def view(block: Tensor, height: int) -> Tensor:
        return block.view(height, -1) if single else block.view(lead, height, -1)

    u, v = view(state[names[0]], rows), view(state[names[1]], columns)
    rolling = slots.get("velocity", {})
    velocities = [view(rolling[name], h) for name, h in zip(names, (rows, columns), strict=True)] if rolling else []
    found = _update(rule, u, v, velocities, torch.addmm if single else torch.baddbmm)
    if found is None:
        return None
    update, tune = found
    table, shape, target, square = terms[0].table, (rows, columns), statistics.target, statistics.square
    mm, addmm = torch.mm, torch.addmm

    if single:

        def step(count: int) -> None:
            nonlocal u, v
            K = addmm(target, square, mm(u, v.t()).view(table), beta=-1).view(shape)
            u, v = update(u, v, K)

    else:

        def step(count: int) -> None:
            nonlocal u, v
            T = torch.bmm(u, v.mT).view(-1, *table)
            K = torch.matmul(square, T).sub_(target).view(lead, *shape)
            u, v = update(u, v, K)

    home = u, v

    def finish() -> None:
        for here, at in zip(home, (u, v), strict=True):
            if here is not at:
                here.copy_(at)

    def scheduled(count: int) -> None:
        tune(rule.rates(count)[0])
        step(count)

    return step if rule.schedule is None else scheduled, finish


def _update(
    rule: Optimizer, u: Tensor, v: Tensor, velocities: list[Tensor], add: Any
) -> tuple[Update, Callable[[float], None]] | None:
    """What the rule does with K, from these to the new u and v, of which one lies in another buffer; what sets the rate."""
    rates, decays = list(rule.lr), list(rule.weight_decay)
    if len(rates) > 1 or len(decays) > 1:
        return None
    lr, decay, beta = rates[0], decays[0], rule.momentum
    kept = 1 - lr * decay

    def tune(rate: float) -> None:
        nonlocal lr, kept
        lr, kept = rate, 1 - rate * decay

    if isinstance(rule, GradientDescent):
        spare = torch.empty_like(v)

        def descend(u: Tensor, v: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
            nonlocal spare
            new = add(v, K.mT, u, beta=kept, alpha=-lr, out=spare)  # not in place: u still needs the old v
            _add_into(u, K, v, kept, -lr)
            spare = v
            return u, new

        return descend, tune
    if not isinstance(rule, Momentum | Nesterov):
        return None
    a, b = velocities
    spare = torch.empty_like(v)

    def roll(u: Tensor, v: Tensor, K: Tensor) -> tuple[Tensor, Tensor]:
        nonlocal spare
        _add_into(a, K, v, beta, 1.0)
        _add_into(b, K.mT, u, beta, 1.0)
        if decay:
            a.add_(u, alpha=decay)
            b.add_(v, alpha=decay)
        if isinstance(rule, Momentum):
            u.add_(a, alpha=-lr)
            v.add_(b, alpha=-lr)
            return u, v
        new = add(v, K.mT, u, beta=kept, alpha=-lr, out=spare)
        _add_into(u, K, v, kept, -lr)
        spare = v
        u.add_(a, alpha=-lr * beta)
        new.add_(b, alpha=-lr * beta)
        return u, new

    return roll, tune


def _add_into(target: Tensor, left: Tensor, right: Tensor, beta: float, alpha: float) -> None:
    if target.ndim == 2:
        target.addmm_(left, right, beta=beta, alpha=alpha)
    else:
        target.baddbmm_(left, right, beta=beta, alpha=alpha)
