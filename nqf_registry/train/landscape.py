"""The loss of a quadratic form as a function of a few neurons' weights, for what has to be known before training."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize, minimize_scalar
from torch import Tensor

from nqf_registry.dynamics.growth import top_eigenpairs
from nqf_registry.layer import cast
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.data import Data
from nqf_registry.train.losses import Loss

NEURONS = 8
DESCENT = 30  # steps of L-BFGS


class Landscape:
    """L(W) of the NQF of a subject; W is a flat vector of the weights of a few neurons a block.

    Args:
        subject: a layer or a composition. A layer's quadratic form can be evaluated with fewer neurons than it has; a
            composition is taken whole.
        data: the training data.
        loss: the loss.
        neurons: how many a layer has here, at most its width; None for all.
        chunk: how many samples are contracted at a time.
    """

    def __init__(self, subject: Any, data: Data, loss: Loss, neurons: int | None = NEURONS, chunk: int = 65536) -> None:
        self.subject, self.loss, self.chunk = subject, loss, chunk
        self.x, self.y = cast(data.x, torch.float64), data.y.double()
        self._form = quadratic_form(subject, self.x) if data.n <= chunk else None  # kept where it is one chunk
        zeros = subject.zeros(torch.float64, data.y.device)
        few = hasattr(subject, "width")
        self.zeros = {name: block[..., : neurons if few else None] for name, block in zeros.items()}

    def chunks(self) -> Iterator[tuple[Any, Tensor]]:
        """Quadratic form and targets, chunk by chunk."""
        for start in range(0, len(self.y), self.chunk):
            where = slice(start, start + self.chunk)
            yield self._form or quadratic_form(self.subject, {name: t[where] for name, t in self.x.items()}), self.y[where]

    def flat(self, W: dict[str, Tensor]) -> np.ndarray:
        """Blocks as one vector."""
        return torch.cat([block.reshape(-1) for block in W.values()]).cpu().numpy()

    def blocks(self, vector: np.ndarray) -> dict[str, Tensor]:
        """A vector as blocks."""
        flat = torch.from_numpy(np.ascontiguousarray(vector, dtype=np.float64)).to(self.y.device)
        parts = flat.split([block.numel() for block in self.zeros.values()])
        return {name: part.reshape(block.shape) for (name, block), part in zip(self.zeros.items(), parts, strict=True)}

    def value(self, W: dict[str, Tensor]) -> float:
        """L(W)."""
        return sum(float(self.loss.total(form.evaluate(W), y)) for form, y in self.chunks()) / len(self.y)

    def value_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """L(W) and ∇L(W)."""
        W, value = self.blocks(vector), 0.0
        total = {name: torch.zeros_like(block) for name, block in W.items()}
        for form, y in self.chunks():
            outputs, share = form.evaluate(W), len(y) / len(self.y)
            value += share * float(self.loss.value(outputs, y))
            for name, part in form.pullback(W, share * self.loss.cotangent(outputs, y)).items():
                total[name] += part
        return value, self.flat(total)

    def saturated(self, mode: dict[str, Tensor]) -> np.ndarray:
        """Where the loss is smallest along a mode, with outputs at most ten times the targets.

        A mode of one neuron is put into the first.
        """
        W = {
            name: torch.cat([e[..., None], self.zeros[name][..., 1:]], -1) if e.ndim < self.zeros[name].ndim else e
            for name, e in mode.items()
        }
        reach, size = 0.0, 1.0
        for form, y in self.chunks():
            base = form.evaluate(self.zeros)
            reach = max(reach, float((form.evaluate(W) - base).abs().max()))
            size = max(size, float((y - base).abs().max()))
        longest = (10 * size / reach) ** 0.5
        found: Any = minimize_scalar(
            lambda s: self.value({name: s * block for name, block in W.items()}), bounds=(0.0, longest), method="bounded"
        )
        return float(found.x) * self.flat(W)

    def descended(self, start: np.ndarray) -> np.ndarray:
        """Where some steps of L-BFGS lead from a little beside a point."""
        noise = np.random.default_rng(0).standard_normal(len(start))
        beside = start + 0.01 * np.linalg.norm(start) / np.linalg.norm(noise) * noise
        found: Any = minimize(self.value_and_gradient, beside, jac=True, method="L-BFGS-B", options={"maxiter": DESCENT})
        return found.x

    def curvature(self, at: np.ndarray) -> float:
        """The largest eigenvalue of the Hessian at a point, to about a percent."""
        step = 1e-5 * float(np.linalg.norm(at))

        def along(v: np.ndarray) -> np.ndarray:
            size = step / max(float(np.linalg.norm(v)), 1e-300)
            shift = size * v.reshape(-1)
            return (self.value_and_gradient(at + shift)[1] - self.value_and_gradient(at - shift)[1]) / (2 * size)

        return float(top_eigenpairs(along, len(at), 1, tolerance=1e-2)[0][0])
