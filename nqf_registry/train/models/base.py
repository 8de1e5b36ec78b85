"""The models that the trainer trains: views of one subject that bring outputs and a gradient.

A *subject* is a layer or a composition of layers. A *model* of it can be bound to inputs, which computes once what depends on
the inputs alone, and then evaluated and differentiated at any weights. The loop knows nothing else of either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from nqf_registry.dynamics.order_parameters import ClosedSet
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Port, Weights, cast
from nqf_registry.train.gradients import Gradient
from nqf_registry.train.losses import Loss
from nqf_registry.train.optimizers import Optimizer, Slots

State = dict[str, Tensor]
Step = Callable[[int], None]
Finish = Callable[[], None]

WAYS = ("autograd", "closed-form", "statistics")


@runtime_checkable
class Subject(Protocol):
    """What a model is a model of: :class:`nqf_registry.Layer` and the composition both are subjects."""

    @property
    def key(self) -> str:
        """Its name."""
        ...

    def blocks(self) -> Mapping[str, tuple[int, ...]]:
        """Name and shape of each block of weights, without the neuron axis."""
        ...

    def zeros(self, dtype: torch.dtype = ..., device: torch.device | str = ...) -> dict[str, Tensor]:
        """W = 0."""
        ...

    def random(
        self, generator: torch.Generator, scale: float = ..., dtype: torch.dtype = ..., device: torch.device | str = ...
    ) -> dict[str, Tensor]:
        """W with independent normal entries of standard deviation ``scale``."""
        ...

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Typical inputs, n of them."""
        ...

    def ports(self) -> Mapping[str, Port]:
        """The inputs by name."""
        ...

    def encode(self, features: Tensor) -> dict[str, Tensor]:
        """A table of feature vectors as inputs."""
        ...

    def __call__(self, W: Any, x: Any) -> Tensor:
        """f(W), (n, k) or (R, n, k)."""
        ...


class Bound(ABC):
    """A model at fixed inputs."""

    @abstractmethod
    def evaluate(self, W: Weights) -> Tensor:
        """Outputs at W with a leading replica axis: (R, n, k)."""

    @abstractmethod
    def differentiate(self, W: Weights, cotangent: Callable[[Tensor], Tensor]) -> State:
        """The gradient by W of a function of the outputs.

        Args:
            W: blocks (R, *shape, d).
            cotangent: the derivative of that function, from outputs (R, n, k) to (R, n, k). It is a function rather than a
                tensor so that autograd needs one forward pass, not two.
        """

    def pullback(self, W: Weights, cotangent: Tensor) -> State:
        """The gradient by W of Σ cotangent · outputs."""
        return self.differentiate(W, lambda _: cotangent)


@dataclass(frozen=True, eq=False)
class ClosedForm(Bound):
    """Outputs and gradient as two functions that someone wrote down."""

    outputs: Callable[[Weights], Tensor]
    gradient: Callable[[Weights, Tensor], State]

    def evaluate(self, W: Weights) -> Tensor:
        """Outputs at W."""
        return self.outputs(W)

    def differentiate(self, W: Weights, cotangent: Callable[[Tensor], Tensor]) -> State:
        """The written gradient at the outputs' cotangent."""
        return self.gradient(W, cotangent(self.outputs(W)))


@dataclass(frozen=True, eq=False)
class Autograd(Bound):
    """Outputs as a function that torch differentiates in reverse."""

    outputs: Callable[[Weights], Tensor]

    def evaluate(self, W: Weights) -> Tensor:
        """Outputs at W."""
        with torch.no_grad():
            return self.outputs(W)

    def differentiate(self, W: Weights, cotangent: Callable[[Tensor], Tensor]) -> State:
        """One forward and one backward pass."""
        leaves = {name: block.detach().requires_grad_() for name, block in W.items()}
        with torch.enable_grad():
            out = self.outputs(leaves)
        if not out.requires_grad:  # a layer that does not touch its weights
            return {name: torch.zeros_like(block) for name, block in W.items()}
        grads = torch.autograd.grad(out, list(leaves.values()), cotangent(out.detach()), allow_unused=True)
        return {name: torch.zeros_like(W[name]) if g is None else g for name, g in zip(leaves, grads, strict=True)}


@dataclass(frozen=True, eq=False)
class Objective:
    """The loss of a bound model on its samples, as a function of what is trained.

    Attributes:
        bound: the model at the samples' inputs.
        targets: of the samples.
        loss: the loss.
        way: how its gradient is computed, one of :data:`WAYS`.
    """

    bound: Bound
    targets: Tensor
    loss: Loss
    way: str

    def value(self, W: Weights) -> Tensor:
        """L by replica, (R,)."""
        return self.loss.value(self.bound.evaluate(W), self.targets)

    def gradient(self, W: Weights) -> Gradient:
        """∇L, blocks as W; a block that the loss does not depend on may be missing."""
        return self.bound.differentiate(W, lambda outputs: self.loss.cotangent(outputs, self.targets))

    def stepper(self, rule: Optimizer, state: State, slots: Slots) -> tuple[Step, Finish]:
        """What takes a step of a rule, and what to call after some of them; both update the state and the slots in place."""
        return rule.stepper(self, state, slots)

    def way_for(self, rule: Optimizer, shapes: dict[str, tuple[int, ...]]) -> str:
        """The way that steps of this rule go, with trained blocks of these shapes."""
        return self.way


