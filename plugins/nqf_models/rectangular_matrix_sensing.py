"""Sensing a rectangular matrix through linear measurements, f(W) = ⟨S, U Vᵀ⟩."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class RectangularMatrixSensing(nqf.Layer):
    r"""f(W) = ⟨S, U Vᵀ⟩ = Tr(Uᵀ S V), a neuron being a column of U with the same column of V.

    A(S) = ½ [[0, S], [Sᵀ, 0]].

    Args:
        rows: rows of the measured matrix U Vᵀ.
        columns: columns of the measured matrix.
        width: d, the number of columns of U and V: the largest rank it can have.
    """

    key = "rectangular-matrix-sensing"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Rectangular matrix sensing"
    formula = r"\hat y_S(W)=\langle S, UV^\top\rangle"
    structure_formula = r"A(S)=\frac{1}{2}\begin{bmatrix}0&S\\S^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro",
            "Implicit regularization in matrix factorization",
            2017,
            "Advances in Neural Information Processing Systems 30, 6151–6159",
            arxiv="1705.09280",
        ),
        nqf.Reference(
            "S. Arora, N. Cohen, W. Hu, Y. Luo",
            "Implicit regularization in deep matrix factorization",
            2019,
            "Advances in Neural Information Processing Systems 32",
            arxiv="1905.13655",
        ),
        nqf.Reference(
            "Y. Xu, A. Maillard, L. Zdeborová, F. Krzakala",
            "Fundamental limits of matrix sensing: exact asymptotics, universality, and applications",
            2025,
            "Conference on Learning Theory, PMLR 291, 5757–5823",
            arxiv="2503.14121",
        ),
    )
    convention = (
        "w_r = (u_r, v_r), the r-th columns of U (rows, d) and V (columns, d); the measurement S is an input. No factor 1/size."
    )
    notes = "With S = e_i e_jᵀ this is matrix completion, with S = x_s x_tᵀ bilinear sequence regression."

    rows: int = 5
    columns: int = 4
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """A column u of the left factor and a column v of the right one."""
        return {"u": (self.rows,), "v": (self.columns,)}

    def sample(self, n, generator):
        """Standard normal measurements S (n, rows, columns)."""
        return {"S": torch.randn(n, self.rows, self.columns, generator=generator)}

    def forward(self, W, x):
        """⟨S, U Vᵀ⟩ through U Vᵀ, (n, 1)."""
        return x["S"].flatten(1) @ (W["u"] @ W["v"].mT).reshape(-1, 1)

    def structure(self, x):
        """½ off(S)."""
        return nqf.quadratic("a,nab,b->n", "u", x["S"], "v")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``rectangular-matrix-sensing``."""
    register(RectangularMatrixSensing)
