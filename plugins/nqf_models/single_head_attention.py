"""A single attention head whose neurons are the rows of its query and key projections."""

from dataclasses import dataclass
from math import sqrt

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class SingleHeadAttention(nqf.Layer):
    r"""f(W) = cᵀ X softmax(Xᵀ Σ_i k_i (q_i · x) / √d_k), a neuron being one of the d_k projection rows, (q_i, k_i).

    The neurons meet inside the softmax, so f is no sum over them, yet it does not change when they are permuted.
    A(x, X) = 1/(2 √d_k) [[0, x uᵀ], [u xᵀ, 0]], with u = Σ_X c and Σ_X = X Xᵀ / N − x_avg x_avgᵀ; f(0) = c · x_avg.

    Args:
        dim: D, size of a token.
        tokens: N, number of tokens in the context.
        n_out: number of outputs, each with its own fixed c.
        width: d = d_k, the number of rows of the projections.
        readout_seed: seed of the fixed readout.
    """

    key = "single-head-attention"
    claims = nqf.Claims(sign_symmetric=True)
    title = "Single-head attention"
    formula = r"f_x(W)=c^\top X\,\mathrm{softmax}\!\left(\frac{X^\top W_K^\top W_Q x}{\sqrt{d_k}}\right)"
    structure_formula = r"A(X)=\frac{1}{2\sqrt{d_k}}\begin{bmatrix}0&xu^\top\\ux^\top&0\end{bmatrix},\quad u=\Sigma_X c"
    references = (
        nqf.Reference(
            "L. Ziyin, Y. Xu, T. Poggio, I. Chuang",
            "Neural quadratic forms: a unified minimal model for sudden learning and scaling laws",
            2026,
            arxiv="2608.13335",
        ),
        nqf.Reference(
            "F. Boncoraglio, V. Erba, E. Troiani, Y. Xu, F. Krzakala, L. Zdeborová",
            "Single-head attention in high dimensions: a theory of generalization, weights spectra, and scaling laws",
            2026,
            "International Conference on Machine Learning",
            arxiv="2509.24914",
        ),
        nqf.Reference(
            "A. Vaswani, N. Shazeer, N. Parmar, J. Uszkoreit, L. Jones, A. N. Gomez, Ł. Kaiser, I. Polosukhin",
            "Attention is all you need",
            2017,
            "Advances in Neural Information Processing Systems 30",
            arxiv="1706.03762",
        ),
    )
    convention = (
        "The neurons are the rows of W_Q and W_K (d_k, D), stored as columns of q and k. The width is d_k, and A carries "
        "1/√width. Tokens are rows of the input X (n, tokens, dim), columns in the formula. The readout c, (dim, n_out), "
        "belongs to the layer and is not trained: independent normal numbers of standard deviation 1/√dim, fixed by "
        "readout_seed. Encoding a feature table of tokens · dim numbers cuts it into tokens, and the query is their mean."
    )
    notes = (
        "A(x) changes with the width. A model compressed to fewer neurons keeps the A of the original width. q_i and k_i "
        "flip sign together, hence sign symmetry and a remainder of order ε⁴."
    )

    dim: int = 5
    tokens: int = 6
    n_out: int = 2
    width: int = 4
    readout_seed: int = 0

    def __post_init__(self):
        nqf.require_positive(self, "dim", "tokens", "n_out", "width")
        if not isinstance(self.readout_seed, int) or self.readout_seed < 0:
            raise nqf.InvalidInput(f"readout_seed must be an integer from 0 up, got {self.readout_seed!r}.")

    def blocks(self):
        """One row q of the query projection and one row k of the key projection."""
        return {"q": (self.dim,), "k": (self.dim,)}

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
        """All samples at once, (n, n_out); keys of single tokens are never formed."""
        folded = (x["x"] @ W["q"]) @ W["k"].mT / sqrt(self.width)  # W_Kᵀ W_Q x / √d_k, (n, dim)
        weights = torch.softmax(x["X"] @ folded[..., None], 1)  # (n, tokens, 1)
        return (x["X"].mT @ weights)[..., 0] @ self.readout(x["X"])

    def structure(self, x):
        """1/(2 √d_k) off(x uᵀ) with u = Σ_X c for each output."""
        centred = x["X"] - x["X"].mean(1, keepdim=True)
        u = centred.mT @ (centred @ self.readout(x["X"])) / self.tokens  # (n, dim, n_out)
        return nqf.quadratic("a,na,nbo,b->no", "q", x["x"], u, "k", scale=1 / sqrt(self.width))

    def offset(self, x):
        """f(0) = c · x_avg, (n, n_out)."""
        return x["X"].mean(1) @ self.readout(x["X"])

    def encode(self, features):
        """A table (n, tokens · dim) as tokens, with their mean as the query.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        X = nqf.as_tokens(self, features, self.tokens, self.dim)
        return {"X": X, "x": X.mean(1)}


@nqf.hookimpl
def nqf_register(register):
    """Registers ``single-head-attention``."""
    register(SingleHeadAttention)
