"""Layers that are broken on purpose, each in one place; a plugin file, so that a command line can name them."""

from dataclasses import dataclass

import torch

import nqf_registry as nqf

BROKEN = []
CALLS = []


def broken(cls):
    """Makes a layer class of one broken part, and registers it."""
    BROKEN.append(dataclass(frozen=True)(cls))
    return BROKEN[-1]


class Normal(nqf.Layer):
    """Normal inputs of three features."""

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}


class Units(Normal):
    """f = v·tanh(u·x), with u (3) and v (2): right in everything that it says."""

    claims = nqf.Claims(sign_symmetric=True)

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"]) @ W["v"].mT

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


class Squares(Normal):
    """f = Σ (u·x)², with u (3) alone."""

    def blocks(self):
        return {"u": (3,)}

    def forward(self, W, x):
        return ((x["x"] @ W["u"]) ** 2).sum(-1, keepdim=True)


class Product(Normal):
    """f = Π (1 + u·x), which has a gradient at zero and couples its neurons."""

    claims = nqf.Claims(zgz=False)

    def blocks(self):
        return {"u": (3,)}

    def forward(self, W, x):
        return (1 + x["x"] @ W["u"]).prod(-1, keepdim=True)

    def structure(self, x):
        return nqf.dense(x["x"].new_zeros(len(x["x"]), 1, 3, 3))

    def linear(self, x):
        return {"u": x["x"][:, None]}

    def cross(self, x):
        return nqf.quadratic("i,ni,nj,o,j->no", "u", x["x"], x["x"], x["x"].new_ones(1), "u", scale=0.5)

    def offset(self, x):
        return 1.0


@broken
class Relu(Units):
    """A kink."""

    key = "relu"
    claims = nqf.Claims()
    width: int = 4

    def forward(self, W, x):
        return torch.relu(x["x"] @ W["u"]) @ W["v"].mT

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=0.5)


@broken
class LargestUnit(Squares):
    """The largest unit instead of their sum."""

    key = "largest-unit"
    width: int = 4

    def forward(self, W, x):
        return ((x["x"] @ W["u"]) ** 2).amax(-1, keepdim=True)


@broken
class IndexWeights(Squares):
    """Neurons weighted by their index."""

    key = "index-weights"
    width: int = 4

    def forward(self, W, x):
        return ((x["x"] @ W["u"]) ** 2 * (1 + 0.01 * torch.arange(self.width))).sum(-1, keepdim=True)


@broken
class FirstIgnored(Squares):
    """The first of at least two neurons is left out."""

    key = "first-ignored"
    width: int = 4

    def forward(self, W, x):
        return ((x["x"] @ W["u"][:, self.width > 1 :]) ** 2).sum(-1, keepdim=True)


@broken
class BiasInside(Units):
    """A bias inside the nonlinearity."""

    key = "bias-inside"
    width: int = 4
    claims = nqf.Claims()

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"] + 0.1) @ W["v"].mT


@broken
class SumSquared(Squares):
    """The square of the sum."""

    key = "sum-squared"
    width: int = 4

    def forward(self, W, x):
        return (x["x"] @ W["u"]).sum(-1, keepdim=True) ** 2


@broken
class TwiceA(Units):
    """A forgotten factor of one half."""

    key = "twice-a"
    width: int = 4

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=2.0)


@broken
class MinusA(Units):
    """The wrong sign."""

    key = "minus-a"
    width: int = 4

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=-1.0)


@broken
class OneEntry(Units):
    """One entry that should be zero."""

    key = "one-entry"
    width: int = 4

    def structure(self, x):
        A = x["x"].new_zeros(len(x["x"]), 2, 5, 5)
        A[:, 0, 3, 4] = A[:, 0, 4, 3] = 0.001
        return super().structure(x) + nqf.dense(A)


@broken
class OneSample(Units):
    """The last sample is off."""

    key = "one-sample"
    width: int = 4

    def structure(self, x):
        factor = torch.ones(len(x["x"]), dtype=x["x"].dtype)
        factor[-1] = 1.01
        return nqf.quadratic("i,ni,n,o->no", "u", x["x"], factor, "v")


@broken
class OneOutput(Units):
    """The second output is off."""

    key = "one-output"
    width: int = 4

    def structure(self, x):
        return nqf.quadratic("i,ni,o,o->no", "u", x["x"], torch.tensor([1.0, 1.01], dtype=x["x"].dtype), "v")


