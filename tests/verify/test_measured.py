"""The measured expansion: closed forms, and differences where autodiff is wrong."""

import importlib

import pytest
import torch

from nqf_registry.expansion import expand
from nqf_registry.verify.measured import measure
from nqf_registry.verify.setting import Undecided

METHODS = ("forward-over-reverse", "reverse-over-reverse", "finite-difference")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_method_gives_the_closed_form(layer, setting, method, width):
    """f = Σ_i tanh(a_i) + (Σ_i a_i)², a_i = u_i·x: g = x, Ā = x xᵀ, B = x xᵀ."""

    def forward(W, x):
        a = x @ W["u"]
        return torch.tanh(a).sum(-1, keepdim=True) + a.sum(-1, keepdim=True) ** 2 + 7

    at = setting(layer("known", forward=forward, blocks={"u": (3,)}, width=width))
    found = expand(at.layer, at.x, method)
    x = at.x["x"][:, None]
    outer = x[..., None] * x[..., None, :]
    precise = {"rtol": 1e-6, "atol": 1e-6} if method == "finite-difference" else {"rtol": 1e-12, "atol": 1e-12}
    torch.testing.assert_close(found.offset, torch.full_like(found.offset, 7.0))
    torch.testing.assert_close(found.linear, x, **precise)
    torch.testing.assert_close(found.diagonal, outer, **precise)
    torch.testing.assert_close(found.cross, outer if width > 1 else 0 * outer, **precise)


@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_differences_follow_the_scale_of_the_inputs(units, setting, size):
    at = setting(units("tanh", torch.tanh), scale=size)
    exact, found = expand(at.layer, at.x), expand(at.layer, at.x, "finite-difference")
    assert float((found.diagonal - exact.diagonal).abs().max()) < 1e-6 * float(exact.diagonal.abs().max())


@pytest.mark.parametrize(
    "unit",
    [lambda w, x: (w["u"].abs() ** 2 * x).sum(-1, keepdim=True), lambda w, x: (x * w["u"]).norm(dim=-1, keepdim=True) ** 2],
)
def test_differences_are_the_truth_where_autodiff_is_wrong(layer, setting, unit):
    at = setting(layer("modulus", unit=unit, blocks={"u": (3,)}))
    found = measure(at)
    assert found.source == "differences"
    assert not found.disagreement < 1e-3  # nan counts
    x = at.x["x"] if "abs" in unit.__code__.co_names else at.x["x"] ** 2
    torch.testing.assert_close(found.expansion.diagonal[:, 0], torch.diag_embed(x), rtol=1e-9, atol=1e-10)


def test_autodiff_is_the_truth_where_they_agree(units, setting):
    found = measure(setting(units("tanh", torch.tanh)))
    assert found.source == "autodiff" and found.disagreement < 1e-8


def test_a_kink_is_where_they_differ(units, setting):
    assert measure(setting(units("relu", torch.relu))).disagreement > 0.1


def test_a_refused_mode_is_named(units, setting):
    """silu has no forward mode through its backward in every version of torch; where it has, nothing needs to be named."""
    found = measure(setting(units("silu", torch.nn.functional.silu)))
    assert found.source == "autodiff"
    assert all("forward-over-reverse" in note for note in found.notes)


class _Legacy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        return z.tanh()

    @staticmethod
    def backward(ctx, grad):
        raise RuntimeError("no backward here")


def test_without_any_autodiff_differences_remain(layer, setting):
    at = setting(layer("legacy", forward=lambda W, x: _Legacy.apply(x @ W["u"]) @ W["v"].mT))
    found = measure(at)
    assert found.source == "differences" and found.notes
    torch.testing.assert_close(found.expansion.diagonal[:, 0, :3, 3], at.x["x"] / 2, rtol=1e-6, atol=1e-6)


def test_over_the_budget_it_refuses_with_the_figure(units, setting, monkeypatch):
    at = setting(units("tanh", torch.tanh))
    monkeypatch.setattr(importlib.import_module("nqf_registry.verify.measured"), "MEMORY", 100)
    with pytest.raises(Undecided, match="GiB"):
        measure(at)
