"""Theorem 3: a narrower layer that predicts the same on given data at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from torch import Tensor

from nqf_registry.couplings import Weights
from nqf_registry.dynamics.compression import Compression, compression
from nqf_registry.dynamics.general_form import GeneralForm
from nqf_registry.dynamics.order_parameters import ClosedSet, declared
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.models.base import Bound, Model, Objective, State
from nqf_registry.train.models.order_parameters import linear_rule, one_layer
from nqf_registry.train.models.quadratic import bound_form, quadratic_objective
from nqf_registry.train.optimizers import Optimizer


@dataclass(frozen=True, eq=False)
class Compressed(Model):
    """The NQF with k + 1 neurons in place of d, k being the dimension of the space that A(x), B(x) and g(x) of the data span.

    It takes d / d′ times the rate and d′ / d times the weight decay, which the trainer sees to. Without g and B, k neurons do.
    Equality holds on the data that it was made for; other inputs see what of W they share with those.

    Args:
        subject: a layer.
        data: what it is to be trained on.
        tolerance: see :func:`nqf_registry.dynamics.compression.compression`.
        rescale: whether the rate and the decay are rescaled; only to see what happens otherwise.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=1, width=1000)
        >>> data = nqf.teacher(layer, n=32)
        >>> nqf.Compressed(layer, data).width
        5
    """

    name = "compressed"

    data: Any = None
    tolerance: float | None = None
    rescale: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_layer(self)
        if not isinstance(self.data, Data):
            raise InvalidInput(
                f"nqf.Compressed takes a layer and the nqf.Data that it is to be trained on, got {type(self.data).__name__}."
            )

    @classmethod
    def of(cls, subject: Any, data: Any) -> Model:
        """The compressed subject for this data."""
        return cls(subject, data)

    @cached_property
    def compression(self) -> Compression:
        """How the neurons are replaced."""
        return compression(self.subject, self.data.x, self.tolerance)

    @property
    def width(self) -> int:
        """The number of neurons that are trained."""
        return self.compression.width

    def start(self, W: Weights) -> State:
        """The fewer neurons that stand for W."""
        return self.compression.start(W)

    def weights(self, state: Weights) -> None:
        """None: they are not the subject's."""
        return None

    def moments(self, state: Weights, chosen: ClosedSet) -> dict[tuple[str, ...], Tensor]:
        """M by component of what the layer's weights have in the space of the data, (d′ / d) W Wᵀ; the rest is not kept."""
        return {blocks: M / self.compression.factor for blocks, M in chosen.moments_of(state).items()}

    def rule(self, optimizer: Optimizer) -> Optimizer:
        """The rule at the rescaled rate and weight decay.

        Raises:
            InvalidInput: the rule is not linear in the gradient.
        """
        linear_rule(self, optimizer)
        return optimizer.rescaled(self.compression.factor) if self.rescale else optimizer

    def bind(self, x: Inputs) -> Bound:
        """The form at inputs x."""
        return bound_form(self._form(x))

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples; without a sum over them where the form allows it."""
        return quadratic_objective(self, self._form(x), self.subject.blocks(), self.width, y, loss, way, whole)

    def _form(self, x: Inputs) -> GeneralForm:
        return self.compression.form(declared(quadratic_form(self.subject, x)))
