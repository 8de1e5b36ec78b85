"""Attention heads that train queries and keys only; values and readout are one fixed vector per output."""

from dataclasses import dataclass
from math import sqrt

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class QueryKeyAttention(nqf.Layer):
    r"""f(W) = Σ_i cᵀ X softmax(Xᵀ K_iᵀ Q_i x / √d_k), a neuron being one head.

    A(x, X) couples Q to K, 1/(2 √d_k) x uᵀ ⊗ I, with u = Σ_X c and Σ_X = X Xᵀ / N − x_avg x_avgᵀ the covariance of the
    tokens; f(0) = d c · x_avg.

    Args:
        dim: D, size of a token.
        tokens: N, number of tokens in the context.
        d_k: rows of K_i and Q_i.
        n_out: number of outputs, each with its own fixed c.
        width: d, the number of heads.
        readout_seed: seed of the fixed readout.
    """

    key = "query-key-attention"
    claims = nqf.Claims(sign_symmetric=True)
    title = "Query-key attention"
    formula = r"f_x(W)=\sum_{i=1}^{d} c^\top X\,\mathrm{softmax}\!\left(\frac{X^\top K_i^\top Q_i x}{\sqrt{d_k}}\right)"
    structure_formula = (
        r"A(X)=\frac{1}{2\sqrt{d_k}}\begin{bmatrix}0&xu^\top\otimes I_{d_k}\\ux^\top\otimes I_{d_k}&0\end{bmatrix},"
        r"\quad u=\Sigma_X c"
    )
    references = (
        nqf.Reference(
            "D. Ataee Tarzanagh, Y. Li, X. Zhang, S. Oymak",
            "Max-margin token selection in attention mechanism",
            2023,
            "Advances in Neural Information Processing Systems 36, 48314–48362",
        ),
        nqf.Reference(
            "X. Pan, A. Philip, Z. Xie, O. Schwartz",
            "Dissecting query-key interaction in vision transformers",
            2024,
            "Advances in Neural Information Processing Systems 37",
            arxiv="2405.14880",
        ),
        nqf.Reference(
            "R. Maulen Soto, P. Marion, C. Boyer",
            "Attention-based clustering",
            2025,
            "Advances in Neural Information Processing Systems 38, 66455–66506",
        ),
    )
    convention = (
        "Tokens are rows of the input X (n, tokens, dim), columns in the formula. The readout c, (dim, n_out), belongs to "
        "the layer and is not trained: independent normal numbers of standard deviation 1/√dim, fixed by readout_seed. x uᵀ "
        "⊗ I holds for column-major vec(Q) and vec(K); stacked row-major it is I ⊗ x uᵀ. Encoding a feature table of tokens "
        "· dim numbers cuts it into tokens, and the query is their mean."
    )
    notes = (
        "f(0) = d c · x_avg is not zero, so a regression starts from it. Q and K flip sign together, hence a remainder of "
        "order ε⁴."
    )

    dim: int = 4
    tokens: int = 5
    d_k: int = 2
    n_out: int = 2
    width: int = 4
    readout_seed: int = 0

    def __post_init__(self):
        nqf.require_positive(self, "dim", "tokens", "d_k", "n_out", "width")
        if not isinstance(self.readout_seed, int) or self.readout_seed < 0:
            raise nqf.InvalidInput(f"readout_seed must be an integer from 0 up, got {self.readout_seed!r}.")

    def blocks(self):
        """Query and key matrices of one head."""
        return {"Q": (self.d_k, self.dim), "K": (self.d_k, self.dim)}

    def sample(self, n, generator):
        """Standard normal context X (n, tokens, dim) and query x (n, dim)."""
        return {
            "X": torch.randn(n, self.tokens, self.dim, generator=generator),
            "x": torch.randn(n, self.dim, generator=generator),
        }

    def readout(self, like):
        """The fixed c, (dim, n_out), with the dtype and on the device of a tensor."""
        return nqf.fixed_normal(self.readout_seed, (self.dim, self.n_out), 1 / sqrt(self.dim), like)

    def forward(self, W, x):
        """All heads and samples at once, (n, n_out); keys of single tokens are never formed."""
        Q, K = W["Q"].movedim(-1, 0), W["K"].movedim(-1, 0)  # head axis first
        folded = x["x"] @ Q.mT @ K / sqrt(self.d_k)  # K_iᵀ Q_i x / √d_k, (d, n, dim)
        weights = torch.softmax(x["X"] @ folded.permute(1, 2, 0), 1).sum(-1)  # (n, tokens): all heads read the same values
        return (x["X"].mT @ weights[..., None])[..., 0] @ self.readout(x["X"])

    def structure(self, x):
        """1/(2 √d_k) x uᵀ ⊗ I on Q and K, with u = Σ_X c for each output."""
        centred = x["X"] - x["X"].mean(1, keepdim=True)
        u = centred.mT @ (centred @ self.readout(x["X"])) / self.tokens  # (n, dim, n_out)
        return nqf.quadratic("ka,na,nbo,kb->no", "Q", x["x"], u, "K", scale=1 / sqrt(self.d_k))

    def offset(self, x):
        """f(0) = d c · x_avg, (n, n_out)."""
        return self.width * x["X"].mean(1) @ self.readout(x["X"])

    def encode(self, features):
        """A table (n, tokens · dim) as tokens, with their mean as the query.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        X = nqf.as_tokens(self, features, self.tokens, self.dim)
        return {"X": X, "x": X.mean(1)}


@nqf.hookimpl
def nqf_register(register):
    """Registers ``query-key-attention``."""
    register(QueryKeyAttention)
