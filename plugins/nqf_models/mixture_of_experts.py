"""A mixture of experts with a separate gate for each expert, f(W) = Σ_i ψ(r_i · x) E(x; Θ_i)."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf

EXPERTS = ("linear", "affine", "quadratic")


@dataclass(frozen=True)
class MixtureOfExperts(nqf.Layer):
    r"""f(W) = Σ_i ψ(r_i · x) E(x; Θ_i), a neuron being one expert: its router weights r_i and its parameters Θ_i.

    The experts are E(x; Θ) = φ(Θᵀ h(x)) with features h(x) of the input. Where ψ(0) = 0 and φ(0) = 0,
    A(x) = ½ ψ'(0) [[0, x Gᵀ], [G xᵀ, 0]] with G = ∇_Θ E(x; 0) = φ'(0) h(x), for each output.

    Args:
        n_in: number of inputs.
        n_out: number of outputs of an expert.
        width: d, the number of experts.
        expert: what an expert sees: "linear" (h = x), "affine" (x and 1, a bias), "quadratic" (x and its squares).
        expert_activation: φ, a name that ``nqf.activation`` knows.
        gate: ψ, a name that ``nqf.activation`` knows.
    """

    key = "mixture-of-experts"
    title = "Mixture of experts"
    formula = r"f_x(W)=\sum_{i=1}^{d}\psi(r_i^\top x)\,E(x;\Theta_i)"
    structure_formula = (
        r"A(x)=\frac{\psi'(0)}{2}\begin{bmatrix}0&x\,G(x)^\top\\G(x)\,x^\top&0\end{bmatrix},\quad G(x)=\nabla_\Theta E(x;0)"
    )
    references = (
        nqf.Reference(
            "N. Shazeer, A. Mirhoseini, K. Maziarz, A. Davis, Q. V. Le, G. E. Hinton, J. Dean",
            "Outrageously large neural networks: the sparsely-gated mixture-of-experts layer",
            2017,
            "International Conference on Learning Representations",
            arxiv="1701.06538",
        ),
        nqf.Reference(
            "H. Nguyen, N. Ho, A. Rinaldo",
            "Sigmoid gating is more sample efficient than softmax gating in mixture of experts",
            2024,
            "Advances in Neural Information Processing Systems 37, 118357–118388",
        ),
    )
    convention = (
        "w_i = (r_i, Θ_i), Θ_i of shape (features, n_out). Each expert has its own gate; none are normalised over the experts."
    )
    notes = (
        "The literature's sigmoid gate has ψ(0) = ½ and breaks ZGZ: g = ½ G on Θ, and the general form applies; so does an "
        "expert with E(x; 0) ≠ 0. A softmax over the experts couples them (B ≠ 0) and is another layer. Experts with a "
        "hidden layer of their own have G = 0 and lead at order three, so they are not among the choices. An odd gate with "
        "odd experts gives sign symmetry; identity for both makes the layer its quadratic form."
    )

    n_in: int = 6
    n_out: int = 2
    width: int = 6
    expert: str = "linear"
    expert_activation: str = "identity"
    gate: str = "tanh"

    def __post_init__(self):
        nqf.require_positive(self)
        nqf.require_choice(self, "expert", EXPERTS)
        nqf.activation(self.expert_activation)
        nqf.activation(self.gate)

    @property
    def claims(self):
        """What holds for this gate and these experts."""
        psi, phi = nqf.activation(self.gate), nqf.activation(self.expert_activation)
        return nqf.Claims(
            zgz=psi.value == 0 and phi.value == 0,
            sign_symmetric=psi.odd and phi.odd,
            exact=psi.name == phi.name == "identity",
        )

    def blocks(self):
        """Router weights r and parameters Theta of one expert."""
        features = {"linear": self.n_in, "affine": self.n_in + 1, "quadratic": 2 * self.n_in}[self.expert]
        return {"r": (self.n_in,), "Theta": (features, self.n_out)}

    def sample(self, n, generator):
        """Standard normal inputs x (n, n_in)."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def features(self, x):
        """What the experts see, h(x): (n, features)."""
        extra = {"linear": x[:, :0], "affine": torch.ones_like(x[:, :1]), "quadratic": x.square()}[self.expert]
        return torch.cat([x, extra], 1)

    def forward(self, W, x):
        """Σ_i ψ(r_i · x) φ(Θ_iᵀ h(x)), (n, n_out)."""
        gates = nqf.activation(self.gate)(x["x"] @ W["r"])  # (n, d)
        experts = nqf.activation(self.expert_activation)(torch.einsum("nq,qod->nod", self.features(x["x"]), W["Theta"]))
        return (experts @ gates[..., None])[..., 0]

    def structure(self, x):
        """½ ψ'(0) off(x Gᵀ) for each output, and what values and curvatures at zero add on the diagonal."""
        psi, phi, x = nqf.activation(self.gate), nqf.activation(self.expert_activation), x["x"]
        h = self.features(x)
        total = nqf.quadratic("i,ni,nq,qo->no", "r", x, h, "Theta", scale=psi.slope * phi.slope)
        if psi.curvature * phi.value:  # ½ ψ''(0) E(x; 0) x xᵀ on r
            ones = x.new_ones(self.n_out)
            total += nqf.quadratic("i,ni,nj,o,j->no", "r", x, x, ones, "r", scale=psi.curvature * phi.value / 2)
        if psi.value * phi.curvature:  # ½ ψ(0) φ''(0) h hᵀ on Θ
            total += nqf.quadratic("qo,nq,ns,so->no", "Theta", h, h, "Theta", scale=psi.value * phi.curvature / 2)
        return total

    def linear(self, x):
        """The gradient at zero: ψ'(0) E(x; 0) x on r and ψ(0) G on Θ."""
        psi, phi, x = nqf.activation(self.gate), nqf.activation(self.expert_activation), x["x"]
        eye = torch.eye(self.n_out, dtype=x.dtype, device=x.device)
        return {
            "r": psi.slope * phi.value * x[:, None].expand(-1, self.n_out, -1),  # (n, k, n_in)
            "Theta": psi.value * phi.slope * torch.einsum("nq,ko->nkqo", self.features(x), eye),
        }

    def cross(self, x):
        """Zero: f is a sum over experts."""
        return 0.0 * self.structure(x)

    def offset(self, x):
        """f(0) = d ψ(0) E(x; 0), the same for all inputs and outputs."""
        return self.width * nqf.activation(self.gate).value * nqf.activation(self.expert_activation).value


@nqf.hookimpl
def nqf_register(register):
    """Registers ``mixture-of-experts``."""
    register(MixtureOfExperts)
