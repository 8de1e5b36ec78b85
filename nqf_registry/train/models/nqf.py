"""The neural quadratic form of the subject."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nqf_registry.layer import Inputs
from nqf_registry.quadratic_form import QuadraticForm, quadratic_form
from nqf_registry.train.losses import Loss
from nqf_registry.train.models.base import Autograd, Bound, ClosedForm, Objective, WeightModel
from nqf_registry.train.models.quadratic import quadratic_objective


class NQF(WeightModel):
    """The subject's neural quadratic form, with its closed-form gradient where it has one."""

    name = "nqf"

    def bind(self, x: Inputs) -> Bound:
        """f(0) + Tr[W Wᵀ A(x)] at inputs x, with g and B where ZGZ fails."""
        return bound_form(quadratic_form(self.subject, x))

    def objective(self, x: Inputs, y: Tensor, loss: Loss, way: str = "auto", whole: bool = True) -> Objective:
        """The loss on these samples; without a sum over them where the form allows it."""
        form: Any = quadratic_form(self.subject, x)
        shapes = dict(self.subject.blocks())
        if not isinstance(form, QuadraticForm) or form.linear or form.cross is not None:
            structure, offset = None, 0.0
        else:
            structure, offset = form.structure, form.offset
        width = getattr(self.subject, "width", 1)
        return quadratic_objective(self, bound_form(form), structure, offset, shapes, width, y, loss, way, whole)


def bound_form(form: Any) -> Bound:
    """A quadratic form as a bound model.

    A form that is derived, or that runs through a graph, differentiates by autograd: one forward pass will do for both.
    """
    return Autograd(form.evaluate) if getattr(form, "derived", True) else ClosedForm(form.evaluate, form.pullback)
