"""The same runs on a GPU."""

import pytest
import torch

import nqf_registry as nqf

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")]


@pytest.mark.parametrize("options", [{"optimizer": "gd"}, {"optimizer": "adam", "batch": 16, "lr": 0.01}])
def test_float64_agrees_with_the_cpu(units, data, options):
    runs = [
        nqf.compare(units, data, steps=100, scale=0.1, replicas=3, dtype="float64", device=device, verify=False, **options)
        for device in ("cpu", "cuda")
    ]
    first, second = (run.curves()[1] for run in runs)
    assert abs(first - second).max() <= 1e-9 * first.max()
    assert all(block.device.type == "cuda" for block in runs[1].weights["nqf"].values())


@pytest.mark.parametrize("key", nqf.default_registry().keys())
def test_every_entry_runs_there(key):
    layer = nqf.default_registry().get(key)
    run = nqf.compare(layer, nqf.teacher(layer, n=64), steps=20, scale=0.01, device="cuda", verify=False)
    assert run.status == "finished"
