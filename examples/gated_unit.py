"""A layer of one's own: tanh units behind a sigmoid gate, in one file.

nqf verify examples/gated_unit.py
nqf train gated-unit --plugin examples/gated_unit.py --data teacher
"""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class GatedUnit(nqf.Layer):
    """f(W) = sum_i v_i tanh(u_i . x) sigmoid(g_i . x): the gate is half open at zero, so it is inert at quadratic order."""

    key = "gated-unit"
    title = "Gated unit"
    formula = r"\sum_{i=1}^{d} v_i \tanh(u_i^\top x)\,\sigma(g_i^\top x)"
    structure_formula = r"\frac{1}{4}\begin{bmatrix}0&0&x\\0&0&0\\x^\top&0&0\end{bmatrix}"
    n_in: int = 8
    n_out: int = 1
    width: int = 16

    def blocks(self):
        return {"u": (self.n_in,), "g": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        return (torch.tanh(x["x"] @ w["u"]) * torch.sigmoid(x["x"] @ w["g"]))[:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=0.5)


@nqf.hookimpl
def nqf_register(register):
    register(GatedUnit)
