"""What a verification will take is estimated before it begins, and one that is over its budget of time is not begun."""

import importlib
import time

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.budget import estimate, spoken


@pytest.fixture
def slow(layer):
    """A layer that takes a while at each call, and counts its calls."""
    calls = []

    def forward(W, x):
        calls.append(len(x))
        time.sleep(0.05)
        return torch.tanh(x @ W["u"]).square().sum(-1, keepdim=True)

    return layer("slow", forward=forward, blocks={"u": (3,)}), calls


def test_the_estimate_is_within_a_factor_of_three(layer):
    """Of a layer whose calls are slow enough for nothing else to count."""

    def forward(W, x):
        time.sleep(0.004)
        return torch.tanh(x @ W["u"]).square().sum(-1, keepdim=True)

    idle = layer("idle", forward=forward, blocks={"u": (3,)})
    found = estimate(idle)
    assert found is not None
    report = nqf.verify(idle)
    assert report.passed and report.seconds / 3 < found.seconds < 3 * report.seconds


def test_a_verification_over_its_budget_is_not_begun(slow):
    layer, calls = slow
    report = nqf.verify(layer, seconds=2)
    assert len(calls) < 20  # a few to estimate by, of more than three hundred
    assert report.count == "0 of 9 checks ran" and not report.passed and report.classification == "undecided"
    assert {check.status for check in report.checks} == {"undecided"} and report.hurried
    assert "its budget is 2 s" in report.cause and "it would take about" in report.cause and "seconds=" in report.cause
    assert str(report).count(report.cause) == 1 and "cannot be evaluated" not in str(report)
    assert report.cause in report.line() and nqf.verify(layer, seconds=2).cause


def test_it_is_not_kept_in_the_cache(slow, monkeypatch, tmp_path):
    from nqf_registry.verify import profiles

    module = importlib.import_module("nqf_registry.verify.verdict")  # by attribute one gets a function
    monkeypatch.setenv("NQF_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(profiles.PROFILES, "dev", profiles.Profile("dev", 8, 2, 0.1))
    monkeypatch.setattr(module, "source_hash", lambda layer: "known")
    layer, _ = slow
    assert module.verdict(layer).hurried and not module.verdict(layer).cached


def test_the_estimate_grows_with_the_profile_and_leaves_everything_as_it_was():
    layer = nqf.default_registry().get("two-layer-mlp")
    torch.manual_seed(3)
    before = torch.get_rng_state()
    few, many = estimate(layer, "dev"), estimate(layer, "deep")
    assert torch.equal(torch.get_rng_state(), before)
    assert few is not None and many is not None and many.seconds > 4 * few.seconds
    assert few.bytes == 8 * 136 * layer.n_params * layer.width


def test_what_cannot_be_called_has_no_estimate(layer):
    def forward(W, x):
        raise RuntimeError("not today")

    assert estimate(layer("raising", forward=forward, blocks={"u": (3,)})) is None
    assert estimate(nqf.default_registry().get("two-layer-mlp", n_in=2000, width=2000)) is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), "10", True])
def test_a_budget_is_a_positive_number(seconds):
    with pytest.raises(nqf.InvalidInput, match="seconds is how long"):
        nqf.verify(nqf.default_registry().get("quadratic-network"), seconds=seconds)


def test_durations_are_said_with_two_digits():
    assert [spoken(s) for s in (0.123, 89, 90, 5399, 5400)] == ["0.12 s", "89 s", "1.5 min", "90 min", "1.5 h"]


@pytest.mark.parametrize("size", ["weights", "inputs", "memory"])
def test_what_is_over_the_budget_of_memory_is_refused_before_the_work(layer, size):
    calls = []

    def forward(W, x):
        calls.append(len(x))
        if size == "memory":
            raise MemoryError
        return (x[:, :3] @ W["u"]).square().sum(-1, keepdim=True)

    def sample(self, n, generator):
        return {"x": torch.zeros(1, 1).expand(n, 2**26 if size == "inputs" else 3)}

    large = layer("large", forward=forward, blocks={"u": (3,)}, width=2**19 if size == "weights" else 4, sample=sample)
    report = nqf.verify(large)
    expected = {
        "weights": "W has 1572864 numbers at width 524288; the points of one check would take 1.6 GiB",
        "inputs": "the inputs of 8 samples would take 4.0 GiB in float64 and the budget is 2.0 GiB",
        "memory": "there was not the memory for one call (forward raised MemoryError",
    }
    assert expected[size] in report.cause and "Verify the layer at smaller sizes." in report.cause
    assert report.hurried and not report.passed and report.count == "0 of 9 checks ran"
    assert {check.status for check in report.checks} == {"undecided"} and len(calls) == (size == "memory")
    assert nqf.replay(large, "finiteness").status == "undecided"