@dataclass(frozen=True, eq=False)
class Model(ABC):
    """A view of a subject that can be trained."""

    name: ClassVar[str]

    subject: Any  # a Subject

    def __post_init__(self) -> None:
        if not isinstance(self.subject, Subject):
            raise InvalidInput(
                f"nqf.{type(self).__name__} takes a layer or a composition, got {type(self.subject).__name__}; "
                "take one by registry.get(key)."
            )

    @abstractmethod
    def start(self, W: Weights) -> State:
        """The trained tensors that stand for the initial weights W; what it returns may be written to."""

    @abstractmethod
    def weights(self, state: Weights) -> State | None:
        """The subject's weights that a state stands for, None for a model that keeps none."""

    @abstractmethod
    def moments(self, state: Weights, chosen: ClosedSet) -> dict[tuple[str, ...], Tensor]:
        """The layer's order parameters M by component, (R, batch, p, p), that a state stands for.

        Args:
            state: what is trained.
            chosen: the closed set of the layer, whose coordinates M is given in.
        """

    @abstractmethod
    def bind(self, x: Inputs) -> Bound:
        """The model at inputs x."""

    @classmethod
    def of(cls, subject: Any, data: Any) -> Model:
        """The model of a subject on some data; most need only the subject."""
        return cls(subject)

    def rule(self, optimizer: Optimizer) -> Optimizer:
        """The rule that trains this model where the subject is trained by ``optimizer``.

        Raises:
            InvalidInput: the model does not follow that rule.
        """
        return optimizer

    def init(
        self,
        seeds: Sequence[int],
        scale: float | Sequence[float] = 1e-2,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> State:
        """Initial trained tensors, one replica a seed; see :func:`initial_weights`."""
        return self.start(initial_weights(self.subject, seeds, scale, dtype, device))

    def outputs(self, W: Weights, x: Inputs) -> Tensor:
        """Outputs at inputs x: (R, n, k)."""
        return self.bind(cast(x, next(iter(W.values())).dtype)).evaluate(W)

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples, ready to be differentiated.

        Args:
            x: inputs.
            y: targets (n, k).
            loss: the loss.
            way: how to compute the gradient, ``auto`` or one of :data:`WAYS`.
            whole: whether every step sees these samples; what is worked out beforehand then pays.

        Raises:
            InvalidInput: the model's gradient cannot be computed that way here.
        """
        bound = self.bind(x)
        own = "autograd" if isinstance(bound, Autograd) else "closed-form"
        if way in ("auto", own):
            return Objective(bound, y, loss, own)
        if way == "autograd":
            return Objective(Autograd(bound.evaluate), y, loss, way)
        raise no_way(self, way, f"{self.subject.key} has none here")


class WeightModel(Model):
    """A model that trains the subject's own weights."""

    def start(self, W: Weights) -> State:
        """A copy of W."""
        return {name: block.clone() for name, block in W.items()}

    def weights(self, state: Weights) -> State:
        """The state itself."""
        return dict(state)

    def moments(self, state: Weights, chosen: ClosedSet) -> dict[tuple[str, ...], Tensor]:
        """M = W Wᵀ by component."""
        return chosen.moments_of(state)


def no_way(model: Model, way: str, reason: str) -> InvalidInput:
    """The refusal of a way that a model cannot go."""
    if way not in WAYS:
        return InvalidInput(f"way must be auto or one of {', '.join(WAYS)}, got {way!r}.")
    return InvalidInput(
        f"the gradient of {model.name} cannot be computed by way {way!r}: {reason}. Leave way out, or name another."
    )


def initial_weights(
    subject: Subject,
    seeds: Sequence[int],
    scale: float | Sequence[float] = 1e-2,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
) -> State:
    """Independent normal weights, one replica a seed: blocks (R, *shape, d).

    Replica r is what its seed alone would give, whatever stands beside it, in every dtype and on every device.

    Args:
        subject: a layer or a composition.
        seeds: one a replica.
        scale: standard deviation, one number or one a replica.
        dtype: of the weights.
        device: of the weights.
    """
    scales = [scale] * len(seeds) if isinstance(scale, int | float) else list(scale)
    if len(scales) != len(seeds):
        raise InvalidInput(f"{len(seeds)} seeds need as many scales or one, got {len(scales)}.")
    parts = [
        subject.random(torch.Generator().manual_seed(int(seed)), size, dtype, device)
        for seed, size in zip(seeds, scales, strict=True)
    ]
    return {name: torch.stack([part[name] for part in parts]) for name in parts[0]}
