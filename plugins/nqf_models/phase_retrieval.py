"""Phase retrieval, f(W) = aᵀ W Wᵀ a: measurements of amplitudes without their sign."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class PhaseRetrieval(nqf.Layer):
    r"""f(W) = aᵀ W Wᵀ a = |Wᵀ a|², a neuron being one column w of W.

    A(a) = a aᵀ.

    Args:
        size: length of the signal.
        width: d, the number of columns of W; a single signal is rank one, and d > 1 over-parametrises it.
    """

    key = "phase-retrieval"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Phase retrieval"
    formula = r"\hat y_a(W)=a^\top WW^\top a"
    structure_formula = r"A(a)=aa^\top"
    references = (
        nqf.Reference(
            "E. J. Candès, X. Li, M. Soltanolkotabi",
            "Phase retrieval via Wirtinger flow: theory and algorithms",
            2015,
            "IEEE Transactions on Information Theory 61 (4), 1985–2007",
            arxiv="1407.1065",
        ),
        nqf.Reference(
            "A. Maillard, B. Loureiro, F. Krzakala, L. Zdeborová",
            "Phase retrieval in high dimensions: statistical and computational phase transitions",
            2020,
            "Advances in Neural Information Processing Systems 33, 11071–11082",
        ),
    )
    convention = (
        "Real signals and real sensing vectors a, which are the inputs; the output is the squared amplitude. No factor 1/size."
    )
    notes = "The same quadratic form as the quadratic network; the two differ in what the inputs are drawn from."

    size: int = 8
    width: int = 4

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """One column w of W."""
        return {"w": (self.size,)}

    def sample(self, n, generator):
        """Standard normal sensing vectors a (n, size)."""
        return {"a": torch.randn(n, self.size, generator=generator)}

    def forward(self, W, x):
        """|Wᵀ a|², (n, 1)."""
        return (x["a"] @ W["w"]).square().sum(-1, keepdim=True)

    def structure(self, x):
        """The outer product a aᵀ."""
        return nqf.quadratic("a,na,nb,b->n", "w", x["a"], x["a"], "w")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``phase-retrieval``."""
    register(PhaseRetrieval)
