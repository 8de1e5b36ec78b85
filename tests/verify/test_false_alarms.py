"""Good layers that once raised a false alarm, and a short run of the study that looks for more."""

import importlib.util
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf

FILE = Path(__file__).parent.parent.parent / "benchmarks" / "false_alarms.py"


@pytest.fixture(scope="module")
def study():
    spec = importlib.util.spec_from_file_location("false_alarms", FILE)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # where dataclasses look their annotations up
    spec.loader.exec_module(module)
    return module


def test_an_offset_given_as_a_number_is_one_in_float64(layer):
    third = 1 / 3  # no number of single precision
    report = nqf.verify(
        layer("a-third", forward=lambda W, x: torch.tanh(x @ W["u"]) @ W["v"].mT + third, offset=lambda self, x: third)
    )
    assert report["structure-matrix"].status == "pass", str(report)


@pytest.mark.parametrize("fixed", [False, True])
def test_variants_of_width_one_beside_a_width_of_one(units, fixed):
    other = units("other", torch.sin, width=1, fixed=fixed)
    report = nqf.verify(units("one-neuron", torch.tanh, width=1, variants=lambda self: [other]))
    assert report.passed and report.classification == "nqf", str(report)
    assert report["permutation-symmetry"].examples > 0


def test_a_sample_that_leaves_its_leading_order_early_does_not_put_autodiff_in_the_wrong(study):
    fields = {"dim": 2, "tokens": 5, "d_k": 2, "n_out": 3, "width": 1, "readout_seed": 1582}
    layer = study.scaled(nqf.default_registry().get("query-key-attention", **fields), 587.0)
    report = nqf.verify(layer, seed=2)
    assert report.passed and report.classification == "nqf", str(report)


def test_a_large_offset_that_hides_the_smallest_changes_does_not_hide_the_law(study):
    result = study.measure("query-key-attention", 17, "dev")
    assert not result.alarm, str(result.report)


def test_each_entry_is_drawn_with_each_of_its_fields(study):
    registry = nqf.default_registry()
    assert sorted(study.FIELDS) == registry.keys()
    for key in study.FIELDS:
        fields, factor = study.draw(key, 3)
        layer = study.scaled(registry.get(key, **fields), factor)
        assert {name: getattr(layer, name) for name in fields} == fields and 1e-4 <= factor <= 1e4
        assert study.draw(key, 3) == (fields, factor) != study.draw(key, 4)
        assert math.isclose(
            largest(layer.sample(4, torch.Generator().manual_seed(0))),
            factor * largest(registry.get(key, **fields).sample(4, torch.Generator().manual_seed(0))),
            rel_tol=1e-6,
        )


def largest(x):
    """The largest floating number of some inputs; 0 where they are integers."""
    return max((float(value.abs().max()) for value in x.values() if value.is_floating_point()), default=0.0)


@dataclass(frozen=True)
class Rough(nqf.Layer):
    """Σ v_i relu(u_i · x)."""

    key = "two-layer-mlp"
    width: int = 2

    def blocks(self):
        return {"u": (3,), "v": (1,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def unit(self, w, x):
        return torch.relu(x["x"] @ w["u"])[:, None] * w["v"]


def test_the_study_tells_an_alarm(study, monkeypatch):
    monkeypatch.setitem(study.FIELDS, "two-layer-mlp", {"width": (2, 3)})
    monkeypatch.setattr(nqf.Registry, "get", lambda self, key, **fields: Rough(**fields))
    result = study.measure("two-layer-mlp", 0, "dev")
    assert "smoothness failed" in result.alarm and result.wanted == "exact-nqf"
    assert study.command(result, "dev").endswith("--entry two-layer-mlp --seed 0 --profile dev")
    assert study.summary([result]).startswith("two-layer-mlp: 0 of 1 passed")


@pytest.mark.slow
def test_two_seeds_of_each_entry_raise_no_alarm(study):
    results = [study.measure(key, seed, "dev") for key in study.FIELDS for seed in (0, 1)]
    assert not [(result.alarm, study.command(result, "dev")) for result in results if result.alarm]
