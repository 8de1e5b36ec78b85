"""What can be recorded by name beside the losses: order parameters and what is read off them, losses by sample and by output.

Every model of a layer knows the order parameters M of its state, in the coordinates of the layer's closed set, whatever it
iterates, so what is recorded of different models can be compared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from nqf_registry.dynamics.modes import Modes, modes
from nqf_registry.dynamics.order_parameters import ClosedSet, closed_set, declared, reduce
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, cast
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.models import Model, State

MODES = 8


class Observable(ABC):
    """Something to record of every model.

    Args:
        subject: a layer or a composition.
        data: the training data, on the device of the run.
        loss: the loss.
    """

    name: ClassVar[str]
    about: ClassVar[str]
    by_sample: ClassVar[bool] = False  # whether the outputs on all training samples are needed

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        self.subject, self.data, self.loss = subject, data, loss

    @abstractmethod
    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """Named tensors with leading replica axis.

        Args:
            model: which model.
            state: what it trains.
            outputs: on all training samples, (R, n, k), where ``by_sample`` is set.
        """


class SampleLoss(Observable):
    """The loss of every training sample, (R, n)."""

    name, about, by_sample = "sample-loss", "the loss of each training sample", True

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """Σ_outputs ℓ by sample."""
        assert outputs is not None
        R, n, k = outputs.shape
        each = self.loss.total(outputs.reshape(R * n, 1, k), self.data.y.repeat(R, 1)[:, None])
        return {self.name: each.reshape(R, n)}


class OutputLoss(Observable):
    """The loss of every output, (R, k); they add up to the loss."""

    name, about, by_sample = "output-loss", "the loss of each output", True

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """Mean over samples of ℓ by output."""
        assert outputs is not None
        each = self.loss.total(outputs.movedim(-1, 1)[..., None], self.data.y.mT[..., None])  # (R, k)
        return {self.name: each / self.data.n}


class _OfMoments(Observable):
    """Something that is read off the order parameters of a layer."""

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        super().__init__(subject, data, loss)
        if not isinstance(subject, Layer):
            raise InvalidInput(f"{self.name} is recorded of one layer; {subject.key} is a composition.")
        few = {name: t[:2] for name, t in data.x.items()}
        self.closed: ClosedSet = closed_set(declared(quadratic_form(subject, few)))

    def moments(self, model: Model, state: State) -> dict[tuple[str, ...], Tensor]:
        """M by component, (R, batch, p, p)."""
        return model.moments(state, self.closed)

    def _named(self, parts: Mapping[tuple[str, ...], Tensor]) -> dict[str, Tensor]:
        """One name a component: the observable's own where there is one only, else with its blocks."""
        if len(parts) == 1:
            return {self.name: next(iter(parts.values()))}
        return {f"{self.name}-{'+'.join(blocks)}": value for blocks, value in parts.items()}


class OrderParametersProbe(_OfMoments):
    """M of each component, (R, batch, p, p)."""

    name, about = "order-parameters", "M = W Wᵀ of each component of A(x)"

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """M by component."""
        return self._named(self.moments(model, state))


class Spectrum(_OfMoments):
    """The eigenvalues of M, descending, (R, batch, p)."""

    name, about = "spectrum", "the eigenvalues of M, descending"

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """Eigenvalues by component."""
        found = {blocks: torch.linalg.eigvalsh(M.double()).flip(-1) for blocks, M in self.moments(model, state).items()}
        return self._named(found)


class ModesProbe(_OfMoments):
    """The z_k = e_kᵀ M e_k of the fastest modes of small weights, (R, modes)."""

    name, about = "modes", f"the order parameters of the {MODES} fastest modes"

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        super().__init__(subject, data, loss)
        self.modes = fastest(subject, data, loss, self.closed)

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """The z of every mode."""
        return {self.name: self.modes.order_parameters(list(self.moments(model, state).values()))}


class FeatureLoss(_OfMoments):
    """The part of the mean squared residual along each fastest mode's feature φ_k(x) = e_kᵀ A(x) e_k, (R, modes).

    ⟨f − y, φ_k⟩² / (n ‖φ_k‖²); features of different modes overlap in general, so the parts need not add up.
    """

    name, about, by_sample = "feature-loss", "the squared residual along the feature of each fastest mode", True

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        super().__init__(subject, data, loss)
        phi = fastest(subject, data, loss, self.closed).features
        norm = phi.square().sum((1, 2), keepdim=True).sqrt().clamp_min(torch.finfo(phi.dtype).tiny)
        self.unit = phi / norm

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """By mode."""
        assert outputs is not None
        along = torch.einsum("rnk,mnk->rm", (outputs - self.data.y).double(), self.unit)
        return {self.name: along.square() / self.data.n}


class TeacherOverlap(_OfMoments):
    """⟨M, M*⟩ / (‖M‖ ‖M*‖), 1 where the layer has learnt the teacher's order parameters up to a factor, (R,)."""

    name, about = "teacher-overlap", "the overlap ⟨M, M*⟩ / (‖M‖ ‖M*‖) with the teacher's order parameters"

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        super().__init__(subject, data, loss)
        weights = data.info.get("weights")
        blocks = subject.blocks()
        if not isinstance(weights, Mapping) or set(weights) != set(blocks):
            raise InvalidInput(
                f"{self.name} needs data that knows its teacher, such as nqf.teacher(layer); {data.name} does not."
            )
        device = data.y.device
        self.target = self.closed.moments_of({name: weights[name][None].double().to(device) for name in blocks})

    def measure(self, model: Model, state: State, outputs: Tensor | None) -> dict[str, Tensor]:
        """Over all components together."""
        found = {blocks: M.double() for blocks, M in self.moments(model, state).items()}

        def inner(a: Mapping[tuple[str, ...], Tensor], b: Mapping[tuple[str, ...], Tensor]) -> Tensor:
            return torch.stack([(a[blocks] * b[blocks]).flatten(1).sum(1) for blocks in a]).sum(0)

        size = (inner(found, found) * inner(self.target, self.target)).sqrt()
        return {self.name: inner(found, self.target) / size.clamp_min(torch.finfo(torch.float64).tiny)}


OBSERVABLES: dict[str, type[Observable]] = {
    kind.name: kind
    for kind in (OrderParametersProbe, Spectrum, ModesProbe, TeacherOverlap, SampleLoss, OutputLoss, FeatureLoss)
}


def fastest(subject: Layer, data: Data, loss: Loss, chosen: ClosedSet) -> Modes:
    """The fastest modes of a layer on data, in the coordinates of its closed set."""
    x = cast(dict(data.x), torch.float64)
    form = reduce(declared(quadratic_form(subject, x)), chosen)
    y = data.y.double()
    derivative: Callable[[Tensor], Tensor] = lambda outputs: loss.cotangent(outputs, y)  # noqa: E731
    return modes(chosen, form, derivative, MODES, data.y.device)
