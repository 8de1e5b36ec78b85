"""Small layers for the tests of compositions, registered as a plugin file would be."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class Units(nqf.Layer):
    """f(W) = sum_i v_i tanh(u_i . x), one port; its quadratic form is x U V^T."""

    key = "small-units"
    n_in: int = 4
    n_out: int = 2
    width: int = 3

    def blocks(self):
        return {"u": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        return torch.tanh(x["x"] @ w["u"])[:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


@dataclass(frozen=True)
class Pair(nqf.Layer):
    """f(W) = sum_i v_i sin(u_i . x) exp(-(g_i . c)^2), two ports; c is inert at quadratic order, and f is nowhere a form."""

    key = "small-pair"
    n_in: int = 4
    n_context: int = 3
    n_out: int = 2
    width: int = 2

    def blocks(self):
        return {"u": (self.n_in,), "g": (self.n_context,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator), "c": torch.randn(n, self.n_context, generator=generator)}

    def unit(self, w, x):
        return (torch.sin(x["x"] @ w["u"]) * torch.exp(-((x["c"] @ w["g"]) ** 2)))[:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


@dataclass(frozen=True)
class Lookup(nqf.Layer):
    """f(W) = sum_i v_i u_i[token], an integer port of one index a sample; it is its quadratic form."""

    key = "small-lookup"
    n_tokens: int = 5
    n_out: int = 4
    width: int = 2

    def blocks(self):
        return {"u": (self.n_tokens,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"token": torch.randint(self.n_tokens, (n,), generator=generator)}

    def unit(self, w, x):
        return w["u"][x["token"]][:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("n,o->no", nqf.rows("u", x["token"]), "v")


@dataclass(frozen=True)
class Biased(nqf.Layer):
    """f(W) = sum_i v_i (1 + u_i . x + (u_i . x)^3): no zero gradient at zero, and its quadratic form is derived."""

    key = "small-biased"
    claims = nqf.Claims(zgz=False)
    n_in: int = 4
    n_out: int = 2
    width: int = 2

    def blocks(self):
        return {"u": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        z = x["x"] @ w["u"]
        return (1 + z + z**3)[:, None] * w["v"]


@dataclass(frozen=True)
class Stubborn(Units):
    """As the units, but with control flow on values, which vmap refuses."""

    key = "small-stubborn"

    def forward(self, W, x):
        z = x["x"] @ W["u"]
        return torch.tanh(z if bool(z.sum() > 0) else z * 1.0) @ W["v"].mT


@nqf.hookimpl
def nqf_register(register):
    for layer in (Units, Pair, Lookup, Biased, Stubborn):
        register(layer)
