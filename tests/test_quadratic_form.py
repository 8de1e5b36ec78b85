"""The quadratic form of a layer: what is declared against what is derived, with and without ZGZ."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf


@dataclass(frozen=True)
class Coupled(nqf.Layer):
    """c·x + a(x)·μ + (x·μ)² + Σ_i b (w_i·x)² for each output: exactly quadratic, with g, Ā and B all different from zero."""

    key = "coupled"
    claims = nqf.Claims(zgz=False)
    n_in: int = 3
    width: int = 4

    def blocks(self):
        return {"w": (self.n_in,), "b": ()}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        pre = x["x"] @ W["w"]  # (n, d)
        shared = pre.sum(-1) ** 2
        bias = W["b"].sum(-1)
        first = 2.0 + pre.sum(-1) + shared + 3 * (pre**2).sum(-1)
        second = x["x"][:, 0] * bias - shared + (pre * W["b"]).sum(-1)
        return torch.stack([first, second], -1)


@dataclass(frozen=True)
class CoupledDeclared(Coupled):
    """The same with everything declared."""

    key = "coupled-declared"

    def structure(self, x):
        first, second = (row.expand(len(x["x"]), -1) for row in torch.eye(2, dtype=x["x"].dtype))
        x = x["x"]
        square = nqf.quadratic("i,ni,nj,no,j->no", "w", x, x, 4 * first - second, "w")
        return square + nqf.quadratic("i,ni,no,->no", "w", x, second, "b")

    def cross(self, x):
        signs = torch.tensor([1.0, -1.0], dtype=x["x"].dtype)
        return nqf.quadratic("i,ni,nj,o,j->no", "w", x["x"], x["x"], signs, "w")

    def linear(self, x):
        x, zero = x["x"], torch.zeros_like(x["x"])
        return {"w": torch.stack([x, zero], 1), "b": torch.stack([zero[:, 0], x[:, 0]], 1)}  # (n, 2, 3), (n, 2)

    def offset(self, x):
        return torch.tensor([2.0, 0.0], dtype=x["x"].dtype)


@dataclass(frozen=True)
class Tanh(nqf.Layer):
    """A ZGZ layer with nothing declared."""

    key = "tanh"
    n_in: int = 3
    width: int = 4

    def blocks(self):
        return {"u": (self.n_in,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        return torch.tanh(x["x"] @ w["u"])[:, None] * w["v"]


@dataclass(frozen=True)
class TanhDeclared(Tanh):
    key = "tanh-declared"

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


def draw(layer, seed, replicas=None, n=5):
    g = torch.Generator().manual_seed(seed)
    x = {name: t.double() for name, t in layer.sample(n, g).items()}
    if replicas is None:
        return layer.random(g, dtype=torch.float64), x
    draws = [layer.random(g, dtype=torch.float64) for _ in range(replicas)]
    return {name: torch.stack([one[name] for one in draws]) for name in draws[0]}, x


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layer", [Coupled(), CoupledDeclared()], ids=lambda layer: layer.key)
@pytest.mark.parametrize("replicas", [None, 3])
@given(seed=st.integers(0, 2**20))
def test_the_general_form_of_a_quadratic_layer_is_the_layer(layer, replicas, seed):
    W, x = draw(layer, seed, replicas)
    form = nqf.quadratic_form(layer, x)
    assert form.derived == (type(layer) is Coupled)
    close(form.evaluate(W), layer(W, x))


@pytest.mark.parametrize("layer", [Coupled(), CoupledDeclared()], ids=lambda layer: layer.key)
@pytest.mark.parametrize("replicas", [None, 3])
@given(seed=st.integers(0, 2**20))
def test_the_pullback_of_the_general_form_is_the_gradient_of_the_layer(layer, replicas, seed):
    W, x = draw(layer, seed, replicas)
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    value = layer(leaves, x)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    expected = torch.autograd.grad(value, list(leaves.values()), cotangent)
    pulled = nqf.quadratic_form(layer, x).pullback(W, cotangent)
    for name, grad in zip(leaves, expected, strict=True):
        close(pulled[name], grad)


@pytest.mark.parametrize("replicas", [None, 2])
@given(seed=st.integers(0, 2**20))
def test_declared_and_derived_agree_under_zgz(replicas, seed):
    derived, declared = Tanh(), TanhDeclared()
    W, x = draw(derived, seed, replicas)
    one, two = nqf.quadratic_form(derived, x), nqf.quadratic_form(declared, x)
    assert one.derived and not two.derived
    close(one.evaluate(W), two.evaluate(W))
    cotangent = torch.randn(two.evaluate(W).shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for name, part in one.pullback(W, cotangent).items():
        close(part, two.pullback(W, cotangent)[name])


def test_the_form_is_the_second_order_part_of_the_layer():
    layer = TanhDeclared()
    W, x = draw(layer, 0)
    small = {name: 1e-3 * block for name, block in W.items()}
    gap = (layer(small, x) - nqf.quadratic_form(layer, x).evaluate(small)).abs().max()
    assert 0 < gap < 1e-9  # order four: 1e-12 times a constant


@pytest.mark.parametrize("missing", ["structure", "linear", "cross"])
def test_a_layer_that_breaks_zgz_is_derived_unless_it_declares_everything(missing):
    kept = {"structure", "linear", "cross"} - {missing}
    layer = type("Part", (Coupled,), {name: CoupledDeclared.__dict__[name] for name in kept})()
    W, x = draw(layer, 0)
    form = nqf.quadratic_form(layer, x)
    assert form.derived
    close(form.evaluate(W), layer(W, x))


def test_inputs_are_cast_to_the_dtype_of_the_weights():
    layer = TanhDeclared()
    x = layer.sample(2, torch.Generator().manual_seed(0))
    form = nqf.quadratic_form(layer, x, dtype=torch.float64)
    assert form.evaluate(layer.zeros(torch.float64)).dtype == torch.float64


def test_the_offset_is_the_forward_pass_at_zero_where_none_is_declared():
    layer = Coupled()
    x = draw(layer, 0)[1]
    close(nqf.quadratic_form(layer, x).evaluate(layer.zeros(torch.float64)), layer(layer.zeros(torch.float64), x))


def test_evaluating_leaves_the_weights_as_they_were():
    layer = CoupledDeclared()
    W, x = draw(layer, 0)
    before = {name: block.clone() for name, block in W.items()}
    form = nqf.quadratic_form(layer, x)
    form.pullback(W, torch.ones_like(form.evaluate(W)))
    assert all(torch.equal(W[name], before[name]) for name in W)


def test_what_has_no_form_is_refused():
    with pytest.raises(nqf.InvalidInput, match="takes a layer or a composition, got dict"):
        nqf.quadratic_form({}, {})


@pytest.mark.parametrize("function", [torch.nn.functional.silu, torch.nn.functional.mish, torch.nn.functional.gelu])
@pytest.mark.parametrize("replicas", [None, 2])
def test_activations_with_fused_gradients_are_derived_without_gradients_too(function, replicas):
    layer = type("Fused", (Tanh,), {"unit": lambda self, w, x: function(x["x"] @ w["u"])[:, None] * w["v"]})()
    W, x = draw(layer, 0, replicas)
    form = nqf.quadratic_form(layer, x)
    with torch.no_grad():
        value = form.evaluate({name: block.requires_grad_() for name, block in W.items()})
    assert not value.requires_grad
    slope = {"silu": 0.5, "mish": 0.6, "gelu": 0.5}[function.__name__]
    close(value, slope * nqf.quadratic_form(TanhDeclared(), x).evaluate(W).detach())
