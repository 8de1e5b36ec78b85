"""Layers whose expansion through order two vanishes, or that do not move near zero: what the report says of them."""

import pytest
import torch
import torch.nn.functional as F

import nqf_registry as nqf
from nqf_registry.verify.residuals.remainder_order import remainder_slope


def swiglu(W, x):
    return (F.silu(x @ W["a"]) * (x @ W["b"])) @ W["v"].mT


def test_a_report_gives_the_leading_term_by_partition(layer):
    made = layer("swiglu", forward=swiglu, blocks={"a": (3,), "b": (3,), "v": (2,)})
    report = nqf.verify(made)
    assert report.passed and report.classification == "higher-order" and report.leading_order == 3
    (note,) = [note for note in report.notes if note.startswith("leading order 3: partition (3), |T| = ")]
    norms = report["remainder-order"].to_dict()["details"]["partitions"]
    assert set(norms) == {"3"} and f"{norms['3']:.3g}" in note
    form = nqf.leading_form(made, made.sample(4, torch.Generator().manual_seed(4)))
    assert set(form.norms) == {(3,)} and norms["3"] == pytest.approx(float(form.norms[(3,)].max()), rel=1e-9)


def test_couplings_between_neurons_are_partitions_of_their_own(layer):
    def pairs(W, x):
        return ((x @ W["u"]) ** 2).sum(-1, keepdim=True) ** 2

    report = nqf.verify(layer("pairs", forward=pairs, blocks={"u": (3,)}))
    assert report.classification == "higher-order" and report.leading_order == 4
    norms = report["remainder-order"].details["partitions"]
    assert set(norms) == {"4", "2+2"} and norms["4"] == pytest.approx(norms["2+2"])
    cube = nqf.verify(layer("cube", forward=lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 3, blocks={"u": (3,)}))
    assert cube.classification == "general-nqf"  # no zero gradient at zero
    assert set(cube["remainder-order"].details["partitions"]) == {"3", "2+1", "1+1+1"}


def test_a_leading_term_that_autodiff_misreads_is_taken_by_differences(layer):
    report = nqf.verify(
        layer("modulus", forward=lambda W, x: ((x @ W["u"]).abs() ** 4).sum(-1, keepdim=True), blocks={"u": (3,)})
    )
    assert report.leading_order == 4 and any("by differences" in note for note in report.notes if "partition" in note)


def test_an_order_above_six_passes_undecided_and_says_so(units):
    report = nqf.verify(units("seventh", lambda a: a**7))
    assert report.passed and report.classification == "undecided" and report.leading_order is None
    assert any("its leading order is 8" in note and "was measured all the same" in note for note in report.notes)
    assert not any("partition" in note for note in report.notes)


def test_a_layer_that_is_still_near_zero_passes_undecided_with_the_figure(units):
    """softshrink is zero up to ½: A = 0 there and the remainder vanishes, as promised, but the layer is no constant."""
    report = nqf.verify(units("shrink", F.softshrink))
    assert report.passed and report.classification == "undecided"
    assert any("does not move away from W = 0 up to weights of about" in note for note in report.notes)
    wrong = nqf.verify(units("shrink-declared", F.softshrink, slope=1.0))
    assert not wrong.passed and wrong["structure-matrix"].status == "fail"
    constant = nqf.verify(units("constant", lambda a: 0 * a, claims=nqf.Claims(exact=True)))
    assert constant.passed and constant.classification == "exact-nqf"
    assert nqf.verify(units("shrink-exact", F.softshrink, claims=nqf.Claims(exact=True)))["remainder-order"].status == "fail"


def test_fewer_than_three_decades_are_told_with_the_rounding_that_forbids_more(units, setting, normal):
    """With f(0) = 1000 the remainder of a tanh unit, of order ε⁴, is soon lost."""
    raised = units("raised", torch.tanh)
    object.__setattr__(raised, "forward", lambda W, x: torch.tanh(x["x"] @ W["u"]) @ W["v"].mT + 1000)
    at = setting(raised)
    form = nqf.quadratic_form(raised, at.x, torch.float64)
    seen = remainder_slope(at, lambda W: form.evaluate(raised.unstack(W)), normal(at, count=4))
    assert seen.slope == pytest.approx(4, abs=0.1) and seen.decades < 3
    assert 1e-17 < seen.floor < 1e-14 and seen.smallest > 1e-3
    plain = setting(units("tanh", torch.tanh))
    form = nqf.quadratic_form(plain.layer, plain.x, torch.float64)
    long = remainder_slope(plain, lambda W: form.evaluate(plain.layer.unstack(W)), normal(plain, count=4))
    assert long.decades >= 3 and long.low <= 4 <= long.high + 0.01


def test_the_note_on_few_decades_has_the_figure(layer):
    def forward(W, x):
        return torch.tanh(x @ W["u"]) @ W["v"].mT + 1000

    report = nqf.verify(layer("raised", forward=forward, claims=nqf.Claims(sign_symmetric=True)))
    assert report.passed, str(report)
    (note,) = [note for note in report.notes if "decades of ε only" in note]
    assert "within 100 times" in note and "length scales" in note


def test_errors_of_differences_are_no_remainder(layer):
    """Units tanh(|x∘u|²): autodiff gives nan for the norm, differences give A to ten digits, and the slope stays four."""

    def unit(w, x):
        return torch.tanh((x * w["u"]).norm(dim=-1, keepdim=True) ** 2)

    report = nqf.verify(layer("norm", unit=unit, blocks={"u": (3,)}, claims=nqf.Claims(sign_symmetric=True)))
    assert report.passed and report.classification == "nqf", str(report)
    assert "by differences" in report["structure-matrix"].message and report["remainder-order"].residual >= 3.9