@broken
class OneWidth(Units):
    """Off at width 3 only."""

    key = "one-width"
    width: int = 4

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=1.01 if self.width == 3 else 1.0)


@broken
class Skewed(Units):
    """All of A in its upper triangle."""

    key = "skewed"
    width: int = 4

    def structure(self, x):
        A = x["x"].new_zeros(len(x["x"]), 2, 5, 5)
        for o in range(2):
            A[:, o, :3, 3 + o] = x["x"]
        return nqf.dense(A)


@broken
class WrongLinear(Product):
    """A g that is off."""

    key = "wrong-linear"
    width: int = 4

    def linear(self, x):
        return {"u": 0.5 * x["x"][:, None]}


@broken
class WrongCross(Product):
    """A B without its factor of one half."""

    key = "wrong-cross"
    width: int = 4

    def cross(self, x):
        return nqf.quadratic("i,ni,nj,o,j->no", "u", x["x"], x["x"], x["x"].new_ones(1), "u")


@broken
class WrongOffset(Units):
    """An f(0) that forward does not have."""

    key = "wrong-offset"
    width: int = 4

    def offset(self, x):
        return 1.0


@broken
class WrongPullback(Units):
    """A gradient without the slope of tanh."""

    key = "wrong-pullback"
    width: int = 4

    def pullback(self, W, x, cotangent):
        h = x["x"] @ W["u"]
        return {"u": x["x"].mT @ (cotangent @ W["v"]), "v": cotangent.mT @ torch.tanh(h)}


@broken
class FalselyExact(Units):
    """No quadratic polynomial."""

    key = "falsely-exact"
    width: int = 4
    claims = nqf.Claims(exact=True)


@broken
class FalselyEven(Units):
    """The nonlinearity is not odd, so a neuron is not even."""

    key = "falsely-even"
    width: int = 4

    def forward(self, W, x):
        h = x["x"] @ W["u"]
        return (torch.tanh(h) + 0.1 * h**2) @ W["v"].mT


@broken
class StackedHeads(Normal):
    """Two heads declared as one neuron."""

    key = "stacked-heads"
    width: int = 3

    def blocks(self):
        return {"u": (2, 3), "v": (2,)}

    def forward(self, W, x):
        return torch.einsum("nhd,hd->n", torch.tanh(torch.einsum("ni,hid->nhd", x["x"], W["u"])), W["v"])[:, None]


@broken
class Noise(Squares):
    """Noise in forward."""

    key = "noise"
    width: int = 4

    def forward(self, W, x):
        return super().forward(W, x) * (1 + 0.01 * torch.rand(()))


@broken
class Counting(Squares):
    """What it gives depends on how often it was called."""

    key = "counting"
    width: int = 4

    def forward(self, W, x):
        CALLS.append(1)
        return super().forward(W, x) * (1 + len(CALLS) % 2)


@broken
class InPlace(Squares):
    """Writes into its weights."""

    key = "in-place"
    width: int = 4

    def forward(self, W, x):
        W["u"].mul_(0.5)
        return super().forward(W, x)


@broken
class OwnInputs(Squares):
    """Its sample does not draw from the generator that it is given."""

    key = "own-inputs"
    width: int = 4

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3)}


@broken
class Normalised(Units):
    """0/0 where a neuron is zero."""

    key = "normalised"
    width: int = 4
    claims = nqf.Claims(smooth=False, zgz=False)

    def forward(self, W, x):
        return torch.tanh(x["x"] @ (W["u"] / W["u"].norm(dim=-2, keepdim=True))) @ W["v"].mT


@broken
class Raising(Squares):
    """Raises at every call."""

    key = "raising"
    width: int = 4

    def forward(self, W, x):
        return (x["x"] @ W["w"]).sum(-1, keepdim=True)


@broken
class WrongVariant(Units):
    """A variant whose structure forgets its scale."""

    key = "wrong-variant"
    scale: float = 1.0
    width: int = 4

    def forward(self, W, x):
        return self.scale * super().forward(W, x)

    def variants(self):
        return [WrongVariant(scale=2.0)]


@nqf.hookimpl
def nqf_register(register):
    """Registers all of them."""
    for cls in BROKEN:
        register(cls)
