"""A gradient that is a product of two matrices, added to where it is wanted without being formed.

Under full-batch squared loss the gradient of a quadratic form by a block is K V with a small K. What a rule does with a
gradient is to add multiples of it to something, which one fused matrix product does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Product:
    r"""The gradient left · right of a block (R, \*shape, d).

    Attributes:
        left: (b, rows, m).
        right: (b, m, d).
        shape: of the block; its leading axes multiply to b · rows.
    """

    left: Tensor
    right: Tensor
    shape: torch.Size

    def formed(self) -> Tensor:
        """The gradient as a tensor."""
        return torch.bmm(self.left, self.right).view(self.shape)

    def add_to(self, target: Tensor, alpha: float, beta: float = 1.0) -> None:
        """Target ← beta · target + alpha · gradient, in place."""
        left = self.left
        if len(left) == 1:  # a plain product is quicker than a batch of one
            target.view(left.shape[1], -1).addmm_(left[0], self.right[0], beta=beta, alpha=alpha)
        else:
            target.view(len(left), left.shape[1], -1).baddbmm_(left, self.right, beta=beta, alpha=alpha)

    def scaled(self, factors: Tensor) -> Product:
        """The gradient with one factor a replica, (R,)."""
        each = factors.repeat_interleave(len(self.left) // len(factors))
        return Product(self.left * each[:, None, None], self.right, self.shape)


Gradient = Mapping[str, Tensor | Product]


def formed(gradient: Tensor | Product) -> Tensor:
    """A gradient as a tensor."""
    return gradient if isinstance(gradient, Tensor) else gradient.formed()
