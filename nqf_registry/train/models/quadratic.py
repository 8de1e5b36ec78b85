"""How the loss of a quadratic form is differentiated: by sample, or from statistics of the samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import opt_einsum
from torch import Tensor

from nqf_registry.couplings import NEURON, Coupling, Weights
from nqf_registry.structure import Structure
from nqf_registry.train.fused import fused_steps
from nqf_registry.train.gradients import Gradient
from nqf_registry.train.losses import Loss, Squared
from nqf_registry.train.models.base import Autograd, Bound, ClosedForm, Finish, Model, Objective, State, Step, no_way
from nqf_registry.train.optimizers import Optimizer, Slots
from nqf_registry.train.small_steps import are_small, small_steps
from nqf_registry.train.statistics import Statistics, Term, statistics, terms_of

SAMPLE_OVERHEAD = 2.0  # how much dearer a multiplication of the contraction by sample is: it runs in several smaller products


@dataclass(frozen=True, eq=False)
class StatisticsObjective(Objective):
    """The squared loss of a quadratic form whose gradient needs no sample."""

    statistics: Statistics
    small: bool = True  # whether BLAS alone may take the steps

    def gradient(self, W: Weights) -> Gradient:
        """∇L, blocks as W; blocks that A(x) does not reach are left out."""
        return self.statistics.gradient(W)

    def stepper(self, rule: Optimizer, state: State, slots: Slots) -> tuple[Step, Finish]:
        """Steps by BLAS alone where they are small, else fused ones where form and rule allow them."""
        shapes = {name: tuple(block.shape) for name, block in state.items()}
        if self.way_for(rule, shapes) == "blas":
            return small_steps(self.statistics, rule, state, slots)
        return fused_steps(self.statistics, rule, state, slots) or super().stepper(rule, state, slots)

    def way_for(self, rule: Optimizer, shapes: dict[str, tuple[int, ...]]) -> str:
        """``blas`` where steps are small, else ``statistics``."""
        small = self.small and are_small(self.statistics, rule, shapes, self.targets.device)
        return "blas" if small else self.way


def bound_form(form: Any) -> Bound:
    """A quadratic form as a bound model.

    A form that is derived, or that runs through a graph, differentiates by autograd: one forward pass will do for both.
    """
    return Autograd(form.evaluate) if getattr(form, "derived", True) else ClosedForm(form.evaluate, form.pullback)


def quadratic_objective(
    model: Model,
    form: Any,
    shapes: Mapping[str, tuple[int, ...]],
    width: int,
    y: Tensor,
    loss: Loss,
    way: str,
    whole: bool,
) -> Objective:
    """The loss of a quadratic form, by the way asked for, or by the cheapest.

    Args:
        model: whose loss it is.
        form: the form; where it is f(0) + Tr[M A] and no more, its gradient need not see the samples.
        shapes: of the trained blocks, without replicas and neurons.
        width: number of neurons.
        y: targets.
        loss: the loss.
        way: ``auto`` or one of :data:`nqf_registry.train.models.base.WAYS`.
        whole: whether every step sees these samples.

    Raises:
        InvalidInput: the gradient cannot be computed that way here.
    """
    bound = bound_form(form)
    own = "autograd" if isinstance(bound, Autograd) else "closed-form"
    if way == own:
        return Objective(bound, y, loss, own)
    if way == "autograd":
        return Objective(Autograd(bound.evaluate), y, loss, way)
    if way not in ("auto", "statistics"):
        raise no_way(model, way, "its form has no closed-form gradient")
    more = getattr(form, "linear", None) or getattr(form, "cross", None) is not None
    structure: Structure | None = None if more else getattr(form, "structure", None)
    reason = _without_statistics(structure, loss, whole)
    terms = None if structure is None or reason else terms_of(structure, dict(shapes))
    if structure is not None and terms and (way == "statistics" or _pays(terms, structure, width, len(y))):
        found = statistics(structure, form.offset, y, dict(shapes))
        if found is not None:
            return StatisticsObjective(bound, y, loss, "statistics", found, small=way == "auto")
        reason = "they would be too large"
    if way == "statistics":
        raise no_way(model, way, reason or "its couplings pick rows, are dense, or differ by output")
    return Objective(bound, y, loss, own)


def _without_statistics(structure: Structure | None, loss: Loss, whole: bool) -> str:
    """Why there are no statistics; "" where there are."""
    if not isinstance(loss, Squared):
        return f"the {loss.name} loss is not quadratic in the outputs"
    if not whole:
        return "every step sees other samples"
    return "" if structure is not None else "its form has further terms, or is derived"


def _pays(terms: list[Term], structure: Structure, width: int, n: int) -> bool:
    """Whether statistics cost less than contractions by sample, by counted multiplications.

    From T = U Vᵀ, 𝓛*𝓛 T and two products back, against evaluating the form and the two contractions of its pullback.
    """
    columns, outputs = sum(term.table[0] for term in terms), terms[0].table[1]
    mine = columns**2 * outputs + 3 * width * sum(a * b * c for a, b, c in (term.shape for term in terms))
    theirs = 0.0
    for term, coupling in zip(terms, structure.terms, strict=True):
        assert isinstance(coupling, Coupling)
        theirs += 3 * _multiplications(term, coupling, width, n)
    return mine <= SAMPLE_OVERHEAD * theirs


def _multiplications(term: Term, coupling: Coupling, width: int, n: int) -> float:
    words = [coupling.letters[0] + NEURON, *coupling.letters[1:-1], coupling.letters[-1] + NEURON]
    sizes = {**term.sizes, "n": n, NEURON: width}
    shapes = [tuple(sizes[a] for a in word) for word in words]
    found: Any = opt_einsum.contract_path(",".join(words) + "->" + coupling.output, *shapes, shapes=True)[1]
    return float(found.opt_cost) / 2
