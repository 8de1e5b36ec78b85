"""Sensing a positive semidefinite matrix through linear measurements, f(W) = ⟨S, W Wᵀ⟩."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class PSDMatrixSensing(nqf.Layer):
    r"""f(W) = ⟨S, W Wᵀ⟩, a neuron being one column w of the factor.

    A(S) = (S + Sᵀ) / 2.

    Args:
        size: rows and columns of the measured matrix W Wᵀ.
        width: d, the number of columns of W: the largest rank it can have.
    """

    key = "psd-matrix-sensing"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "PSD matrix sensing"
    formula = r"\hat y_S(W)=\langle S, WW^\top\rangle"
    structure_formula = r"A(S)=\frac{S+S^\top}{2}"
    references = (
        nqf.Reference(
            "D. Stöger, M. Soltanolkotabi",
            "Small random initialization is akin to spectral learning: optimization and generalization guarantees for "
            "overparameterized low-rank matrix reconstruction",
            2021,
            "Advances in Neural Information Processing Systems 34, 23831–23843",
        ),
        nqf.Reference(
            "S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro",
            "Implicit regularization in matrix factorization",
            2017,
            "Advances in Neural Information Processing Systems 30, 6151–6159",
            arxiv="1705.09280",
        ),
        nqf.Reference(
            "Y. Xu, A. Maillard, L. Zdeborová, F. Krzakala",
            "Fundamental limits of matrix sensing: exact asymptotics, universality, and applications",
            2025,
            "Conference on Learning Theory, PMLR 291, 5757–5823",
            arxiv="2503.14121",
        ),
    )
    convention = "The measurement S is an input and need not be symmetric; only its symmetric part is seen. No factor 1/size."
    notes = "With S = a aᵀ this is phase retrieval."

    size: int = 5
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """One column w of the factor."""
        return {"w": (self.size,)}

    def sample(self, n, generator):
        """Standard normal measurements S (n, size, size), not symmetric."""
        return {"S": torch.randn(n, self.size, self.size, generator=generator)}

    def forward(self, W, x):
        """⟨S, W Wᵀ⟩ through W Wᵀ, (n, 1)."""
        return x["S"].flatten(1) @ (W["w"] @ W["w"].mT).reshape(-1, 1)

    def structure(self, x):
        """The symmetric part of S."""
        return nqf.quadratic("a,nab,b->n", "w", x["S"], "w")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``psd-matrix-sensing``."""
    register(PSDMatrixSensing)
