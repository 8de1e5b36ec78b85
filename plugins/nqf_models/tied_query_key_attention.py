"""The attention logit with tied query and key projections, f(W) = uᵀ WᵀW x / √d_k."""

from dataclasses import dataclass
from math import sqrt

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class TiedQueryKeyAttention(nqf.Layer):
    r"""f(W) = Σ_i (w_i · u)(w_i · x) / √d_k, a neuron being one of the d_k rows of the shared projection.

    A(x, u) = (x uᵀ + u xᵀ) / (2 √d_k).

    Args:
        dim: D, size of a token.
        width: d = d_k, the number of rows of the shared projection.
    """

    key = "tied-query-key-attention"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Tied query-key attention"
    formula = r"f_{x,u}(W)=\frac{1}{\sqrt{d_k}}\,u^\top W^\top Wx"
    structure_formula = r"A(x,u)=\frac{1}{2\sqrt{d_k}}\left(xu^\top+ux^\top\right)"
    references = (
        nqf.Reference(
            "X. Pan, A. Philip, Z. Xie, O. Schwartz",
            "Dissecting query-key interaction in vision transformers",
            2024,
            "Advances in Neural Information Processing Systems 37",
            arxiv="2405.14880",
        ),
        nqf.Reference(
            "F. Boncoraglio, V. Erba, E. Troiani, Y. Xu, F. Krzakala, L. Zdeborová",
            "Single-head attention in high dimensions: a theory of generalization, weights spectra, and scaling laws",
            2026,
            "International Conference on Machine Learning",
            arxiv="2509.24914",
        ),
    )
    convention = (
        "The literature's W is (d_k, D) with neurons as rows; here they are the columns of its transpose, so M is the "
        "literature's WᵀW. The output is the logit, before any softmax, and u is an input beside the query x. The width is "
        "d_k, and A carries 1/√width. A feature table of 2 · dim numbers is read as u, then x."
    )
    notes = "A(x, u) changes with the width. A model compressed to fewer neurons keeps the A of the original width."

    dim: int = 6
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """One row w of the shared projection."""
        return {"w": (self.dim,)}

    def sample(self, n, generator):
        """Standard normal vectors u (n, dim) and queries x (n, dim)."""
        return {"u": torch.randn(n, self.dim, generator=generator), "x": torch.randn(n, self.dim, generator=generator)}

    def forward(self, W, x):
        """Σ_i (w_i · u)(w_i · x) / √d_k, (n, 1)."""
        return ((x["u"] @ W["w"]) * (x["x"] @ W["w"])).sum(-1, keepdim=True) / sqrt(self.width)

    def structure(self, x):
        """The symmetric part of u xᵀ over √d_k."""
        return nqf.quadratic("a,na,nb,b->n", "w", x["u"], x["x"], "w", scale=1 / sqrt(self.width))

    def offset(self, x):
        """f(0) = 0."""
        return 0.0

    def encode(self, features):
        """A table (n, 2 · dim): u, then x.

        Raises:
            nqf.InvalidInput: the table has another number of columns.
        """
        if features.shape[1] != 2 * self.dim:
            raise nqf.InvalidInput(
                f"{self.key} reads 2 · dim = {2 * self.dim} features as u and x; the data has {features.shape[1]}. "
                "Set dim to half of that."
            )
        return {"u": features[:, : self.dim], "x": features[:, self.dim :]}


@nqf.hookimpl
def nqf_register(register):
    """Registers ``tied-query-key-attention``."""
    register(TiedQueryKeyAttention)
