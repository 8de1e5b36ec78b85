"""Attention heads that train queries and keys only; values and readout are one fixed vector per output."""

import dataclasses
from dataclasses import dataclass
from math import sqrt

import torch

import nqf_registry as nqf

QUERIES = ("one", "all")


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
        queries: "one" is the input x; "all" asks with every token of X in turn and averages, and there is no input x. The
            quadratic form then has the mean of the tokens in place of x.
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
    queries: str = "one"

    def __post_init__(self):
        nqf.require_positive(self, "dim", "tokens", "d_k", "n_out", "width")
        nqf.require_choice(self, "queries", QUERIES)
        if not isinstance(self.readout_seed, int) or self.readout_seed < 0:
            raise nqf.InvalidInput(f"readout_seed must be an integer from 0 up, got {self.readout_seed!r}.")

    def blocks(self):
        """Query and key matrices of one head."""
        return {"Q": (self.d_k, self.dim), "K": (self.d_k, self.dim)}

    def sample(self, n, generator):
        """Standard normal context X (n, tokens, dim), and query x (n, dim) where that is an input."""
        X = torch.randn(n, self.tokens, self.dim, generator=generator)
        return {"X": X} if self.queries == "all" else {"X": X, "x": torch.randn(n, self.dim, generator=generator)}

    def asked(self, x):
        """The queries, (n, one or tokens, dim)."""
        return x["X"] if self.queries == "all" else x["x"][:, None]

    def readout(self, like):
        """The fixed c, (dim, n_out), with the dtype and on the device of a tensor."""
        return nqf.fixed_normal(self.readout_seed, (self.dim, self.n_out), 1 / sqrt(self.dim), like)

    def forward(self, W, x):
        """All heads and samples at once, (n, n_out); keys of single tokens are never formed."""
        asked, X = self.asked(x), x["X"]
        weights = torch.softmax(self.folded(W, asked)[0] @ X.mT, -1).sum(1, keepdim=True)  # (n, 1, tokens): one value for all
        return (weights @ X)[:, 0] @ self.readout(X) / asked.shape[1]

    def folded(self, W, asked):
        """K_iᵀ Q_i x / √d_k for every query and head, (n, queries · d, dim), and the pullback of its cotangent to Q and K.

        K_iᵀ Q_i is formed where that is less work for a query than Q_i and then K_iᵀ.
        """
        Q, K = (W[name].movedim(-1, 0) / self.d_k**0.25 for name in ("Q", "K"))  # (d, d_k, dim)
        flat = asked.reshape(-1, self.dim)  # (n · queries, dim)
        shape = (len(asked), -1 if len(asked) else len(Q), self.dim)  # no samples leave nothing to count
        if self.dim <= 2 * self.d_k:
            joined = (Q.mT @ K).movedim(0, 1).reshape(self.dim, -1)  # (dim, d · dim)

            def from_joined(cotangent):
                by_joined = (flat.mT @ cotangent.reshape(len(flat), -1)).view(self.dim, -1, self.dim).movedim(1, 0)
                return self._unfolded(K @ by_joined.mT, Q @ by_joined)

            return (flat @ joined).view(shape), from_joined
        seen = flat @ Q.mT  # (d, n · queries, d_k)

        def from_seen(cotangent):
            by_folded = cotangent.reshape(len(flat), -1, self.dim).movedim(1, 0)  # (d, n · queries, dim)
            return self._unfolded((by_folded @ K.mT).mT @ flat, seen.mT @ by_folded)

        return (seen @ K).movedim(0, 1).reshape(shape), from_seen

    def _unfolded(self, by_Q, by_K):
        return {name: by.movedim(0, -1) / self.d_k**0.25 for name, by in (("Q", by_Q), ("K", by_K))}

    def linearise(self, W, x):
        """Both in one pass: with values a = X c and weights s, a logit has the cotangent s (a − s · a)."""
        asked, X = self.asked(x), x["X"]
        folded, back = self.folded(W, asked)
        weights = torch.softmax(folded @ X.mT, -1)  # (n, queries · d, tokens)
        values = X @ self.readout(X) / asked.shape[1]  # (n, tokens, n_out)
        means = weights @ values  # (n, queries · d, n_out)

        def pullback(cotangent):
            by_weight = (values @ cotangent[..., None]).mT - means @ cotangent[..., None]  # (n, queries · d, tokens)
            return back(by_weight.mul_(weights) @ X)

        return means.sum(1), pullback

    def structure(self, x):
        """1/(2 √d_k) x uᵀ ⊗ I on Q and K, with u = Σ_X c for each output."""
        centred = x["X"] - x["X"].mean(1, keepdim=True)
        u = centred.mT @ (centred @ self.readout(x["X"])) / self.tokens  # (n, dim, n_out)
        return nqf.quadratic("ka,na,nbo,kb->no", "Q", self.asked(x).mean(1), u, "K", scale=1 / sqrt(self.d_k))

    def offset(self, x):
        """f(0) = d c · x_avg, (n, n_out)."""
        return self.width * x["X"].mean(1) @ self.readout(x["X"])

    def encode(self, features):
        """A table (n, tokens · dim) as tokens, with their mean as the query where that is an input.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        X = nqf.as_tokens(self, features, self.tokens, self.dim)
        return {"X": X} if self.queries == "all" else {"X": X, "x": X.mean(1)}

    def variants(self):
        """The other choice of queries."""
        return [dataclasses.replace(self, queries=queries) for queries in QUERIES if queries != self.queries]


@nqf.hookimpl
def nqf_register(register):
    """Registers ``query-key-attention``."""
    register(QueryKeyAttention)
