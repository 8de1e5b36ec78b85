"""The rate that ``lr="auto"`` chooses, and the largest stable one: both from A(x) and the data, before training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from nqf_registry.dynamics.growth import GrowthOperator, GrowthRates, growth_rates, top_eigenpairs
from nqf_registry.errors import InvalidInput
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss
from nqf_registry.train.optimizers import Optimizer

ADAM_RATE = 1e-3
FRACTION = 0.1


@dataclass(frozen=True)
class Rate:
    """A rate with its reason.

    Attributes:
        value: the rate η.
        rule: how it was chosen, in words and numbers.
        growth: λ₁, the fastest growth rate of W; None where it was not needed.
        stable: the estimated largest stable rate; None where none was made.
    """

    value: float
    rule: str
    growth: float | None = None
    stable: float | None = None


def automatic_rate(subject: Any, data: Data, loss: Loss, optimizer: Optimizer) -> Rate:
    """The rate of ``lr="auto"``.

    Rules that are linear in the gradient get η = 0.1 (1 − β) / λ₁(Y), so that the fastest mode grows by a tenth a step, but at most half the
    estimated largest stable rate; Adam, whose steps do not scale with the gradient, gets 10⁻³.

    Raises:
        InvalidInput: no mode grows, so that no rate follows from the data.
    """
    limit = optimizer.stability_limit()
    if limit is None:
        return Rate(ADAM_RATE, f"auto: {ADAM_RATE:g}, the default of {optimizer.name}")
    growth = growth_rates(subject, data, 1, loss.cotangent, tolerance=1e-6)
    fastest = float(growth.rates[0])
    if fastest <= 0:
        raise InvalidInput(
            f"lr='auto' needs a mode that grows from small weights, but the fastest growth rate of {subject.key} on {data.name} is "
            f"{fastest:.3g}: its quadratic form does not correlate with the targets. Give lr a number, or change the targets."
        )
    value = FRACTION * (1 - optimizer.momentum) / fastest
    rule = f"auto: {FRACTION:g}{' (1 - momentum)' if optimizer.momentum else ''} / growth rate {fastest:.6g}"
    stable = largest_stable_rate(subject, data, loss, limit, growth)
    if stable is not None and value > stable / 2:
        return Rate(stable / 2, f"auto: half the estimated largest stable rate {stable:.6g}, which is below {rule[6:]}", fastest, stable)
    return Rate(value, rule, fastest, stable)


def largest_stable_rate(
    subject: Any, data: Data, loss: Loss, limit: float | None, growth: GrowthRates | None = None
) -> float | None:
    """limit / κ, with κ the largest curvature of the NQF's loss where its fastest mode alone has saturated.

    It is an estimate: later modes may add to the curvature, and the original layer may differ from its NQF.

    Args:
        subject: a layer or a composition.
        data: the training data.
        loss: the loss.
        limit: the largest stable rate × curvature of the optimiser; None for one that has no such number.
        growth: the fastest mode, where it is known already.

    Returns:
        The rate, None where there is no limit, no growing mode or no positive curvature.
    """
    if limit is None:
        return None
    growth = growth or growth_rates(subject, data, 1, loss.cotangent, tolerance=1e-6)
    if float(growth.rates[0]) <= 0:
        return None
    landscape = _Landscape(subject, data, loss)
    mode = {name: part[0] for name, part in growth.modes.items()}
    W = landscape.weights(mode)
    saturated = {name: landscape.saturation(W) * block for name, block in W.items()}
    base = landscape.flat(saturated)
    step = 1e-5 * float(np.linalg.norm(base))

    def curvature(v: np.ndarray) -> np.ndarray:
        unit = step / max(float(np.linalg.norm(v)), 1e-300)
        return (landscape.gradient(base + unit * v.reshape(-1)) - landscape.gradient(base - unit * v.reshape(-1))) / (2 * unit)

    largest = float(top_eigenpairs(curvature, len(base), 1, tolerance=1e-2)[0][0])
    return limit / largest if largest > 0 else None


class _Landscape(GrowthOperator):
    """The loss of the NQF at the weights of the one or two neurons that a growth operator looks at."""

    def __init__(self, subject: Any, data: Data, loss: Loss) -> None:
        super().__init__(subject, data.x, data.y, loss.cotangent)
        self.loss = loss
        zeros = subject.zeros(torch.float64, self.device)
        self.zeros = {name: block[..., : self.neurons] if self.neurons else block for name, block in zeros.items()}

    def weights(self, mode: dict[str, Tensor]) -> dict[str, Tensor]:
        """A mode as weights: in the first of the neurons, or whole."""
        if self.neurons is None:
            return mode
        return {name: torch.cat([mode[name][..., None], self.zeros[name][..., 1:]], -1) for name in mode}

    def flat(self, W: dict[str, Tensor]) -> np.ndarray:
        return torch.cat([block.reshape(-1) for block in W.values()]).cpu().numpy()

    def unflat(self, vector: np.ndarray) -> dict[str, Tensor]:
        flat = torch.from_numpy(np.ascontiguousarray(vector)).to(self.device)
        parts = flat.split([block.numel() for block in self.zeros.values()])
        return {name: part.reshape(block.shape) for (name, block), part in zip(self.zeros.items(), parts, strict=True)}

    def value(self, W: dict[str, Tensor]) -> float:
        """The loss, not divided by the number of samples."""
        return sum(float(self.loss.total(form.evaluate(W), y)) for form, _, y in self.chunks())

    def saturation(self, W: dict[str, Tensor]) -> float:
        """The size s > 0 at which the loss along s · W is smallest, while outputs stay below ten times the targets."""
        reach, size = 0.0, 1.0
        for form, _, y in self.chunks():
            base = form.evaluate({name: 0 * block for name, block in W.items()})
            reach = max(reach, float((form.evaluate(W) - base).abs().max()))
            size = max(size, float((y - base).abs().max()))
        found: Any = minimize_scalar(
            lambda s: self.value({name: s * block for name, block in W.items()}), bounds=(0.0, (10 * size / reach) ** 0.5), method="bounded"
        )
        return float(found.x)

    def gradient(self, vector: np.ndarray) -> np.ndarray:
        W = self.unflat(vector)
        total = {name: torch.zeros_like(block) for name, block in W.items()}
        for form, _, y in self.chunks():
            c = self.loss.cotangent(form.evaluate(W), y) * (len(y) / len(self.y))
            for name, part in form.pullback(W, c).items():
                total[name] += part
        return self.flat(total)
