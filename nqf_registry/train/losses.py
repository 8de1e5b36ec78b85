"""The losses: each a mean over samples of a sum over outputs, with its exact derivative by the outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean


class Loss(ABC):
    """L = (1/n) Σ_samples Σ_outputs ℓ(f, y), outputs (..., n, k) against targets (n, k)."""

    name: ClassVar[str]

    @abstractmethod
    def total(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Σ_samples Σ_outputs ℓ, not divided by n, so that chunks add up: (...,)."""

    @abstractmethod
    def cotangent(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """∂L/∂f of the mean loss, (..., n, k)."""

    @abstractmethod
    def check(self, targets: Tensor) -> None:
        """Raises InvalidInput where the targets are none that this loss can take."""

    def value(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """L, (...,)."""
        return self.total(outputs, targets) / targets.shape[0]


class Squared(Loss):
    """ℓ = (f − y)², summed over outputs and averaged over samples."""

    name = "squared"

    def total(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Σ (f − y)²."""
        return (outputs - targets).square().sum((-2, -1))

    def cotangent(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """2 (f − y) / n."""
        return (outputs - targets) * (2 / targets.shape[0])

    def check(self, targets: Tensor) -> None:
        """Every finite target will do."""


class Logistic(Loss):
    """ℓ = log(1 + exp(−y f)) for labels y in {−1, +1}, summed over outputs and averaged over samples."""

    name = "logistic"

    def total(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Σ log(1 + exp(−y f)), without overflow."""
        return softplus(-targets * outputs).sum((-2, -1))

    def cotangent(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """−y / (1 + exp(y f)) / n."""
        return torch.sigmoid(-targets * outputs) * targets * (-1 / targets.shape[0])

    def check(self, targets: Tensor) -> None:
        """Labels must be −1 or +1.

        Raises:
            InvalidInput: a target is neither.
        """
        wrong = targets[targets.abs() != 1]
        if wrong.numel():
            raise InvalidInput(
                f"the logistic loss takes labels -1 and +1; these targets hold {float(wrong[0]):g}. "
                "Recode them, or use loss='squared'."
            )


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (Squared(), Logistic())}


def find_loss(loss: str | Loss) -> Loss:
    """A loss by name, or itself.

    Raises:
        InvalidInput: there is none of that name.
    """
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in LOSSES:
        raise InvalidInput(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.{did_you_mean(str(loss), LOSSES)}")
    return LOSSES[loss]
