"""Multi-head attention of one query token over a context, with a linear readout of every head."""

from dataclasses import dataclass
from math import sqrt

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class MultiHeadAttention(nqf.Layer):
    r"""f(W) = Σ_i v_iᵀ V_i X softmax(Xᵀ K_iᵀ Q_i x / √d_k), a neuron being one head.

    A(x) couples V to v only, ½ x_avg ⊗ I with x_avg the mean token: at quadratic order a head averages its context, and its
    queries and keys are inert (they enter at order four).

    Args:
        dim: D, size of a token.
        tokens: N, number of tokens in the context.
        d_k: rows of K_i and Q_i.
        d_v: rows of V_i.
        n_out: number of outputs, v_i ∈ R^(d_v × n_out).
        width: d, the number of heads.
    """

    key = "multi-head-attention"
    claims = nqf.Claims(sign_symmetric=True)
    title = "Multi-head attention"
    formula = r"f_x(W)=\sum_{i=1}^{d} v_i^\top V_i X\,\mathrm{softmax}\!\left(\frac{X^\top K_i^\top Q_i x}{\sqrt{d_k}}\right)"
    structure_formula = (
        r"A(X)=\frac{1}{2}\begin{bmatrix}0&0&0\\0&0&x_{\mathrm{avg}}\otimes I_{d_v}\\"
        r"0&x_{\mathrm{avg}}^\top\otimes I_{d_v}&0\end{bmatrix}\ \text{on}\ ((K,Q),V,v)"
    )
    references = (
        nqf.Reference(
            "A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser, I. Polosukhin",
            "Attention is all you need",
            2017,
            "Advances in Neural Information Processing Systems 30",
            arxiv="1706.03762",
        ),
    )
    convention = (
        "Tokens are rows of the input X (n, tokens, dim), columns in the formula. x_avg ⊗ I holds for column-major vec(V); "
        "stacked row-major it is I ⊗ x_avg. Encoding a feature table of tokens · dim numbers cuts it into tokens (the rows "
        "of a square image when tokens = dim), and the query is their mean."
    )
    notes = (
        "K and Q flip sign together, and so do V and v, hence sign symmetry and a remainder of order ε⁴. With a single token "
        "the softmax is constant: the layer is its quadratic form, and the rows of V, not the heads, are its smallest units."
    )

    dim: int = 4
    tokens: int = 5
    d_k: int = 2
    d_v: int = 2
    n_out: int = 2
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """Key, query and value matrices of one head, and its readout v."""
        return {"K": (self.d_k, self.dim), "Q": (self.d_k, self.dim), "V": (self.d_v, self.dim), "v": (self.d_v, self.n_out)}

    def sample(self, n, generator):
        """Standard normal context X (n, tokens, dim) and query x (n, dim)."""
        return {
            "X": torch.randn(n, self.tokens, self.dim, generator=generator),
            "x": torch.randn(n, self.dim, generator=generator),
        }

    def forward(self, W, x):
        """All heads and samples at once, (n, n_out).

        Queries are folded into the keys and values are applied to the averaged context, so that keys and values of single
        tokens, (n, tokens, d_k or d_v, d), are never formed.
        """
        K, Q, V, v = (W[name].movedim(-1, 0) for name in ("K", "Q", "V", "v"))  # head axis first
        folded = x["x"] @ Q.mT @ K / sqrt(self.d_k)  # K_iᵀ Q_i x / √d_k, (d, n, dim)
        weights = torch.softmax(x["X"] @ folded.permute(1, 2, 0), 1)  # (n, tokens, d)
        mean = (x["X"].mT @ weights).permute(2, 0, 1)  # (d, n, dim)
        return (mean @ V.mT @ v).sum(0)

    def structure(self, x):
        """½ x_avg ⊗ I on V and v."""
        return nqf.quadratic("ad,nd,ao->no", "V", x["X"].mean(1), "v")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0

    def encode(self, features):
        """A table (n, tokens · dim) as tokens, with their mean as the query.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        X = nqf.as_tokens(self, features, self.tokens, self.dim)
        return {"X": X, "x": X.mean(1)}


@nqf.hookimpl
def nqf_register(register):
    """Registers ``multi-head-attention``."""
    register(MultiHeadAttention)
