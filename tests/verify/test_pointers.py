"""Where a message sends its reader: to the check that is broken, to the right expectation, to a command that runs."""

import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.addresses import replay_line

PLUGIN = Path(__file__).parent / "broken_layers.py"


def declared(slope):
    return lambda self, x: nqf.quadratic("i,ni,o->no", "u", x, "v", scale=slope)


def tanh_units(W, x):
    return torch.tanh(x @ W["u"]) @ W["v"].mT


def relu_units(W, x):
    return torch.relu(x @ W["u"]) @ W["v"].mT


@pytest.mark.parametrize("slope", [1.0, 0.5])
def test_what_has_a_kink_has_no_structure_to_compare(layer, slope):
    """Half of x is the mean of both sides, which differences see; it is no quadratic form of f all the same."""
    report = nqf.verify(layer("kinked", forward=relu_units, structure=declared(slope)))
    check = report["structure-matrix"]
    assert not report.passed and report["smoothness"].status == "fail" and report.classification == "not-smooth"
    assert check.status == "undecided" and check.broken and "See smoothness first" in check.message
    assert "twice" not in str(report) and "one factor" not in str(report)
    assert nqf.replay(layer("kinked", forward=relu_units, structure=declared(slope)), "structure-matrix").status == "undecided"


@pytest.mark.parametrize("claims", [nqf.Claims(), nqf.Claims(smooth=False)])
def test_nothing_is_derived_from_a_kink_either(layer, claims):
    report = nqf.verify(layer("kinked", forward=relu_units, claims=claims))
    check = report["structure-matrix"]
    assert check.status == "not-applicable" and "none could be derived: f has no derivative of order 2" in check.message
    assert report.classification == "not-smooth" and report.passed is not claims.smooth


def test_a_kink_of_third_order_leaves_the_structure_comparable(layer):
    def forward(W, x):
        return tanh_units(W, x) + (x @ W["u"]).abs().pow(3).sum(-1, keepdim=True)

    report = nqf.verify(layer("third", forward=forward, structure=declared(1.0)))
    assert report["smoothness"].status == "fail" and report["structure-matrix"].status == "pass"
    report = nqf.verify(layer("third", forward=forward, structure=declared(0.5)))
    assert report["structure-matrix"].status == "fail" and "0.5 times" in report["structure-matrix"].advice


def test_a_gradient_written_for_a_kinked_layer_is_still_compared(layer):
    def pullback(self, W, x, cotangent):
        with torch.enable_grad():
            W = {name: block.detach().requires_grad_() for name, block in W.items()}
            grads = torch.autograd.grad((cotangent * relu_units(W, x["x"])).sum(), list(W.values()))
        return dict(zip(W, grads, strict=True))

    report = nqf.verify(layer("kinked", forward=relu_units, pullback=pullback, claims=nqf.Claims(smooth=False)))
    assert report["structure-matrix"].status != "undecided", report["structure-matrix"].message


def by_index(W, x):
    d = W["u"].shape[-1]
    return (torch.sin(x @ W["u"]) * (1 + torch.arange(d, dtype=W["u"].dtype) / 100)) @ W["v"].mT


def coupled(W, x):
    return (x @ W["u"]).sum(-1, keepdim=True) ** 2


def biased(W, x):
    return torch.tanh(x @ W["u"] + 0.3) @ W["v"].mT


@pytest.mark.parametrize(
    ("options", "broken"),
    [
        ({"forward": by_index}, "permutation-symmetry"),
        ({"forward": by_index, "claims": nqf.Claims(symmetric=False)}, "permutation-symmetry"),
        ({"forward": coupled, "blocks": {"u": (3,)}}, "zero-gradient-at-zero"),
        ({"forward": biased}, "zero-gradient-at-zero"),
        ({"forward": tanh_units, "structure": declared(2.0)}, "structure-matrix"),
    ],
)
def test_a_remainder_points_to_what_is_broken_and_to_nothing_else(layer, options, broken):
    subject = layer("pointing", **options)
    report = nqf.verify(subject)
    check = report["remainder-order"]
    assert check.status == "fail" and check.advice.startswith(f"This follows from what {broken} (")
    held = [other.name for other in report.checks if other.status in ("pass", "vacuous", "not-applicable")]
    assert not any(name in check.advice for name in [*held, "smoothness"]) and report[broken].status != "pass"
    assert nqf.replay(subject, check.counterexample["example"]).advice == check.advice


def test_a_remainder_of_a_kink_points_to_smoothness(layer):
    check = nqf.verify(layer("kinked", forward=relu_units))["remainder-order"]
    assert check.status == "fail" and "smoothness (with a kink" in check.advice and "permutation" not in check.advice


@pytest.mark.parametrize("options", [{"structure": declared(1.0)}, {}])
def test_what_holds_has_no_sentence_of_a_failure_in_its_details(layer, options):
    report = nqf.verify(layer("right", forward=tanh_units, blocks={"u": (3,), "v": (2,)}, **options))
    assert report.passed
    for check in report.checks:
        words = {name: value for name, value in check.details.items() if isinstance(value, str) and name != "source"}
        assert not set(words) - {"part"} and "unit" not in check.details and "advice" not in check.details, check
        assert (not check.advice and not check.measured) or check.status == "observed"
    observed = nqf.verify(layer("index", forward=by_index, claims=nqf.Claims(symmetric=False)))["permutation-symmetry"]
    assert observed.status == "observed" and "exchanged" in observed.details["moved"]


def within(W, x):
    return torch.einsum("ni,uid,d->n", x, W["u"], W["v"][0])[:, None] + (
        torch.sin(torch.einsum("ni,uid->nud", x, W["u"])).sum(1) @ W["v"].mT
    )


