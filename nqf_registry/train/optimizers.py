"""The update rules, on dicts of blocks with a leading replica axis, each replica with its own rate and weight decay.

They write what ``torch.optim`` does step by step (SGD with coupled weight decay, momentum, Nesterov; Adam), in place. What a
rule remembers between steps lies in its *slots*, plain tensors by name, so that a state can be copied, saved and taken up
again.

Source: B. Polyak (1964); Y. Nesterov (1983), in the form of torch.optim.SGD; D. Kingma, J. Ba, "Adam" (2015).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.train.gradients import Gradient, Product, formed
from nqf_registry.train.schedules import Schedule

Slots = dict[str, dict[str, Tensor]]
MOMENTUM = 0.9


class Differentiable(Protocol):
    """A loss as a rule sees it."""

    def value(self, W: Any) -> Tensor:
        """L by replica, (R,)."""
        ...

    def gradient(self, W: Any) -> Gradient:
        """∇L, blocks as W; a block that the loss does not depend on may be missing."""
        ...


@dataclass(frozen=True)
class Optimizer(ABC):
    """A rule with its constants.

    Attributes:
        lr: the rate, one number or one a replica.
        weight_decay: γ of loss + (γ/2)‖W‖², one number or one a replica; it enters through the gradient.
        momentum: β, of the rules that have it.
        options: further constants by name, of the rules that have some.
        schedule: a factor on the rate by step; None for a constant rate.
    """

    name: ClassVar[str]
    linear: ClassVar[bool]  # whether the update is linear in weights and gradient, so that it can act on W = P W₀ + Q 1ᵀ
    nonlinear: ClassVar[str] = "it rescales every weight by itself"  # why not, where it is not
    takes_momentum: ClassVar[bool] = False
    momentum_default: ClassVar[float] = MOMENTUM
    weight_decay_default: ClassVar[float] = 0.0
    rate_default: ClassVar[float | None] = None  # of a rule whose steps do not scale with the gradient
    takes_rate: ClassVar[bool] = True
    full_batch: ClassVar[bool] = False  # whether it needs every sample in every step

    lr: tuple[float, ...]
    weight_decay: tuple[float, ...] = (0.0,)
    momentum: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    schedule: Schedule | None = None

    @classmethod
    def check_options(
        cls, options: Mapping[str, Any], dtype: torch.dtype, lr: float | None, weight_decay: float, momentum: float
    ) -> dict[str, Any]:
        """The options of the rule, completed, before anything is computed.

        Args:
            options: as they were given.
            dtype: of the weights.
            lr: the rate, None where it is yet to be chosen.
            weight_decay: γ.
            momentum: β.

        Raises:
            InvalidInput: one is none that the rule takes.
        """
        for name in options:
            raise InvalidInput(
                f"optimizer {cls.name!r} has no option {name!r}{' beside momentum' if cls.takes_momentum else ''}; leave "
                f"optimizer_options out, or take a rule of torch.optim."
            )
        return {}

    @abstractmethod
    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """What the rule remembers, before the first step."""

    @abstractmethod
    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """Updates W and the slots in place, block by block in the order of the gradient.

        Args:
            W: blocks (R, *shape, d).
            gradient: ∇L without weight decay, blocks as W; not written to. A product comes before the blocks it is made of.
            slots: as ``slots`` made them.
            count: which step this is, from 1.
        """

    @abstractmethod
    def stability_limit(self) -> float | None:
        """The largest rate × curvature at which the rule is stable on a quadratic bowl, None where no such number exists."""

    def stepper(self, objective: Differentiable, state: dict[str, Tensor], slots: Slots) -> tuple[Callable[[int], None], Any]:
        """What takes a step, given its number from 1, and what to call after some of them; both work in place."""
        if self.schedule is None:
            return lambda count: self.step(state, objective.gradient(state), slots, count), lambda: None
        return lambda count: self.at(count).step(state, objective.gradient(state), slots, count), lambda: None

    def rates(self, count: int) -> tuple[float, ...]:
        """The rates of one step, counted from 1: those of the rule times the schedule's factor."""
        if self.schedule is None:
            return self.lr
        factor = self.schedule(count - 1)
        return tuple([factor * lr for lr in self.lr])

    def at(self, count: int) -> Optimizer:
        """The rule of one step, counted from 1: at its rates, without a schedule."""
        return self if self.schedule is None else replace(self, lr=self.rates(count), schedule=None)

    def rescaled(self, factor: float) -> Optimizer:
        """The rule with its rates times a factor and its weight decays divided by it."""
        return replace(
            self,
            lr=tuple(factor * lr for lr in self.lr),
            weight_decay=tuple(decay / factor for decay in self.weight_decay),
        )

    def decayed(self, gradient: Tensor, block: Tensor) -> Tensor:
        """∇L + γ W."""
        return gradient if self.weight_decay == (0.0,) else _added(gradient, self.weight_decay, block)

    def whole(self, W: Mapping[str, Tensor], gradient: Gradient) -> Gradient:
        """The gradient with zeros for blocks that it leaves out, where those decay nevertheless."""
        if len(gradient) == len(W) or self.weight_decay == (0.0,):
            return gradient
        return {**gradient, **{name: torch.zeros_like(block) for name, block in W.items() if name not in gradient}}

    def move(self, block: Tensor, direction: Tensor | Product) -> None:
        """W ← W − lr · direction, in place."""
        if isinstance(direction, Product):
            one = len(self.lr) == 1
            scaled = direction if one else direction.scaled(block.new_tensor(self.lr))
            scaled.add_to(block, -self.lr[0] if one else -1.0)
        elif len(self.lr) == 1:
            block.add_(direction, alpha=-self.lr[0])
        else:
            block.sub_(_per_replica(self.lr, block) * direction)

    def accumulate(self, velocity: Tensor, gradient: Tensor | Product, block: Tensor) -> None:
        """Rolls a velocity on, b ← β b + ∇L + γ W, in place."""
        if isinstance(gradient, Product):
            gradient.add_to(velocity, 1.0, self.momentum)
            if self.weight_decay != (0.0,):
                _add(velocity, self.weight_decay, block)
        else:
            velocity.mul_(self.momentum).add_(self.decayed(gradient, block))


