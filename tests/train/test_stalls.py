"""A run whose loss does not move says so and why; a run that moves says nothing."""

from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class Zeros(nqf.Layer):
    """f(W) = sum_i (w_i . x)^2, begun at zero."""

    key = "test-zeros"
    n_in: int = 3
    width: int = 2

    def blocks(self):
        return {"w": (self.n_in,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        return (x["x"] @ W["w"]).square().sum(-1, keepdim=True)

    def random(self, generator, scale=1.0, dtype=torch.float32, device="cpu"):
        return self.zeros(dtype, device)


def stall(run):
    assert run.status == "finished" and any(line.startswith("stalled: ") for line in run.summary())
    return run.manifest["stalled"]


def test_a_rate_that_rounding_swallows(units, data, tmp_path):
    run = nqf.compare(units, data, lr=1e-30, steps=20, verify=False, directory=tmp_path / "run")
    found = stall(nqf.Run.open(tmp_path / "run"))
    assert found["model"] == "original" and found["count"] == 2 and found["message"] == run.manifest["stalled"]["message"]
    assert "stayed at" in found["message"] and "every step is lost in the rounding of the weights" in found["message"]


def test_weights_that_grow_too_slowly(units, data):
    found = stall(nqf.compare(units, data, lr=1e-4, steps=20, scale=1e-12, dtype="float64", verify=False, models="nqf"))
    assert (
        "small weights grew by 0.0" in found["message"]
        and "% at most" in found["message"]
        and "times as long" in found["message"]
    )
    found = stall(nqf.compare(units, data, optimizer="flow", until=0.01, scale=1e-12, dtype="float64", verify=False))
    assert "through all times up to 0.01" in found["message"] and "Let it run on" in found["message"]
    found = stall(nqf.compare(units, data, optimizer="adam", lr=1e-15, steps=3, scale=1e-10, dtype="float64", verify=False))
    assert "its weights moved too little" in found["message"]


@pytest.mark.parametrize("options", [{"lr": 0.1}, {"optimizer": "adamw"}, {"optimizer": "flow", "until": 3.0}])
def test_weights_that_are_zero(options):
    layer = Zeros()
    data = nqf.Data(x=layer.sample(8, torch.Generator().manual_seed(0)), y=torch.ones(8, 1), name="ones")
    if "until" not in options:
        options["steps"] = 5
    found = stall(nqf.compare(layer, data, ["original"], verify=False, dtype="float64", **options))
    assert "its weights are exactly zero, where the gradient vanishes" in found["message"]


def test_one_replica_of_several(units, data):
    found = stall(nqf.compare(units, data, ["nqf"], lr=[0.5, 1e-30], steps=400, scale=0.1, seed=[3, 8], verify=False))
    assert found["replica"] == 1 and found["seed"] == 8 and found["count"] == 1


def test_a_run_that_moves_says_nothing(units, data):
    for options in ({"steps": 100}, {"steps": 0}, {"optimizer": "adam", "steps": 5}):
        run = nqf.compare(units, data, verify=False, **options)
        assert "stalled" not in run.manifest and not any(line.startswith("stalled") for line in run.summary())
    layer = Zeros()
    solved = nqf.Data(x=layer.sample(8, torch.Generator().manual_seed(0)), y=torch.zeros(8, 1), name="zeros")
    assert "stalled" not in nqf.compare(layer, solved, ["original"], lr=0.1, steps=5, verify=False).manifest
