"""Linear self-supervised learning: the squared distance of two views under a linear encoder, f(W) = ‖W (x − χ)‖²."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class LinearSSL(nqf.Layer):
    r"""f(W) = Σ_i (w_i · Δ)² with Δ = x − χ, a neuron being one output of the linear encoder.

    A(x, χ) = Δ Δᵀ.

    Args:
        dim: size of the data.
        width: d, the number of outputs of the encoder.
    """

    key = "linear-ssl"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Linear self-supervised learning"
    formula = r"f_{x,\chi}(W)=\lVert W\Delta\rVert^2,\quad \Delta=x-\chi"
    structure_formula = r"A(x,\chi)=\Delta\Delta^\top"
    references = (
        nqf.Reference(
            "J. von Kügelgen, Y. Sharma, L. Gresele, W. Brendel, B. Schölkopf, M. Besserve, F. Locatello",
            "Self-supervised learning with data augmentations provably isolates content from style",
            2021,
            "Advances in Neural Information Processing Systems 34, 16451–16467",
        ),
        nqf.Reference(
            "A. Bardes, J. Ponce, Y. LeCun",
            "VICReg: variance-invariance-covariance regularization for self-supervised learning",
            2022,
            "International Conference on Learning Representations",
            arxiv="2105.04906",
        ),
        nqf.Reference(
            "L. Ziyin, E. S. Lubana, M. Ueda, H. Tanaka",
            "What shapes the loss landscape of self-supervised learning?",
            2023,
            "International Conference on Learning Representations",
            arxiv="2210.00638",
        ),
    )
    convention = (
        "The literature's W is (outputs, dim) with neurons as rows; here they are the columns of its transpose, so M is the "
        "literature's WᵀW. χ (chi) is the other view of x."
    )
    notes = "Only the invariance term is modelled. What keeps the encoder from collapsing is a matter of the loss."

    dim: int = 6
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """The weights w of one encoder output."""
        return {"w": (self.dim,)}

    def sample(self, n, generator):
        """Standard normal x (n, dim) and views chi (n, dim) that add independent normal noise to it."""
        x = torch.randn(n, self.dim, generator=generator)
        return {"x": x, "chi": x + torch.randn(n, self.dim, generator=generator)}

    def forward(self, W, x):
        """‖W Δ‖², (n, 1)."""
        return ((x["x"] - x["chi"]) @ W["w"]).square().sum(-1, keepdim=True)

    def structure(self, x):
        """The outer product Δ Δᵀ."""
        delta = x["x"] - x["chi"]
        return nqf.quadratic("a,na,nb,b->n", "w", delta, delta, "w")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``linear-ssl``."""
    register(LinearSSL)
