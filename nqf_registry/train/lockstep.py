"""Several models stepping together on the same samples: the inner loop, with nothing in it but the mathematics of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from nqf_registry.train import groups
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
        group: how many replicas of each model, by its name, are computed by one call; it decides the last bits. Chosen when
            the run begins where it is left out.
        chunk: how many replicas step through a block before the next ones do, a group if left out; it decides nothing.

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
        group: Mapping[str, int] | None = None,
        chunk: int | None = None,
    ) -> None:
        self.group, self.chunk = dict(group or {}), chunk
        self.models, self.data, self.loss, self.batches, self.way = models, data, loss, batches, way
        self.rules = [model.rule(optimizer) for model in models]
        self._objectives: list[Objective] | None = None
        if batches is None:
            self._objectives = [model.objective(data.x, data.y, loss, way) for model in models]

    def begin(self, W: State) -> Progress:
        """The run before its first step, from weights W (R, *shape, d)."""
        states = [model.start(W) for model in self.models]
        self._choose_groups(states)
        return Progress(0, states, [rule.slots(state) for rule, state in zip(self.rules, states, strict=True)])

    def ways(self, progress: Progress) -> dict[str, str]:
        """How the gradient of each model is computed, by its name."""
        objectives, shapes = self.objectives(progress.step), self._shapes(progress.states)
        return {
            model.name: objective.way_for(rule, own)
            for model, objective, rule, own in zip(self.models, objectives, self.rules, shapes, strict=True)
        }

    def groups(self, progress: Progress) -> dict[str, int]:
        """How many replicas of each model are computed by one call, by its name."""
        counts = [len(next(iter(state.values()))) for state in progress.states]
        return {m.name: min(count, self.group.get(m.name, count)) for m, count in zip(self.models, counts, strict=True)}

    def _shapes(self, states: Sequence[State]) -> list[dict[str, tuple[int, ...]]]:
        """Shapes of the trained blocks of a group of each model."""
        return [
            {name: (min(len(block), self.group.get(model.name, len(block))), *block.shape[1:]) for name, block in state.items()}
            for model, state in zip(self.models, states, strict=True)
        ]

    def _choose_groups(self, states: Sequence[State]) -> None:
        """How many replicas each call takes, where nobody has said."""
        replicas = len(next(iter(states[0].values())))
        objectives = self.objectives(0) if replicas > 1 else []
        for model, objective, rule, state in zip(self.models, objectives, self.rules, states, strict=False):
            if model.name in self.group:
                groups.check_rule(rule, replicas, self.group[model.name])
            elif groups.divides(rule):
                way = objective.way_for(rule, {name: tuple(block.shape) for name, block in state.items()})
                by_sample = None if way in ("statistics", "blas") else len(objective.targets)
                self.group[model.name] = groups.fitting(state, by_sample)

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
                for chunk in self._steppers(self.objectives(0), progress):
                    for count in counts:
                        for take, _ in chunk:
                            take(count)
                    for _, finish in chunk:
                        finish()
            else:
                for count in counts:
                    for chunk in self._steppers(self.objectives(count - 1), progress):
                        for take, finish in chunk:
                            take(count)
                            finish()
        progress.step = step

    def _steppers(self, objectives: Sequence[Objective], progress: Progress) -> Iterator[list[tuple[Step, Finish]]]:
        """How each chunk of replicas of each model steps.

        Neither models nor replicas see each other, so each chunk may take several steps before the next does.
        """
        parts = zip(self.models, objectives, self.rules, progress.states, progress.slots, strict=True)
        for model, objective, rule, state, slots in parts:
            replicas = len(next(iter(state.values())))
            group = self.group.get(model.name, replicas)
            if group >= replicas:
                yield [objective.stepper(rule, state, slots)]
                continue
            for chunk in groups.chunks(replicas, group, self.chunk or group):
                yield [
                    objective.stepper(
                        groups.part_of_rule(rule, *span), groups.part_of_state(state, *span), groups.part_of_slots(slots, *span)
                    )
                    for span in chunk
                ]

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
