"""The two-layer network with squared units and a fixed readout, f(W) = Σ_r (w_r · x)²."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class QuadraticNetwork(nqf.Layer):
    r"""f(W) = Σ_r (w_r · x)², a neuron being one hidden unit.

    A(x) = x xᵀ.

    Args:
        n_in: number of inputs.
        width: d, the number of hidden units.
    """

    key = "quadratic-network"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Quadratic network"
    formula = r"f_x(W)=\sum_{r=1}^{d}(w_r^\top x)^2"
    structure_formula = r"A(x)=xx^\top"
    references = (
        nqf.Reference(
            "A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin",
            "Mechanism for feature learning in neural networks and backpropagation-free machine learning models",
            2024,
            "Science 383 (6690), 1461–1467",
            arxiv="2212.13881",
        ),
        nqf.Reference(
            "L. Zhu, C. Liu, A. Radhakrishnan, M. Belkin",
            "Quadratic models for understanding catapult dynamics of neural networks",
            2024,
            "International Conference on Learning Representations",
        ),
        nqf.Reference(
            "L. Defilippis, Y. Xu, J. Girardin, V. Erba, E. Troiani, L. Zdeborová, B. Loureiro, F. Krzakala",
            "Scaling laws and spectra of shallow neural networks in the feature learning regime",
            2026,
            "International Conference on Learning Representations",
            arxiv="2509.24882",
        ),
    )
    convention = "All readout weights are fixed at +1 and there is no factor 1/d, so the outputs are never negative."
    notes = "The same quadratic form as phase retrieval; the two differ in what the inputs are drawn from."

    n_in: int = 8
    width: int = 8

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """The weights w of one hidden unit."""
        return {"w": (self.n_in,)}

    def sample(self, n, generator):
        """Standard normal inputs x (n, n_in)."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        """Σ_r (w_r · x)², (n, 1)."""
        return (x["x"] @ W["w"]).square().sum(-1, keepdim=True)

    def structure(self, x):
        """The outer product x xᵀ."""
        return nqf.quadratic("a,na,nb,b->n", "w", x["x"], x["x"], "w")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``quadratic-network``."""
    register(QuadraticNetwork)
