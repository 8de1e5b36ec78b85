"""The subject's quadratic form on its order parameters, at a cost that does not depend on the width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from nqf_registry.dynamics.general_form import GeneralForm
from nqf_registry.dynamics.order_parameters import ClosedSet, closed_set, declared, reduce
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, Weights
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.losses import Loss
from nqf_registry.train.models.base import Bound, Model, Objective, State
from nqf_registry.train.models.quadratic import bound_form, quadratic_objective
from nqf_registry.train.optimizers import Optimizer


@dataclass(frozen=True, eq=False)
class OrderParameters(Model):
    r"""Theorem 2: training closes on M = W Wᵀ and μ = W 1, whatever the width.

    What is iterated is P of W = P W₀ + Q 1ᵀ, times a root of M₀, on the smallest closed set: inert blocks are left out,
    Kronecker identities are folded, and components that A(x) does not couple keep only their own blocks. For every rule that is
    linear in the gradient it is the NQF's training, to rounding.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=4, width=1000)
        >>> run = nqf.compare(layer, nqf.teacher(layer, n=32), models=["nqf", "order-parameters"], steps=50, verify=False)
        >>> run.deviation()[0] < 1e-5
        True
    """

    name = "order-parameters"

    def __post_init__(self) -> None:
        super().__post_init__()
        one_layer(self)

    @cached_property
    def closed_set(self) -> ClosedSet:
        """The numbers that are iterated."""
        x = self.subject.sample(2, torch.Generator().manual_seed(0))
        return closed_set(declared(quadratic_form(self.subject, x)))

    def start(self, W: Weights) -> State:
        """The order parameters of W, as P times a root of M₀."""
        return self.closed_set.start(W)

    def weights(self, state: Weights) -> None:
        """None: the weights of single neurons are not kept."""
        return None

    def moments(self, state: Weights, chosen: ClosedSet | None = None) -> dict[tuple[str, ...], Tensor]:
        """M by component, see :meth:`nqf_registry.dynamics.order_parameters.ClosedSet.moments`."""
        return self.closed_set.moments(state)

    def rule(self, optimizer: Optimizer) -> Optimizer:
        """The rule itself, which must be linear.

        Raises:
            InvalidInput: it is not.
        """
        return linear_rule(self, optimizer)

    def bind(self, x: Inputs) -> Bound:
        """The form at inputs x."""
        return bound_form(self._form(x))

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples; without a sum over them where the form allows it."""
        width = min(self.subject.width, self.subject.n_params)
        return quadratic_objective(self, self._form(x), self.closed_set.shapes, width, y, loss, way, whole)

    def _form(self, x: Inputs) -> GeneralForm:
        return reduce(declared(quadratic_form(self.subject, x)), self.closed_set)


def linear_rule(model: Model, optimizer: Optimizer) -> Optimizer:
    """The rule, if it is linear in weights and gradient.

    Raises:
        InvalidInput: it is not.
    """
    if optimizer.linear:
        return optimizer
    raise InvalidInput(
        f"{model.name} cannot follow {optimizer.name}: {optimizer.nonlinear}, so training does not close on "
        "M = W Wᵀ. Use a rule that is linear in the gradient (gd, momentum, nesterov), or train nqf or original."
    )


def one_layer(model: Model) -> Layer:
    """The model's subject, which must be one layer.

    Raises:
        InvalidInput: it is a composition.
    """
    subject: Any = model.subject
    if not isinstance(subject, Layer):
        raise InvalidInput(
            f"{model.name} takes one layer; {subject.key} is a composition, whose layers close one by one. Train original or "
            "nqf."
        )
    return subject
