"""The neural quadratic form of the subject."""

from __future__ import annotations

from torch import Tensor

from nqf_registry.layer import Inputs
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.losses import Loss
from nqf_registry.train.models.base import Bound, Objective, WeightModel
from nqf_registry.train.models.quadratic import bound_form, quadratic_objective


class NQF(WeightModel):
    """The subject's neural quadratic form, with its closed-form gradient where it has one."""

    name = "nqf"

    def bind(self, x: Inputs) -> Bound:
        """f(0) + Tr[W Wᵀ A(x)] at inputs x, with g and B where ZGZ fails."""
        return bound_form(quadratic_form(self.subject, x))

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples; without a sum over them where the form allows it."""
        form, width = quadratic_form(self.subject, x), getattr(self.subject, "width", 1)
        return quadratic_objective(self, form, self.subject.blocks(), width, y, loss, way, whole)
