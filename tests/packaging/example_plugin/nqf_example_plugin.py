"""A plugin as anyone may write one: a layer whose units are products of a linear and a saturating linear map."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class BoundedProduct(nqf.Layer):
    """f(W) = sum_i v_i tanh(a_i . x) cos(b_i . x)."""

    key = "bounded-product"
    title = "Bounded product unit"
    formula = r"\sum_i v_i \tanh(a_i \cdot x) \cos(b_i \cdot x)"
    structure_formula = r"\tfrac12 \mathrm{off}(x) \text{ on } a, v"
    claims = nqf.Claims()
    n_in: int = 6
    n_out: int = 1
    width: int = 5

    def blocks(self):
        """The two inner weights and the readout."""
        return {"a": (self.n_in,), "b": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        """Standard normal inputs."""
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        """One unit, (n, n_out)."""
        return (torch.tanh(x["x"] @ w["a"]) * torch.cos(x["x"] @ w["b"]))[:, None] * w["v"]

    def structure(self, x):
        """The cosine is 1 to second order, so b is inert and a couples to v."""
        return nqf.quadratic("i,ni,o->no", "a", x["x"], "v")


@nqf.hookimpl
def nqf_register(register):
    """Register the layer."""
    register(BoundedProduct)
