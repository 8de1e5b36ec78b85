"""Growth rates: how fast each mode of small weights grows, read off A(x) and the targets before a step is taken.

Near W = 0 gradient flow is Ẇ = Y W with Y = (4/m) Σ (y − f(0)) A for the squared loss, −2 Σ ℓ′ A in general, so the modes are
the eigenvectors of Y: W grows with its eigenvalue λ, and the order parameter z = eᵀ M e with 2λ.

Source: arXiv 2608.13335, section 4 and appendix B.5; Theorem 7 for the role of Y.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.dynamics.eigenpairs import top_eigenpairs
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import cast
from nqf_registry.quadratic_form import quadratic_form

Cotangent = Callable[[Tensor, Tensor], Tensor]

TOGETHER = 2048  # vectors mapped at once at most
PROBE = 2.0**-20  # size of the weights at which the linear map is read; a power of two scales without rounding


def squared_cotangent(outputs: Tensor, targets: Tensor) -> Tensor:
    """Derivative of the mean squared loss by the outputs, 2 (f − y) / n."""
    return (outputs - targets) * (2 / targets.shape[0])


@dataclass(frozen=True, eq=False)
class GrowthRates:
    """The fastest modes of small weights.

    Attributes:
        rates: eigenvalues λ of Y, descending, (k,); W grows as e^{λt}, z as e^{2λt}, with t = rate × step.
        modes: their unit eigenvectors by block, (k, *shape) for a layer; (k, *shape, d) for a
            composition, whose neurons differ.
        whole: whether a mode spans all neurons, as a composition's does.
    """

    rates: Tensor
    modes: dict[str, Tensor]
    whole: bool = False

    def order_parameter(self, W: dict[str, Tensor], mode: int = 0) -> Tensor:
        """The order parameter z = eᵀ M e of one mode: one number, or (R,) for weights with a leading replica axis.

        For a composition, whose mode spans all its weights, the squared overlap with the mode.

        Raises:
            InvalidInput: the weights are not those of the modes' subject, or there is no such mode.
        """
        if not 0 <= mode < len(self.rates):
            raise InvalidInput(f"mode must be one of the {len(self.rates)} modes, 0 to {len(self.rates) - 1}; got {mode!r}.")
        if set(W) != set(self.modes):
            raise InvalidInput(f"the modes have the blocks {', '.join(self.modes)}; the weights have {', '.join(W)}.")
        total: Any = 0.0
        axes = set()
        for name, block in W.items():
            e = self.modes[name][mode].to(block)
            shape = tuple(block.shape) if self.whole else tuple(block.shape[:-1])
            extra = len(shape) - e.ndim
            if extra not in (0, 1) or shape[extra:] != tuple(e.shape):
                wanted = ", ".join([*map(str, e.shape), *([] if self.whole else ["d"])])
                raise InvalidInput(f"block {name!r} must be ({wanted}), or (R, {wanted}); got {tuple(block.shape)}.")
            axes.add(extra)
            dims: Any = ([a + extra for a in range(e.ndim)], list(range(e.ndim)))
            total = total + torch.tensordot(block, e, dims=dims)  # (R, d), or (R,) of the whole
        if len(axes) > 1:
            raise InvalidInput("some blocks have a leading replica axis and some have none; give it to all, or to none.")
        return total.square() if self.whole else total.square().sum(-1)


class GrowthOperator:
    """Y as a linear map on one neuron's parameters, through the pullback of the quadratic form: p × p is never formed.

    A layer's neurons all obey the same Y, so one neuron says everything; it is set against its own mirror image, (w, −w), so
    that what depends on μ alone cancels and A = Ā − B is left. A composition has several widths and is
    taken whole, around W = 0.

    Args:
        subject: a layer or a composition.
        x: inputs.
        y: targets (n, k).
        cotangent: derivative of the loss by the outputs; the squared loss if left out.
        chunk: how many samples are contracted at a time.
    """

    def __init__(self, subject: Any, x: Any, y: Tensor, cotangent: Cotangent = squared_cotangent, chunk: int = 65536) -> None:
        self.x, self.y = cast({name: t.detach() for name, t in x.items()}, torch.float64), y.detach().double()
        self.subject, self.cotangent, self.chunk = subject, cotangent, chunk
        self.device = y.device
        width = getattr(subject, "width", None)
        self.neurons = None if width is None else min(2, width)
        self.together = 1 if width is None else max(1, min(width // 2, TOGETHER))  # vectors that one gradient takes
        zeros = subject.zeros(torch.float64, self.device)
        # what a vector holds: one neuron's blocks, or every weight
        self.shapes = {name: tuple(block.shape if width is None else block.shape[:-1]) for name, block in zeros.items()}
        self.size = sum(int(np.prod(shape)) for shape in self.shapes.values())
        self._form = quadratic_form(subject, self.x) if len(self.y) <= chunk else None  # kept where it is one chunk
        self._constants: list[dict[str, Tensor]] = []
        self._residuals: list[Tensor | None] = [None] * -(-len(self.y) // chunk)
        self._residuals = [self._residual(form, zeros, y) for form, _, y in self.chunks()]

    def chunks(self) -> Iterator[tuple[Any, Any, Tensor]]:
        """The quadratic form, ∂L/∂f at W = 0 and the targets, chunk by chunk."""
        for i, residual in enumerate(self._residuals):
            where = slice(i * self.chunk, (i + 1) * self.chunk)
            form = self._form or quadratic_form(self.subject, {name: t[where] for name, t in self.x.items()})
            yield form, residual, self.y[where]

    def _residual(self, form: Any, zeros: dict[str, Tensor], y: Tensor) -> Tensor:
        """∂L/∂f at W = 0 on one chunk, of the mean over all samples."""
        with torch.no_grad():
            there = form.evaluate(zeros) if self.neurons is None else self.subject(zeros, form.x)
            return self.cotangent(there, y) * (len(y) / len(self.y))

    def blocks(self, vector: np.ndarray) -> dict[str, Tensor]:
        """A vector by block, without neuron axis for a layer."""
        flat, out, start = torch.from_numpy(np.ascontiguousarray(vector)).to(self.device), {}, 0
        for name, shape in self.shapes.items():
            count = int(np.prod(shape))
            out[name] = flat[start : start + count].reshape(shape)
            start += count
        return out

    def matvec(self, vector: np.ndarray, size: float = PROBE) -> np.ndarray:
        """Y v; ``size`` is that of the weights at which a composition's gradient is read."""
        blocks = self.blocks(np.asarray(vector, dtype=np.float64).reshape(-1))
        if self.neurons is None:
            total = self._difference({name: size * block for name, block in blocks.items()}, size)
        else:
            seen = self._neurons({name: torch.stack([b, -b][: self.neurons], -1) for name, b in blocks.items()})
            total = {name: t[..., 0] for name, t in seen.items()}
        return torch.cat([t.reshape(-1) for t in total.values()]).cpu().numpy()

    def matmat(self, vectors: np.ndarray) -> np.ndarray:
        """Y V for vectors as columns (size, m): a layer has a neuron for each, so that one gradient takes several."""
        if self.neurons != 2:
            return np.stack([self.matvec(v) for v in vectors.T], 1)
        parts = []
        for start in range(0, vectors.shape[1], self.together):
            columns = torch.from_numpy(np.ascontiguousarray(vectors[:, start : start + self.together])).to(self.device)
            sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
            w = {
                name: torch.cat([part, -part], -1).reshape(*shape, -1)
                for (name, shape), part in zip(self.shapes.items(), columns.split(sizes), strict=True)
            }
            total = self._neurons(w)
            parts.append(torch.cat([t.reshape(-1, t.shape[-1]) for t in total.values()]).cpu().numpy())
        return np.concatenate(parts, 1)

    def _difference(self, w: dict[str, Tensor], size: float) -> dict[str, Tensor]:
        """The central difference of the gradient: it drops the constant part, and is exact where the rest is linear."""
        total = {name: torch.zeros_like(block) for name, block in w.items()}
        mirrored = {name: -block for name, block in w.items()}
        for form, residual, _ in self.chunks():
            for sign, at in ((-1, w), (1, mirrored)):
                for name, part in form.pullback(at, residual).items():
                    total[name].add_(part, alpha=sign / (2 * size))
        return total

    def _neurons(self, w: dict[str, Tensor]) -> dict[str, Tensor]:
        """Minus the gradient of a layer's form less its constant part, which is read once: what is left is linear in w.

        Of neurons (w₁, …, −w₁, …) what is odd, the first half; of a single neuron all of it.
        """
        total = {name: torch.zeros_like(block) for name, block in w.items()}
        for i, (form, residual, _) in enumerate(self.chunks()):
            if i == len(self._constants):
                at = {name: torch.zeros_like(block[..., : self.neurons]) for name, block in w.items()}
                self._constants.append(form.pullback(at, residual))
            for name, part in form.pullback(w, residual).items():
                total[name].add_(part - self._constants[i][name][..., :1], alpha=-1)
        if self.neurons == 1:
            return total
        return {name: (one - other) / 2 for name, t in total.items() for one, other in [t.chunk(2, -1)]}

    def quadratic(self, vector: np.ndarray, rate: float) -> bool:
        """Whether a rate is one: whether the gradient along its mode doubles where the weights do.

        Along a chain of layers the loss starts with a higher power of W, and its quotients at any size are no rates.
        """
        return abs(float(vector @ self.matvec(vector, 2 * PROBE)) - rate) <= 0.1 * abs(rate)


