"""The modes of small weights in the coordinates of the order parameters, component by component, folded axes folded.

Near W = 0 gradient flow is Ẇ = Y W with Y = −2 Σ ℓ′ A. Where an axis is folded, every mode of Y comes once for each of its
indices, and M̄ sums over them; here each is one mode.

Source: arXiv 2608.13335, section 4 and Theorem 7 for the role of Y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry.dynamics.general_form import GeneralForm
from nqf_registry.dynamics.order_parameters import ClosedSet
from nqf_registry.errors import InvalidInput

LARGEST = 2048  # rows of a component's Y, which is formed


@dataclass(frozen=True, eq=False)
class Modes:
    """The fastest modes of all components together.

    Attributes:
        rates: growth rates of W, descending, (k,).
        components: the position of each mode's component.
        batches: the index of each mode within the component's batch.
        vectors: the mode in its component's coordinates, (p,) each.
        features: φ(x) = eᵀ A(x) e of each mode, (k, n, outputs).
    """

    rates: Tensor
    components: list[int]
    batches: list[int]
    vectors: list[Tensor]
    features: Tensor

    def order_parameters(self, moments: list[Tensor]) -> Tensor:
        """The z = eᵀ M e of every mode, from M by component (R, batch, p, p): (R, k)."""
        parts = zip(self.components, self.batches, self.vectors, strict=True)
        return torch.stack(
            [torch.einsum("p,rpq,q->r", e.to(moments[c].dtype), moments[c][:, b], e.to(moments[c].dtype)) for c, b, e in parts],
            -1,
        )


def modes(
    chosen: ClosedSet, form: GeneralForm, cotangent: Callable[[Tensor], Tensor], count: int, device: torch.device | str = "cpu"
) -> Modes:
    """The ``count`` fastest modes of a reduced form, in float64.

    Args:
        chosen: the closed set.
        form: the form at the samples, in float64.
        cotangent: derivative of the loss by the outputs (1, n, k).
        count: how many; fewer where there are fewer.
        device: of the samples.

    Raises:
        InvalidInput: a component is too large for its Y to be formed.
    """
    found: list[tuple[float, int, int, Tensor]] = []
    zeros = {name: torch.zeros(1, *shape, 1, dtype=torch.float64, device=device) for name, shape in chosen.shapes.items()}
    residual = cotangent(form.evaluate(zeros))
    for position, part in enumerate(chosen.parts):
        batch, p = chosen.size(position)
        if p > LARGEST:
            raise InvalidInput(f"the modes of {' and '.join(part.blocks)} need a {p} × {p} matrix; the limit is {LARGEST}.")
        unit = chosen.unit(position, torch.eye(p, dtype=torch.float64, device=device).expand(batch, p, p))
        Y = -chosen.stacked(form.structure.pullback(unit, residual))[part.blocks][0]  # (batch, p, p): −2 Σ ℓ′ A
        values, vectors = torch.linalg.eigh((Y + Y.mT) / 2)
        for b in range(batch):
            for i in range(max(0, p - count), p):
                found.append((float(values[b, i]), position, b, vectors[b, :, i]))
    found = sorted(found, key=lambda mode: -mode[0])[:count]
    features = []
    for _, position, b, e in found:
        vector = torch.zeros(*chosen.size(position), 1, dtype=torch.float64, device=device)
        vector[b, :, 0] = e
        features.append(form.structure.evaluate(chosen.unit(position, vector))[0])
    return Modes(
        torch.tensor([rate for rate, *_ in found], dtype=torch.float64),
        [position for _, position, _, _ in found],
        [b for _, _, b, _ in found],
        [e for *_, e in found],
        torch.stack(features),
    )