class GradientDescent(Optimizer):
    """W ← W − η (∇L + γ W)."""

    name = "gd"
    linear = True

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """None."""
        return {}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """One step of gradient descent."""
        for name, g in self.whole(W, gradient).items():
            block = W[name]
            if isinstance(g, Product) and self.weight_decay != (0.0,):
                if len(self.lr) == len(self.weight_decay) == 1:
                    g.add_to(block, -self.lr[0], 1 - self.lr[0] * self.weight_decay[0])
                    continue
                g = g.formed()
            self.move(block, g if isinstance(g, Product) else self.decayed(g, block))

    def stability_limit(self) -> float:
        """η κ < 2."""
        return 2.0


class Momentum(Optimizer):
    """Polyak's heavy ball: b ← β b + ∇L + γ W, W ← W − η b."""

    name = "momentum"
    linear = True
    takes_momentum = True

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """The velocity b, zero."""
        return {"velocity": {name: torch.zeros_like(block) for name, block in W.items()}}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """One heavy-ball step."""
        for name, g in self.whole(W, gradient).items():
            block, velocity = W[name], slots["velocity"][name]
            self.accumulate(velocity, g, block)
            self.move(block, velocity)

    def stability_limit(self) -> float:
        """η κ < 2 (1 + β)."""
        return 2 * (1 + self.momentum)


class Nesterov(Optimizer):
    """b ← β b + g, W ← W − η (g + β b), with g = ∇L + γ W."""

    name = "nesterov"
    linear = True
    takes_momentum = True

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """The velocity b, zero."""
        return {"velocity": {name: torch.zeros_like(block) for name, block in W.items()}}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """One step of Nesterov's rule as torch.optim.SGD writes it."""
        for name, part in self.whole(W, gradient).items():
            block, velocity = W[name], slots["velocity"][name]
            g = self.decayed(formed(part), block)
            velocity.mul_(self.momentum).add_(g)
            self.move(block, torch.add(g, velocity, alpha=self.momentum))

    def stability_limit(self) -> float:
        """η κ < 2 (1 + β) / (1 + 2β)."""
        return 2 * (1 + self.momentum) / (1 + 2 * self.momentum)


class Adam(Optimizer):
    """Adam with β₁ = 0.9, β₂ = 0.999, ε = 10⁻⁸, the constants of torch.optim.Adam."""

    name = "adam"
    linear = False
    rate_default = 1e-3
    betas = (0.9, 0.999)
    epsilon = 1e-8

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """Running means of the gradient and of its square, zero."""
        return {slot: {name: torch.zeros_like(block) for name, block in W.items()} for slot in ("mean", "square")}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """One step of Adam."""
        (beta1, beta2), correction = self.betas, tuple(1 - beta**count for beta in self.betas)
        for name, part in self.whole(W, gradient).items():
            block, mean, square = W[name], slots["mean"][name], slots["square"][name]
            g = self.decayed(formed(part), block)
            mean.lerp_(g, 1 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            root = square.sqrt().div_(correction[1] ** 0.5).add_(self.epsilon)
            self.move(block, mean.div(root).div_(correction[0]))

    def stability_limit(self) -> None:
        """None: the rule rescales every coordinate, so no one curvature bounds its rate."""
        return None


OPTIMIZERS: dict[str, type[Optimizer]] = {rule.name: rule for rule in (GradientDescent, Momentum, Nesterov, Adam)}


def _per_replica(values: tuple[float, ...], like: Tensor) -> Tensor:
    """(R,) numbers as (R, 1, …, 1) beside a block."""
    return torch.tensor(values, dtype=like.dtype, device=like.device).view(-1, *[1] * (like.ndim - 1))


def _add(target: Tensor, factor: tuple[float, ...], block: Tensor) -> None:
    """Target ← target + factor · block, in place."""
    if len(factor) == 1:
        target.add_(block, alpha=factor[0])
    else:
        target.addcmul_(_per_replica(factor, block), block)


def _added(gradient: Tensor, factor: tuple[float, ...], block: Tensor) -> Tensor:
    if len(factor) == 1:
        return torch.add(gradient, block, alpha=factor[0])
    return torch.addcmul(gradient, _per_replica(factor, block), block)
