"""Reports: the same for the same seed, the JSON that was promised, and text that a reader can act on."""

import json

import pytest
import torch

import nqf_registry as nqf

KEYS = {"layer", "passed", "classification", "leading_order", "checks"}
CHECK_KEYS = {"name", "status", "residual", "tolerance", "examples", "message"}


@pytest.fixture(scope="module")
def report():
    return nqf.verify(nqf.default_registry().get("two-layer-mlp", activation="gelu"))


def test_json_has_the_promised_keys_and_no_others_that_json_lacks(report):
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert set(data) >= KEYS and len(data["checks"]) == 9
    assert all(set(check) >= CHECK_KEYS for check in data["checks"])
    assert data["sizes"]["activation"] == "gelu" and data["versions"]["torch"] == torch.__version__
    assert len(data["source"]) == 64


def test_a_report_survives_json(report):
    again = nqf.Report.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again.to_dict() == report.to_dict()
    assert again["structure-matrix"] == nqf.Check.from_dict(report["structure-matrix"].to_dict())


def test_a_failing_report_survives_json_with_its_counterexample(units):
    report = nqf.verify(units("relu", torch.relu, slope=0.5))
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["checks"][4]["counterexample"]["x"]["x"]
    assert nqf.Report.from_dict(data).to_dict() == data


@pytest.mark.parametrize("phi", [torch.tanh, torch.relu])
def test_one_seed_one_report(units, phi):
    def measured(seed):
        data = nqf.verify(units("phi", phi, slope=1.0), seed=seed).to_dict()
        return {name: value for name, value in data.items() if name != "seconds"}

    first, other = measured(0), measured(5)
    assert first == measured(0) != other
    assert first["classification"] == other["classification"]


def test_text_names_the_numbers_and_the_next_step(units):
    text = str(nqf.verify(units("twice", torch.tanh, slope=2.0)))
    for part in ("DID NOT PASS", "9 of 9 checks ran", "structure-matrix failed", "declared 2.24", "transposes"):
        assert part in text
    for label in ("expected:", "measured:", "counterexample:", "next:", "replay:"):
        assert f"    {label} " in text


def test_the_line_says_what_is_wrong(units, report):
    assert report.line().startswith("two-layer-mlp: passed, nqf, ")
    line = nqf.verify(units("twice", torch.tanh, slope=2.0)).line()
    assert "did not pass" in line and "structure-matrix failed" in line and "\n" not in line


def test_an_unknown_check_is_named(report):
    with pytest.raises(KeyError, match="determinism"):
        report["nonsense"]


def test_wrong_use_is_told():
    with pytest.raises(nqf.InvalidInput, match="dev, ci, deep"):
        nqf.verify(nqf.default_registry().get("two-layer-mlp"), profile="quick")
    with pytest.raises(nqf.InvalidInput, match="instance"):
        nqf.verify(type(nqf.default_registry().get("two-layer-mlp")))


def test_nothing_outside_changes(units):
    import random
    import warnings

    import numpy

    torch.manual_seed(1)
    random.seed(1)
    numpy.random.seed(1)
    before = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].copy(), list(warnings.filters)

    def rude(W, x):
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(0)
        raise RuntimeError

    subject = units("rude", torch.tanh)
    nqf.verify(subject)
    type(subject).forward = lambda self, W, x: rude(W, x)
    nqf.verify(subject)
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()
    assert (before[2] == numpy.random.get_state()[1]).all() and before[3] == list(warnings.filters)
    assert torch.get_default_dtype() == torch.float32


def test_hypothesis_leaves_nothing_at_the_garbage_collector():
    """An interrupt that meets such a callback would be lost. In a new process: hypothesis adds it once only."""
    import subprocess
    import sys

    code = (
        "import gc, nqf_registry as nqf; before = list(gc.callbacks); layer = nqf.default_registry().get('quadratic-network');"
        "assert nqf.verify(layer).passed; assert gc.callbacks == before, gc.callbacks"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