def test_units_inside_one_neuron_are_named_where_the_check_holds(layer):
    subject = layer("shared", forward=within, blocks={"u": (2, 3), "v": (1,)})
    report = nqf.verify(subject)
    check = report["minimality"]
    assert report.passed and check.status == "pass"
    assert (
        "between neurons leaves f as it is; inside one neuron it may (2 parts: u along axis 0; v in no part)" in check.message
    )
    (note,) = [note for note in report.notes if note.startswith("minimality")]
    assert "cannot be declared" in note and "one v" in note and "dict(u=(3,), v=(1,)), width 2·d" in note

    def product(W, x):
        return (x @ W["a"] * (x @ W["b"])).sum(-1, keepdim=True)

    report = nqf.verify(layer("product", forward=product, blocks={"a": (3,), "b": (3,)}))
    (note,) = [note for note in report.notes if note.startswith("minimality")]
    assert report.passed and "a | b" in note and "none is a unit of its own" in note
    plain = nqf.verify(layer("plain", forward=tanh_units))
    assert plain["minimality"].message.startswith("no exchange of parts between neurons leaves f as it is (worst")
    assert not [note for note in plain.notes if "minimality" in note]


def test_a_stack_written_by_unit_is_told_of_unit(layer):
    def unit(w, x):
        return (torch.sin(x @ w["u"].mT) * w["v"]).sum(-1, keepdim=True)

    check = nqf.verify(layer("stack", unit=unit, blocks={"u": (2, 3), "v": (2,)}))["minimality"]
    assert check.status == "fail" and "let unit give that one; the layer sums" in check.advice and "forward" not in check.advice


def test_a_gradient_that_is_cut_off_is_expected_to_be_one(layer):
    def unit(w, x):
        return torch.from_numpy(np.tanh((x @ w["u"]).detach().numpy()))[:, None] * w["v"]

    check = nqf.verify(layer("numpy", unit=unit, structure=declared(1.0)))["structure-matrix"]
    assert check.status == "fail" and check.details["part"] == "gradient"
    assert check.expected.startswith("the gradient that autograd gives is that of f") and "declared" not in check.expected
    assert not check.measured.endswith("measured by differences")


def single(w, x):
    return (torch.sin(x.float() @ w["u"].float())[:, None] * w["v"].float()).to(w["v"].dtype)


def test_single_precision_is_the_reason_and_not_what_it_led_to(layer):
    report = nqf.verify(layer("single", unit=single))
    (note,) = [note for note in report.notes if "classification" in note]
    assert report.classification == "undecided" and "rounding error" in note and "float32" in note


def test_two_dtypes_that_meet_decide_nothing(layer):
    report = nqf.verify(layer("constant", unit=lambda w, x: torch.sin(x @ torch.ones(3, 3) @ w["u"])[:, None] * w["v"]))
    assert {check.status for check in report.checks} == {"undecided"} and not report.passed
    assert "dtype" in report["finiteness"].cause and report.count == "0 of 9 checks ran"
    text = str(report)
    assert "it cannot be evaluated in float64 (0 of 9 checks ran)" in text and "finiteness failed" not in text

    def at_zero(W, x):  # only where W is zero, which the first call is not
        return tanh_units(W, x if W["u"].any() else x.float())

    check = nqf.verify(layer("zero", forward=at_zero))["finiteness"]
    assert check.status == "undecided" and "dtype" in check.cause


def test_a_layer_of_a_high_order_says_why_it_has_no_name(layer):
    report = nqf.verify(layer("seventh", unit=lambda w, x: ((x @ w["u"]) ** 6)[:, None] * w["v"]))
    assert report.passed and report.classification == "undecided"
    for line in (str(report).splitlines()[0], report.line()):
        assert "passed, undecided: its leading order is 7, and orders up to 6 have a name" in line
    assert nqf.Report.from_dict(report.to_dict()).line() == report.line()


@dataclass(frozen=True)
class Local(nqf.Layer):
    """Twice what it declares; no plugin registers it."""

    key = "quadratic-network"
    width: int = 2

    def blocks(self):
        return {"u": (3,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def unit(self, w, x):
        return (x["x"] @ w["u"])[:, None] ** 2

    def structure(self, x):
        return nqf.quadratic("i,ni,nj,j->n", "u", x["x"], x["x"], "u", scale=2.0)


def test_a_class_that_nothing_registers_is_replayed_in_python():
    """Its key belongs to another class, which a command would verify instead."""
    check = nqf.verify(Local())["structure-matrix"]
    assert check.replay == "nqf.replay(layer, 'structure-matrix')" and check.message.endswith(f"Replay: {check.replay}")
    assert eval(check.replay, {"nqf": nqf, "layer": Local()}).status == "fail"


def test_a_class_of_a_plugin_file_is_replayed_with_it(tmp_path):
    subject = nqf.Registry.load(plugins=[str(PLUGIN)], entry_points=False).get("twice-a")
    check = nqf.verify(subject)["structure-matrix"]
    program, *arguments = shlex.split(check.replay)
    assert program == "nqf" and arguments[:4] == ["verify", "twice-a", "--plugin", str(PLUGIN)]
    code = f"import sys; from nqf_registry.cli.main import main; sys.exit(main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "structure-matrix failed" in done.stdout, done.stderr


def test_an_installed_class_needs_no_file_and_a_size_that_cannot_be_typed_no_command():
    layer = nqf.default_registry().get("quadratic-network", width=3)
    assert replay_line(layer, "smoothness") == "nqf verify quadratic-network --set width=3 --replay 'smoothness'"

    @dataclass(frozen=True)
    class Held(Local):
        phi: object = None

    assert replay_line(Held(phi=torch.tanh), "smoothness") == "nqf.replay(layer, 'smoothness')"