def growth_rates(
    layer: Any, data: Any, k: int = 1, cotangent: Cotangent = squared_cotangent, tolerance: float = 0.0, chunk: int = 65536
) -> GrowthRates:
    """The k largest eigenvalues of Y = (4/m) Σ (y − f(0)) A(x) and their modes, in float64.

    Args:
        layer: a layer or a composition.
        data: anything with training inputs ``x`` and targets ``y``.
        k: how many.
        cotangent: derivative of the mean loss by the outputs, for another loss than the squared one.
        tolerance: relative accuracy of the eigenvalues; 0 is machine precision.
        chunk: how many samples are contracted at a time.

    Returns:
        Rates and modes. A rate is 0 where the gradient along its mode is not linear in small weights, as in a chain of layers.

    Raises:
        InvalidInput: k is no positive number.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("phase-retrieval", size=2)
        >>> data = nqf.Data({"a": torch.tensor([[1.0, 0.0], [0.0, 2.0]])}, torch.tensor([[1.0], [0.5]]))
        >>> nqf.growth_rates(layer, data, k=2).rates  # (4/2) (1 · diag(1, 0) + 0.5 · diag(0, 4))
        tensor([4., 2.], dtype=torch.float64)
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise InvalidInput(f"k must be a positive number of modes, got {k!r}.")
    operator = GrowthOperator(layer, data.x, data.y, cotangent, chunk)
    values, vectors = top_eigenpairs(operator.matvec, operator.size, int(k), tolerance)
    rates = [float(v) if operator.quadratic(vectors[:, i], float(v)) else 0.0 for i, v in enumerate(values)]
    parts = [operator.blocks(vectors[:, i]) for i in range(vectors.shape[1])]
    return GrowthRates(
        torch.tensor(rates, dtype=torch.float64),
        {name: torch.stack([p[name] for p in parts]) for name in operator.shapes},
        operator.neurons is None,
    )


def half_saturation(values: Any, final: Any = None) -> np.ndarray:
    """The first record at which an order parameter has reached half of what it ends at.

    Args:
        values: (..., records), such as ``run.data["top-mode"]`` of one model.
        final: what counts as the end, (...,); the last record if left out.

    Returns:
        Indices (...,); −1 where half is never reached.

    Example:
        >>> int(half_saturation([0.0, 0.1, 0.4, 0.6, 1.0]))
        3
    """
    z = np.asarray(values, dtype=np.float64)
    end = z[..., -1] if final is None else np.asarray(final, dtype=np.float64)
    reached = z >= end[..., None] / 2
    return np.where(reached.any(-1), reached.argmax(-1), -1)
