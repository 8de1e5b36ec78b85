"""The expansion at zero: three methods against each other and against closed forms."""

from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf

METHODS = ["forward-over-reverse", "reverse-over-reverse", "finite-difference"]


@dataclass(frozen=True)
class General(nqf.Layer):
    """Outputs 3 + a·μ + μᵀCμ + Σ_i w_iᵀ E w_i, and sin(w_1 · x) + … + exp(s Σ_i |w_i|²) where it is not quadratic."""

    key = "general"
    scale: float = 1.0
    width: int = 3

    def blocks(self):
        return {"w": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 2, generator=generator)}

    def forward(self, W, x):
        w, mu = self.scale * W["w"], self.scale * W["w"].sum(-1)
        first = 3 + x["x"] @ mu + (x["x"] @ mu) ** 2 + 2 * ((x["x"] @ w) ** 2).sum(-1)
        second = torch.sin(x["x"] @ w).sum(-1) + torch.exp((w**2).sum()) + (x["x"] @ mu) ** 3
        return torch.stack([first, second], -1)


@dataclass(frozen=True)
class One(General):
    key = "one"
    width: int = field(default=1, init=False)


def inputs(layer, seed=0, n=3):
    return {"x": layer.sample(n, torch.Generator().manual_seed(seed))["x"].double()}


def closed_form(layer, x):
    """Offset, g, Ā and B by hand; at width 1 the two squares of the first output are one."""
    s, x = layer.scale, x["x"]
    outer, eye = torch.einsum("np,nq->npq", x, x), torch.eye(2, dtype=x.dtype).expand(len(x), 2, 2)
    offset = torch.tensor([3.0, 1.0], dtype=x.dtype).expand(len(x), 2)
    linear = s * torch.stack([x, x], 1)
    diagonal = s**2 * torch.stack([3 * outer, eye], 1)
    cross = s**2 * torch.stack([outer, 0 * eye], 1) if layer.width > 1 else torch.zeros_like(diagonal)
    return offset, linear, diagonal, cross


@pytest.mark.parametrize("layer", [General(), One(), General(scale=1e-3), General(scale=1e3)], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_the_expansion_is_the_closed_form(layer, method):
    x = inputs(layer)
    found = nqf.expand(layer, x, method)
    assert found.method == method
    loose = 1e-5 if method == "finite-difference" else 1e-12
    s = layer.scale
    offset, linear, diagonal, cross = closed_form(layer, x)
    for value, expected, size in (
        (found.offset, offset, 1),
        (found.linear, linear, s),
        (found.diagonal, diagonal, s**2),
        (found.cross, cross, s**2),
    ):
        torch.testing.assert_close(value / size, expected / size, rtol=loose, atol=loose)


@given(st.integers(0, 2**20))
def test_three_methods_agree(seed):
    layer = General()
    x = inputs(layer, seed)
    first, *others = (nqf.expand(layer, x, method) for method in METHODS)
    for other, tolerance in zip(others, (1e-12, 1e-5), strict=True):
        for name in ("offset", "linear", "diagonal", "cross"):
            torch.testing.assert_close(getattr(other, name), getattr(first, name), rtol=tolerance, atol=tolerance)


def test_the_matrix_of_the_dynamics_is_the_difference():
    found = nqf.expand(General(), inputs(General()))
    assert torch.equal(found.structure, found.diagonal - found.cross)


def test_float_inputs_are_expanded_in_float64():
    x = {"x": inputs(General())["x"].float()}
    assert nqf.expand(General(), x).diagonal.dtype == torch.float64


def test_differences_see_what_autodiff_cannot_at_a_norm():
    """|w| squared is a quadratic form with Ā = 1; written with abs() both autodiff modes say 0."""

    def forward(self, W, x):
        return (W["w"].abs() ** 2).sum((0, 1)) * torch.ones_like(x["x"][:, :1])

    layer = type("Abs", (General,), {"key": "abs", "forward": forward})()
    x, eye = inputs(layer), torch.eye(2, dtype=torch.float64)
    assert not nqf.expand(layer, x).diagonal.any()
    torch.testing.assert_close(nqf.expand(layer, x, "finite-difference").diagonal[0, 0], eye, rtol=1e-8, atol=1e-8)


def test_an_unknown_method_is_named():
    with pytest.raises(nqf.InvalidInput, match=r"method must be one of forward-over-reverse, .*; got 'magic'"):
        nqf.expand(General(), inputs(General()), "magic")


@pytest.mark.parametrize("function", [torch.nn.functional.silu, torch.nn.functional.mish, torch.nn.functional.gelu])
def test_activations_with_fused_gradients_are_expanded_too(function):
    def forward(self, W, x):
        return (function(x["x"] @ W["w"]) * (x["x"] @ W["w"])).sum(-1, keepdim=True)

    layer = type("Fused", (General,), {"key": "fused", "forward": forward})()
    x = inputs(layer)
    with torch.no_grad():
        found = nqf.expand(layer, x)
    assert not found.diagonal.requires_grad
    slope = {"silu": 0.5, "mish": 0.6, "gelu": 0.5}[function.__name__]
    torch.testing.assert_close(found.diagonal[:, 0], slope * torch.einsum("np,nq->npq", x["x"], x["x"]))
