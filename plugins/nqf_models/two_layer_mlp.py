"""The two-layer perceptron, f(W) = Σ_i v_i φ(u_i · x)."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class TwoLayerMLP(nqf.Layer):
    r"""f(W) = Σ_i v_i φ(u_i · x), a neuron being one hidden unit with its incoming and outgoing weights.

    A(x) = ½ φ'(0) [[0, x], [xᵀ, 0]] for each output, the block of u_i against that output's entry of v_i.

    Args:
        n_in: number of inputs.
        n_out: number of outputs, v_i ∈ R^n_out.
        width: d, the number of hidden units.
        activation: φ, a name that ``nqf.activation`` knows.
    """

    key = "two-layer-mlp"
    batched = True
    title = "Two-layer MLP"
    formula = r"f_x(W)=\sum_{i=1}^{d} v_i\,\phi(u_i^\top x)"
    structure_formula = r"A(x)=\frac{\phi'(0)}{2}\begin{bmatrix}0&x\\x^\top&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "K. Fukumizu",
            "A regularity condition of the information matrix of a multilayer perceptron network",
            1996,
            "Neural Networks 9 (5), 871–879",
        ),
        nqf.Reference(
            "A. Radhakrishnan, D. Beaglehole, P. Pandit, M. Belkin",
            "Mechanism for feature learning in neural networks and backpropagation-free machine learning models",
            2024,
            "Science 383 (6690), 1461–1467",
            arxiv="2212.13881",
        ),
    )
    convention = "w_i = (u_i, v_i), no biases. With several outputs there is one A for each, and A_o couples u to v_o only."
    notes = (
        "An odd φ gives sign symmetry and a remainder of order ε⁴, other smooth φ with φ(0) = 0 one of order ε³. φ(0) ≠ 0 "
        "(sigmoid, softplus) breaks ZGZ: then g = φ(0) on v and the general form applies. With φ = identity the layer is its "
        "quadratic form."
    )

    n_in: int = 8
    n_out: int = 2
    width: int = 16
    activation: str = "tanh"

    def __post_init__(self):
        nqf.require_positive(self)
        nqf.activation(self.activation)

    @property
    def claims(self):
        """What holds for this activation."""
        phi = nqf.activation(self.activation)
        return nqf.Claims(zgz=phi.value == 0, sign_symmetric=phi.odd, exact=phi.name == "identity")

    def blocks(self):
        """Incoming weights u and outgoing weights v of one hidden unit."""
        return {"u": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        """Standard normal inputs x (n, n_in)."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        """Σ_i v_i φ(u_i · x) as two matrix products, (n, n_out)."""
        return nqf.activation(self.activation)(x["x"] @ W["u"]) @ W["v"].mT

    def linearise(self, W, x):
        """Both in one pass: f(W), and the function that pulls its cotangent c back, U by xᵀ (φ'(h) ∘ c v), V by cᵀ φ(h)."""
        hidden, back = nqf.activation(self.activation).linearise(x["x"] @ W["u"], overwrite=True)  # (n, d)

        def pullback(cotangent):
            return {"u": x["x"].mT @ back(cotangent @ W["v"]), "v": cotangent.mT @ hidden}

        return (W["v"] @ hidden.mT).mT, pullback  # in this order the product is quicker, having fewer rows

    def structure(self, x):
        """½ φ'(0) off(x) for each output."""
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=nqf.activation(self.activation).slope)

    def linear(self, x):
        """The gradient at zero: φ(0) on the output's own entry of v."""
        n, eye = len(x["x"]), torch.eye(self.n_out, dtype=x["x"].dtype, device=x["x"].device)
        return {"v": (nqf.activation(self.activation).value * eye).expand(n, -1, -1)}  # (n, k, n_out)

    def cross(self, x):
        """Zero: f is a sum over neurons."""
        return 0.0 * self.structure(x)

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``two-layer-mlp``."""
    register(TwoLayerMLP)
