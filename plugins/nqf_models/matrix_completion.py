"""One entry of a low-rank matrix, R_ij = u_i · v_j."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class MatrixCompletion(nqf.Layer):
    r"""f(W) = Σ_r u_ir v_jr, entry (i, j) of U Vᵀ; a neuron is one latent dimension, a column of U with one of V.

    A(i, j) = ½ [[0, e_i e_jᵀ], [e_j e_iᵀ, 0]]. The inputs are integers and pick rows; no one-hot vector is formed.

    Args:
        rows: rows of the matrix.
        columns: columns of the matrix.
        width: d, the rank.
    """

    key = "matrix-completion"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Matrix completion"
    formula = r"\hat R_{ij}(W)=u_i^\top v_j"
    structure_formula = r"A_{ij}=\frac{1}{2}\begin{bmatrix}0&e_ie_j^\top\\e_je_i^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "Y. Koren, R. Bell, C. Volinsky",
            "Matrix factorization techniques for recommender systems",
            2009,
            "Computer 42 (8), 30–37",
            doi="10.1109/MC.2009.263",
        ),
        nqf.Reference(
            "R. Ge, J. D. Lee, T. Ma",
            "Matrix completion has no spurious local minimum",
            2016,
            "Advances in Neural Information Processing Systems 29",
            arxiv="1605.07272",
        ),
    )
    convention = (
        "u_i and v_j are rows of U (rows, d) and V (columns, d); the neurons are their columns. Indices count from zero."
    )
    notes = (
        "Two samples share a coupling only if they share a row or a column, so the observed entries form the graph that "
        "training sees."
    )

    rows: int = 6
    columns: int = 5
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """One latent dimension: its weight u on every row and v on every column."""
        return {"u": (self.rows,), "v": (self.columns,)}

    def sample(self, n, generator):
        """Entries drawn uniformly: row i (n,) and column j (n,), integers."""
        return {
            "i": torch.randint(self.rows, (n,), generator=generator),
            "j": torch.randint(self.columns, (n,), generator=generator),
        }

    def forward(self, W, x):
        """u_i · v_j, (n, 1)."""
        return (W["u"].index_select(0, x["i"]) * W["v"].index_select(0, x["j"])).sum(-1, keepdim=True)

    def structure(self, x):
        """½ off(e_i e_jᵀ), by rows."""
        return nqf.quadratic("n,n->n", nqf.rows("u", x["i"]), nqf.rows("v", x["j"]))

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``matrix-completion``."""
    register(MatrixCompletion)
