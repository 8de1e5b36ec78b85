"""The diagonal linear network with squared weights, f(u) = ¼ Σ_k x_k u_k²."""

from dataclasses import dataclass, field

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class DiagonalLinearSquare(nqf.Layer):
    r"""f(u) = ¼ Σ_k x_k u_k². There is one neuron, the whole vector u, so its width is 1.

    A(x) = ¼ Diag(x).

    Args:
        n_in: number of inputs.
    """

    key = "diagonal-linear-square"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Diagonal linear network, square"
    formula = r"f_x(u)=\frac{1}{4}\sum_k x_k u_k^2"
    structure_formula = r"A(x)=\frac{1}{4}\,\mathrm{Diag}(x)"
    references = (
        nqf.Reference(
            "R. Berthier",
            "Incremental learning in diagonal linear networks",
            2023,
            "Journal of Machine Learning Research 24 (171), 1–26",
        ),
        nqf.Reference(
            "S. Pesme, L. Pillaud-Vivien, N. Flammarion",
            "Implicit bias of SGD for diagonal linear networks: a provable benefit of stochasticity",
            2021,
            "Advances in Neural Information Processing Systems 34, 29218–29230",
        ),
    )
    convention = "The effective linear weight of x_k is u_k² / 4, so it is never negative."
    notes = "Every sample's A(x) is diagonal, so all samples commute and the modes are the coordinates."

    n_in: int = 8
    width: int = field(default=1, init=False)

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """The weights u."""
        return {"u": (self.n_in,)}

    def sample(self, n, generator):
        """Standard normal inputs x (n, n_in)."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        """¼ Σ_k x_k u_k², (n, 1)."""
        return x["x"] @ W["u"].square().sum(-1, keepdim=True) / 4

    def structure(self, x):
        """¼ Diag(x)."""
        return nqf.quadratic("k,nk,k->n", "u", x["x"], "u", scale=0.25)

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``diagonal-linear-square``."""
    register(DiagonalLinearSquare)
