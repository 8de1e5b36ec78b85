"""A declared gradient is held against autograd's."""

import pytest
import torch

import nqf_registry as nqf


def gradient(self, W, x, cotangent):
    h = x["x"] @ W["u"]  # (..., n, d)
    return {"u": x["x"].mT @ ((cotangent @ W["v"]) * torch.cos(h)), "v": cotangent.mT @ torch.sin(h)}


def build(units, change=lambda g: g, **more):
    return units("sines", torch.sin, pullback=lambda self, W, x, c: change(gradient(self, W, x, c)), **more)


@pytest.mark.parametrize("more", [{}, {"slope": 1.0}, {"batched": True}], ids=["alone", "with-structure", "batched"])
def test_a_right_gradient_passes(units, more):
    check = nqf.verify(build(units, **more))["structure-matrix"]
    assert check.status == "pass" and "pullback" in check.message


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: {name: 2 * t for name, t in g.items()}, "twice the truth"),
        (lambda g: g | {"v": torch.zeros_like(g["v"])}, r"the pullback by v\["),
        (lambda g: g | {"u": (1 + 1e-8) * g["u"]}, r"the pullback by u\["),
        (lambda g: g | {"u": g["u"].flip(-1)}, "neuron"),
    ],
)
@pytest.mark.parametrize("slope", [None, 1.0])
def test_a_wrong_gradient_fails_and_names_the_entry(units, change, words, slope):
    report = nqf.verify(build(units, change, slope=slope))
    check = report["structure-matrix"]
    assert check.status == "fail" and not report.passed
    assert words.replace("\\", "") in check.message and "autograd" in check.message
    assert check.counterexample["part"] == "pullback" and check.counterexample["declared"] != check.counterexample["measured"]


@pytest.mark.parametrize("change", [lambda g: {"u": g["u"]}, lambda g: g | {"u": g["u"][:1]}])
def test_a_gradient_of_another_shape_keeps_a_layer_from_passing(units, change):
    report = nqf.verify(build(units, change))
    assert not report.passed and "pullback must return" in report["structure-matrix"].message


def test_a_wrong_gradient_of_a_large_layer_is_seen_too(units, monkeypatch):
    from nqf_registry.verify.checks import structure_matrix

    monkeypatch.setattr(structure_matrix, "too_large", lambda setting: True)
    assert nqf.verify(build(units, slope=1.0))["structure-matrix"].status == "pass"
    wrong = nqf.verify(build(units, lambda g: g | {"u": 2 * g["u"]}, slope=1.0))["structure-matrix"]
    assert wrong.status == "fail" and wrong.counterexample["part"] == "pullback"
