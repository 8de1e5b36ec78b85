"""Several models stepping together on the same samples: the inner loop, with nothing in it but the mathematics of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from nqf_registry.train.batches import Batches
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.models import Bound, Finish, Model, Objective, State, Step
from nqf_registry.train.optimizers import Optimizer, Slots


@dataclass
class Progress:
    """Everything that changes during a run; copied it is a checkpoint.

    Attributes:
        step: how many steps are done.
        states: the trained tensors of each model.
        slots: what the optimiser remembers of each.
    """

    step: int
    states: list[State]
    slots: list[Slots]

    def copy(self) -> Progress:
        """A copy that shares nothing."""
        return Progress(
            self.step,
            [{name: block.clone() for name, block in state.items()} for state in self.states],
            [
                {slot: {name: block.clone() for name, block in held.items()} for slot, held in slots.items()}
                for slots in self.slots
            ],
        )


@dataclass(frozen=True)
class Failure:
    """Where a run left the finite numbers.

    Attributes:
        step: the first step after which a weight or a loss is not finite.
        model: position of the model.
        replica: position of the replica.
        value: the loss there.
    """

    step: int
    model: int
    replica: int
    value: float


class Lockstep:
    """Models, data and rule, ready to advance a :class:`Progress`.

    Args:
        models: the models.
        data: on the device and in the dtype of the run.
        loss: the loss.
        optimizer: the rule of the subject's own weights; each model follows its own version of it.
        batches: the minibatches, None for all samples in every step.
        way: how gradients are computed, see :meth:`nqf_registry.train.models.Model.objective`.

    Raises:
        InvalidInput: a model does not follow the rule, or cannot go that way.
    """

    def __init__(
        self,
        models: Sequence[Model],
        data: Data,
        loss: Loss,
        optimizer: Optimizer,
        batches: Batches | None,
        way: str = "auto",
    ) -> None:
        self.models, self.data, self.loss, self.batches, self.way = models, data, loss, batches, way
        self.rules = [model.rule(optimizer) for model in models]
        self._objectives: list[Objective] | None = None
        if batches is None:
            self._objectives = [model.objective(data.x, data.y, loss, way) for model in models]

    def begin(self, W: State) -> Progress:
        """The run before its first step, from weights W (R, *shape, d)."""
        states = [model.start(W) for model in self.models]
        return Progress(0, states, [rule.slots(state) for rule, state in zip(self.rules, states, strict=True)])

    def ways(self, progress: Progress) -> dict[str, str]:
        """How the gradient of each model is computed, by its name."""
        parts = zip(self.models, self.objectives(progress.step), self.rules, progress.states, strict=True)
        return {
            model.name: objective.way_for(rule, {name: tuple(block.shape) for name, block in state.items()})
            for model, objective, rule, state in parts
        }

    @property
    def bound(self) -> list[Bound] | None:
        """The models bound to all samples, None where steps see minibatches."""
        return None if self._objectives is None else [objective.bound for objective in self._objectives]

    def objectives(self, step: int) -> list[Objective]:
        """The loss of each model on the samples of one step."""
        if self._objectives is not None:
            return self._objectives
        assert self.batches is not None
        x, y = self.data.batch(self.batches.at(step))
        return [model.objective(x, y, self.loss, self.way, whole=False) for model in self.models]

    def advance(self, progress: Progress, step: int) -> None:
        """Takes steps until ``step`` are done, in place."""
        counts = range(progress.step + 1, step + 1)
        with torch.no_grad():
            if self.batches is None:
                for take, finish in self._steppers(self.objectives(0), progress):
                    for count in counts:
                        take(count)
                    finish()
            else:
                for count in counts:
                    for take, finish in self._steppers(self.objectives(count - 1), progress):
                        take(count)
                        finish()
        progress.step = step

    def _steppers(self, objectives: Sequence[Objective], progress: Progress) -> list[tuple[Step, Finish]]:
        """How each model steps; the models do not see each other, so each may take several steps before the next does."""
        parts = zip(objectives, self.rules, progress.states, progress.slots, strict=True)
        return [objective.stepper(rule, state, slots) for objective, rule, state, slots in parts]

    def failure(self, before: Progress, last: int) -> Failure | None:
        """The first step up to ``last`` at which something is not finite, found by stepping again from a finite point.

        The loop itself never looks at a value: it would have to wait for the device in every step.
        """
        progress = before.copy()
        while True:
            for m, (objective, state) in enumerate(zip(self.objectives(progress.step), progress.states, strict=True)):
                with torch.no_grad():
                    losses = objective.value(state)
                good = torch.isfinite(losses)
                for block in state.values():
                    good &= torch.isfinite(block).flatten(1).all(1)
                if not bool(good.all()):
                    replica = int((~good).nonzero()[0])
                    return Failure(progress.step, m, replica, float(losses[replica]))
            if progress.step >= last:
                return None
            self.advance(progress, progress.step + 1)


def finite(states: Sequence[State]) -> bool:
    """Whether every trained number is finite; one transfer for all of them."""
    return bool(torch.stack([torch.isfinite(block).all() for state in states for block in state.values()]).all())
