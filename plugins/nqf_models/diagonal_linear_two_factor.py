"""The diagonal linear network with two signed factors, f(u, v) = uᵀ Diag(x) v."""

from dataclasses import dataclass, field

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class DiagonalLinearTwoFactor(nqf.Layer):
    r"""f(u, v) = Σ_k x_k u_k v_k. There is one neuron, the vectors u and v together, so its width is 1.

    A(x) = ½ [[0, Diag(x)], [Diag(x), 0]].

    Args:
        n_in: number of inputs.
    """

    key = "diagonal-linear-two-factor"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    title = "Diagonal linear network, two factors"
    formula = r"f_x(u,v)=u^\top \mathrm{Diag}(x)\,v"
    structure_formula = r"A(x)=\frac{1}{2}\begin{bmatrix}0&\mathrm{Diag}(x)\\\mathrm{Diag}(x)&0\end{bmatrix}"
    references = (
        nqf.Reference(
            "M. Even, S. Pesme, S. Gunasekar, N. Flammarion",
            "(S)GD over diagonal linear networks: implicit bias, large stepsizes and edge of stability",
            2023,
            "Advances in Neural Information Processing Systems 36",
            arxiv="2302.08982",
        ),
        nqf.Reference(
            "S. Pesme, L. Pillaud-Vivien, N. Flammarion",
            "Implicit bias of SGD for diagonal linear networks: a provable benefit of stochasticity",
            2021,
            "Advances in Neural Information Processing Systems 34, 29218–29230",
        ),
    )
    convention = "The effective linear weight of x_k is u_k v_k, of either sign."
    notes = "Every sample's A(x) is diagonal in (u ± v) / √2, where a mode grows with x_k and its partner with −x_k."

    n_in: int = 6
    width: int = field(default=1, init=False)

    def __post_init__(self):
        nqf.require_positive(self)

    def blocks(self):
        """The two factors u and v."""
        return {"u": (self.n_in,), "v": (self.n_in,)}

    def sample(self, n, generator):
        """Standard normal inputs x (n, n_in)."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        """Σ_k x_k u_k v_k, (n, 1)."""
        return x["x"] @ (W["u"] * W["v"]).sum(-1, keepdim=True)

    def structure(self, x):
        """½ off(Diag(x))."""
        return nqf.quadratic("k,nk,k->n", "u", x["x"], "v")

    def offset(self, x):
        """f(0) = 0."""
        return 0.0


@nqf.hookimpl
def nqf_register(register):
    """Registers ``diagonal-linear-two-factor``."""
    register(DiagonalLinearTwoFactor)
