"""The quadratic form that the dynamics use, f(0) + g·μ + μᵀBμ + Tr[M A] with A = Ā − B, on whatever stands for W.

Source: arXiv 2608.13335, appendix B.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from nqf_registry.couplings import Weights
from nqf_registry.quadratic_form import linear_pullback, with_linear
from nqf_registry.structure import Structure


@dataclass(frozen=True, eq=False)
class GeneralForm:
    r"""A quadratic form of a layer, taken at fewer neurons than the layer has.

    Attributes:
        structure: A = Ā − B, unbound: the neurons of its blocks may differ in number.
        offset: f(0) of the layer at its own width.
        linear: g by block, (n, k, \*shape).
        cross: B, None under ZGZ.
        root: what the first neuron is multiplied by to be μ; None where μ is the sum over the neurons.
    """

    structure: Structure
    offset: Tensor | float
    linear: Mapping[str, Tensor]
    cross: Structure | None
    root: float | None = None

    derived = False  # never by autodiff

    def evaluate(self, W: Weights) -> Tensor:
        """Outputs, (R, n, k)."""
        value = self.structure.evaluate(W)
        value = value + (self.offset.to(value.dtype) if isinstance(self.offset, Tensor) else self.offset)
        mu = self._mu(W)
        value = with_linear(value, self.linear, mu)
        return value if self.cross is None else value + self.cross.evaluate(mu)

    def pullback(self, W: Weights, cotangent: Tensor) -> dict[str, Tensor]:
        """The gradient by W of Σ cotangent · outputs."""
        total = self.structure.pullback(W, cotangent)
        for name, part in linear_pullback(self.linear, cotangent).items():
            self._add(total[name], part)
        if self.cross is not None:
            for name, part in self.cross.pullback(self._mu(W), cotangent).items():
                self._add(total[name], part)
        return total

    def _mu(self, W: Weights) -> dict[str, Tensor]:
        """μ by block as one neuron, (R, *shape, 1)."""
        if not self.linear and self.cross is None:
            return {}
        root = self.root
        return {n: block.sum(-1, keepdim=True) if root is None else root * block[..., :1] for n, block in W.items()}

    def _add(self, total: Tensor, part: Tensor) -> None:
        """Adds a gradient by μ, (R, *shape, 1), to the one by W."""
        if self.root is None:
            total += part
        else:
            total[..., :1] += self.root * part
