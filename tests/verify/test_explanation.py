"""What a layer's own code gets wrong is named by method, file and line, once, with what to write."""

from pathlib import Path

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.explanation import about_inputs

HERE = Path(__file__).name


def told(layer):
    """The report of a layer that cannot be evaluated, as text."""
    report = nqf.verify(layer)
    text = str(report)
    assert not report.passed and report.cause and len(report.checks) == 9
    assert " ".join(text.split()).count(report.cause) == 1 and "checks were not tried" in text
    # in a coarser arithmetic it may have a value, and of inputs that are none f is not asked
    if "float64" not in text.splitlines()[0] and not about_inputs(report.cause):
        assert "replay:" in text and report["finiteness"].expected and report["finiteness"].measured == report.cause
    assert report.cause in report.line() and report.cause in report["determinism"].message
    return report.cause


def made(unit=None, **methods):
    """A layer of u (3) and v (2) whose methods are written in this file."""
    from dataclasses import dataclass

    def plain(self, w, x):
        return torch.tanh(x["x"] @ w["u"])[:, None] * w["v"]

    body = {
        "__annotations__": {"width": int},
        "__module__": __name__,
        "width": 4,
        "key": "made",
        "blocks": lambda self: {"u": (3,), "v": (2,)},
        "sample": lambda self, n, generator: {"x": torch.randn(n, 3, generator=generator)},
        "unit": unit or plain,
        **methods,
    }
    return dataclass(frozen=True)(type("Made", (nqf.Layer,), body))()


def test_a_block_that_is_not_there():
    def unit(self, w, x):
        return (x["x"] @ w["k"])[:, None]

    line = unit.__code__.co_firstlineno + 1
    assert told(made(unit)) == f"unit asked for block 'k'; the blocks are u, v ({HERE}, line {line})"


def test_an_input_that_is_not_there():
    def unit(self, w, x):
        return (x["y"] @ w["u"])[:, None]

    assert told(made(unit)).startswith("unit asked for input 'y'; the inputs are x (")


def test_a_sample_that_is_no_dict():
    cause = told(made(sample=lambda self, n, generator: torch.randn(n, 3, generator=generator)))
    assert cause == "sample must return a dict of tensors with leading axis n, got Tensor"
    cause = told(made(sample=lambda self, n, generator: {"x": torch.randn(3, 3, generator=generator)}))
    assert "asked for n = 8" in cause and "(3, 3)" in cause


def test_a_unit_of_one_output_without_its_axis():
    cause = told(made(lambda self, w, x: torch.tanh(x["x"] @ w["u"])))
    assert cause == "unit must return (n, k), k outputs; got (8,): add [:, None] for one output"


def test_a_mismatch_of_shapes_names_the_line():
    def unit(self, w, x):
        return (x["x"] @ w["v"])[:, None]

    cause = told(made(unit))
    assert cause.startswith("unit raised RuntimeError") and f"{HERE}, line {unit.__code__.co_firstlineno + 1}" in cause
    assert "one neuron has u (3,), v (2,), the inputs are x (n, 3)" in cause


@pytest.mark.parametrize("part", ["unit", "structure", "linear"])
def test_constants_in_single_precision(part):
    def unit(self, w, x):
        return torch.tanh(x["x"] @ torch.eye(3) @ w["u"])[:, None] * w["v"]

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"] @ torch.eye(3), "v")

    def linear(self, x):
        return {"u": (x["x"] @ torch.eye(3))[:, None].expand(-1, 2, -1)}

    methods = {"unit": unit, "structure": structure, "linear": linear}
    subject = made(**{part: methods[part]})
    text = told(subject) if part == "unit" else str(nqf.verify(subject))
    assert f"{part} raised RuntimeError" in text
    assert "verification runs in float64: make constants with x's dtype" in text


def test_an_offset_in_single_precision_is_told_from_a_wrong_one():
    def unit(self, w, x):
        return torch.tanh(x["x"] @ w["u"])[:, None] * w["v"] + 0.1 / self.width

    message = nqf.verify(made(unit, offset=lambda self, x: torch.tensor(0.1)))["structure-matrix"].message
    assert "single precision" in message and "dtype" in message


def test_a_wrong_offset_is_told_by_itself():
    """The measured f(0) is zero, so no error relative to it is told, and a constant remainder has no interval."""
    subject = made(
        structure=lambda self, x: nqf.quadratic("i,ni,o->no", "u", x["x"], "v"),
        offset=lambda self, x: torch.ones(len(x["x"]), 2),
    )
    report = nqf.verify(subject)
    structure, remainder = report["structure-matrix"], report["remainder-order"]
    assert structure.status == remainder.status == "fail"
    assert "is declared 1 and measured 0 (off by 1)" in structure.message and structure.residual == pytest.approx(1)
    assert "not added to it" in structure.message and "Hessian" not in structure.message
    assert "f(0) is wrong" in remainder.message and "interval" not in remainder.message
    assert "nan" not in str(report)


def test_a_cause_that_checks_share_is_said_once():
    def structure(self, x):
        raise RuntimeError("not today")

    text = str(nqf.verify(made(structure=structure)))
    assert text.count("not today") == 1 and "structure-matrix, remainder-order: structure raised" in text


def test_counterexamples_are_short_and_whole_in_json():
    report = nqf.verify(made(structure=lambda self, x: nqf.quadratic("i,ni,o->no", "u", x["x"], "v", scale=2)))
    text = str(report)
    assert "twice the truth" in " ".join(text.split())
    told = text.partition("structure-matrix failed")[2].partition("remainder-order failed")[0]
    assert all(len(line) < 120 for line in told.splitlines()) and "x.x" not in told
    assert len(report["structure-matrix"].counterexample["x"]["x"]) == 4


def test_a_check_that_did_not_run_says_why_in_the_table():
    def unit(self, w, x):
        return torch.tanh(x["x"][:, :1] * w["u"])

    one_number = made(unit, blocks=lambda self: {"u": (1,)})  # a neuron that nothing can be split off
    rows = [line for line in str(nqf.verify(one_number)).splitlines() if "minimality" in line]
    assert len(rows) == 1 and rows[0].endswith("nothing to split")


def test_sample_must_use_its_generator():
    report = nqf.verify(made(sample=lambda self, n, generator: {"x": torch.randn(n, 3)}))
    assert report["determinism"].status == "fail" and not report.passed
    assert "sample must draw from the generator it is given" in report["determinism"].message
    assert "torch's random state" in report["determinism"].message

    hidden = torch.Generator().manual_seed(0)
    report = nqf.verify(made(sample=lambda self, n, generator: {"x": torch.randn(n, 3, generator=hidden)}))
    assert "two equal generators gave different 'x'" in report["determinism"].message
    assert "no function" not in str(report)


class Leaves(BaseException):
    """What a layer may raise that is no Exception."""


@pytest.mark.parametrize("error", [SystemExit(5), Leaves("gone")])
@pytest.mark.parametrize("method", ["unit", "structure", "variants"])
def test_a_layer_that_leaves_the_program_is_one_that_does_not_pass(error, method):
    def leave(self, *_):
        raise error

    report = nqf.verify(made(**{method: leave}))
    assert not report.passed and type(error).__name__ in str(report)


def test_variants_that_raise_or_are_no_layers_are_told():
    def broken(self):
        raise ValueError("no variants today")

    assert "no variants today" in told(made(variants=broken))
    assert "variants must give further layers, got int" in told(made(variants=lambda self: [3]))
