"""Bilinear regression on two tokens of a sequence, f(W) = x_sᵀ U Vᵀ x_t."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class BilinearSequenceRegression(nqf.Layer):
    r"""f(W) = x_sᵀ U Vᵀ x_t, a neuron being a column of U with the same column of V.

    A(x_s, x_t) = ½ [[0, x_s x_tᵀ], [x_t x_sᵀ, 0]].

    Args:
        dim: D, size of a token.
        width: d, the number of columns of U and V: the largest rank of the bilinear form.
    """

    key = "bilinear-sequence-regression"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Bilinear sequence regression"
    formula = r"f_{s,t}(W)=x_s^\top UV^\top x_t"
    structure_formula = r"A_{s,t}=\frac{1}{2}\begin{bmatrix}0&x_sx_t^\top\\x_tx_s^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "N. Srebro, J. Rennie, T. Jaakkola",
            "Maximum-margin matrix factorization",
            2004,
            "Advances in Neural Information Processing Systems 17",
        ),
        nqf.Reference(
            "S. Gunasekar, B. Woodworth, S. Bhojanapalli, B. Neyshabur, N. Srebro",
            "Implicit regularization in matrix factorization",
            2017,
            "Advances in Neural Information Processing Systems 30, 6151–6159",
            arxiv="1705.09280",
        ),
        nqf.Reference(
            "V. Erba, E. Troiani, L. Biggio, A. Maillard, L. Zdeborová",
            "Bilinear sequence regression: a model for learning from long sequences of high-dimensional tokens",
            2025,
            "Physical Review X 15 (2), 021092",
        ),
    )
    convention = (
        "x_s and x_t are the tokens at positions s and t of a sequence; which positions those are is left to whoever "
        "prepares the data, and the two tokens are two inputs. B = U Vᵀ. A feature table of 2 · dim numbers is read as x_s, "
        "then x_t."
    )
    notes = "Rectangular matrix sensing whose measurements have rank one."

    dim: int = 5
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """A column u of the left factor and a column v of the right one."""
        return {"u": (self.dim,), "v": (self.dim,)}

    def sample(self, n, generator):
        """Standard normal tokens x_s (n, dim) and x_t (n, dim)."""
        return {"x_s": torch.randn(n, self.dim, generator=generator), "x_t": torch.randn(n, self.dim, generator=generator)}

    def forward(self, W, x):
        """Σ_r (u_r · x_s)(v_r · x_t), (n, 1)."""
        return ((x["x_s"] @ W["u"]) * (x["x_t"] @ W["v"])).sum(-1, keepdim=True)

    def structure(self, x):
        """½ off(x_s x_tᵀ)."""
        return nqf.quadratic("a,na,nb,b->n", "u", x["x_s"], x["x_t"], "v")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0

    def encode(self, features):
        """A table (n, 2 · dim): x_s, then x_t.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        if features.shape[1] != 2 * self.dim:
            raise nqf.InvalidInput(
                f"{self.key} reads 2 · dim = {2 * self.dim} features as two tokens; the data has {features.shape[1]}. "
                "Set dim to half of that."
            )
        return {"x_s": features[:, : self.dim], "x_t": features[:, self.dim :]}


@nqf.hookimpl
def nqf_register(register):
    """Registers ``bilinear-sequence-regression``."""
    register(BilinearSequenceRegression)
