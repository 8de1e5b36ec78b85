"""The subject as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nqf_registry.arguments import check_gradient
from nqf_registry.layer import Inputs, Weights, cast, declares
from nqf_registry.train.losses import Loss
from nqf_registry.train.models.base import Autograd, Bound, ClosedForm, Objective, State, WeightModel
from nqf_registry.train.models.pieces import in_pieces
from nqf_registry.train.numbers import whole as whole_number


@dataclass(frozen=True, eq=False)
class Original(WeightModel):
    """The subject as written, differentiated by its own ``linearise`` or ``pullback`` where it declares one, else by autograd.

    Gradients are summed over pieces of the samples, and of the replicas, whose intermediate results stay in the cache.

    Args:
        subject: a layer or a composition.
        samples: how many samples a piece has; chosen from the sizes if left out, see :mod:`nqf_registry.train.models.pieces`.
        replicas: how many replicas a piece has, likewise.
    """

    name = "original"

    samples: int | None = field(default=None, kw_only=True)
    replicas: int | None = field(default=None, kw_only=True)
    _counted: dict[Any, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        for what in ("samples", "replicas"):
            if getattr(self, what) is not None:
                object.__setattr__(self, what, whole_number(f"{what} of a piece", getattr(self, what), 1))

    def bind(self, x: Inputs) -> Bound:
        """The subject at inputs x."""
        subject: Any = self.subject
        x, outputs = cast(x, None), self._outputs(x)
        if declares(subject, "linearise"):
            return Linearised(subject, x, outputs)
        if declares(subject, "pullback"):
            return ClosedForm(
                lambda W: Autograd(outputs).evaluate(W),
                lambda W, cotangent: _mapped(subject, lambda V, c: subject.pullback(V, x, c), W, cotangent),
            )
        return Autograd(outputs)

    def _outputs(self, x: Inputs) -> Callable[[Weights], Tensor]:
        """The subject at inputs x as a function of its weights (R, ...) that torch can differentiate."""
        subject: Any = self.subject
        x = cast(x, None)
        # a subject that can be bound to its inputs computes once what depends on them alone
        f = subject.bind(x).evaluate if hasattr(subject, "bind") else lambda W: subject(W, x)

        def outputs(W: Weights) -> Tensor:
            if _replicas(W) == 1:  # without the replica axis nothing has to be vmapped
                return f({name: block[0] for name, block in W.items()})[None]
            return f(W)

        return outputs

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples, in pieces where that is quicker."""
        bind = self.bind
        if way == "autograd":  # whatever gradient the subject writes itself

            def bind(x: Inputs) -> Bound:
                return Autograd(self._outputs(x))

            objective = Objective(bind(x), y, loss, way)
        else:
            objective = super().objective(x, y, loss, way, whole)

        def zeros() -> State:
            W = self.subject.zeros(y.dtype, y.device)
            return {name: block[None] for name, block in W.items()}

        return in_pieces(objective, bind, x, zeros, self.samples, self.replicas, self._counted)


@dataclass(frozen=True, eq=False)
class Linearised(Bound):
    """A layer that gives its outputs together with their pullback."""

    layer: Any
    x: Inputs
    outputs: Callable[[Weights], Tensor]

    def evaluate(self, W: Weights) -> Tensor:
        """Outputs at W, by the layer's forward pass alone."""
        return Autograd(self.outputs).evaluate(W)

    def differentiate(self, W: Weights, cotangent: Callable[[Tensor], Tensor]) -> State:
        """One pass; replicas of a layer that does not take them itself are vmapped, with a forward pass beforehand."""
        layer = self.layer
        if _replicas(W) == 1:
            alone = {name: block[0] for name, block in W.items()}
            outputs, pull = layer.linearise(alone, self.x)
            gradient = check_gradient(layer.key, pull(cotangent(outputs[None])[0]), alone, "linearise")
            return {name: g[None] for name, g in gradient.items()}
        if getattr(layer, "batched", False):
            outputs, pull = layer.linearise(W, self.x)
            return check_gradient(layer.key, pull(cotangent(outputs)), W, "linearise")
        return _mapped(layer, lambda V, c: layer.linearise(V, self.x)[1](c), W, cotangent(self.evaluate(W)), "linearise")


def _mapped(
    subject: Any, pullback: Callable[[Weights, Tensor], Any], W: Weights, cotangent: Tensor, name: str = "pullback"
) -> State:
    """A layer's own gradient, (R, *shape, d): batched, vmapped or replica by replica."""

    def one(V: Weights, c: Tensor) -> State:
        return check_gradient(subject.key, pullback(V, c), V, name)

    if getattr(subject, "batched", False):
        return one(W, cotangent)
    if _replicas(W) > 1:
        try:
            return torch.func.vmap(one)(W, cotangent)
        except Exception:  # vmap's refusals have no class of their own; a real error comes again below
            pass
    parts = [one({name: block[r] for name, block in W.items()}, cotangent[r]) for r in range(_replicas(W))]
    return {name: torch.stack([part[name] for part in parts]) for name in W}


def _replicas(W: Weights) -> int:
    return next(iter(W.values())).shape[0]
