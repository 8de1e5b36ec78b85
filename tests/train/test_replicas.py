"""A replica is the run it would be alone, whatever stands beside it."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf


@pytest.mark.parametrize("batch", [None, 10])
@pytest.mark.parametrize("optimizer", ["gd", "momentum", "adam"])
def test_replicas_equal_solo_runs(units, data, optimizer, batch):
    options = {
        "steps": 80,
        "lr": 0.02,
        "scale": 0.1,
        "dtype": "float64",
        "optimizer": optimizer,
        "batch": batch,
        "verify": False,
    }
    together = nqf.compare(units, data, replicas=3, seed=2, **options)
    for r in range(3):
        alone = nqf.compare(units, data, seed=2 + r, **options)
        np.testing.assert_allclose(together.curves()[1][:, r], alone.curves()[1][:, 0], rtol=1e-11)
        for model in ("original", "nqf"):
            for name, block in alone.weights[model].items():
                torch.testing.assert_close(together.weights[model][name][r], block[0], rtol=1e-9, atol=1e-12)


def test_rates_scales_decays_and_seeds_by_replica(units, data):
    lists = {"lr": [0.1, 0.3, 0.2], "scale": [0.1, 0.05, 0.2], "weight_decay": [0.0, 0.1, 0.02], "seed": [9, 9, 4]}
    options = {"steps": 60, "dtype": "float64", "verify": False}
    together = nqf.compare(units, data, **lists, **options)
    assert together.data.sizes["replica"] == 3
    assert together.data["lr"].values.tolist() == lists["lr"] and together.data["seed"].values.tolist() == lists["seed"]
    steps = together.data["step"].values
    np.testing.assert_allclose(together.data["time"].values, np.outer(lists["lr"], steps))
    for r in range(3):
        alone = nqf.compare(units, data, **{name: values[r] for name, values in lists.items()}, **options)
        np.testing.assert_allclose(together.curves()[1][:, r], alone.curves()[1][:, 0], rtol=1e-11)


@pytest.mark.parametrize("scale", [[0.1, 0.2], (0.1, 0.2), np.array([0.1, 0.2]), torch.tensor([0.1, 0.2], dtype=torch.float64)])
def test_one_list_says_how_many(units, data, scale):
    run = nqf.train(nqf.NQF(units), data, scale=scale, steps=2, lr=0.1, verify=False)
    assert run.manifest["settings"]["seeds"] == [0, 1] and run.manifest["settings"]["scales"] == [0.1, 0.2]


@pytest.mark.parametrize("key", ["matrix-completion", "single-layer-cnn", "multi-head-attention", "diagonal-linear-square"])
def test_replicas_equal_solo_runs_of_other_layers(key):
    layer = nqf.default_registry().get(key)
    data = nqf.teacher(layer, n=32)
    options = {"steps": 30, "scale": 0.1, "dtype": "float64", "verify": False, "lr": 0.05}
    together = nqf.compare(layer, data, replicas=2, **options)
    for r in range(2):
        alone = nqf.compare(layer, data, seed=r, **options)
        np.testing.assert_allclose(together.curves()[1][:, r], alone.curves()[1][:, 0], rtol=1e-10)
