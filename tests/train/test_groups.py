"""Replicas in groups and chunks: what one call computes decides the last bits, what steps together decides nothing."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.groups import fitting

RULES = {
    "gd": {"lr": 0.02},
    "nesterov": {"optimizer": "nesterov", "lr": [0.01, 0.02, 0.03, 0.01, 0.01], "weight_decay": [0.0, 0.1, 0.0, 0.0, 0.2]},
    "adam": {"optimizer": "adam", "lr": 1e-3, "batch": 8},
}
FILES = ("records.jsonl", "weights.safetensors", "checkpoint.safetensors")


def train(units, data, rule, **more):
    settings = {"steps": 120, "replicas": 5, "scale": 0.3, "records": 15, "verify": False, **RULES[rule], **more}
    models = ["original", "nqf"] if rule == "adam" else ["original", "nqf", "order-parameters", "compressed"]
    return nqf.compare(units, data, models, **settings)


@pytest.mark.parametrize("rule", RULES)
def test_a_replica_is_the_same_in_every_group_to_rounding(units, data, rule):
    whole = train(units, data, rule, dtype="float64", replica_chunk=5)
    for size in (1, 2, 4):
        parts = train(units, data, rule, dtype="float64", replica_chunk=size)
        for name in whole.data.data_vars:
            if "distance" not in str(name):
                np.testing.assert_allclose(parts.data[name].values, whole.data[name].values, rtol=1e-9, atol=1e-13)
        assert set(parts.manifest["replica_groups"].values()) == {size}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("chunk", [1, 3, 4, 5])
def test_a_chunk_of_other_size_changes_no_bit(units, data, tmp_path, rule, chunk):
    def stop(step, steps, loss):
        if step >= 16:
            raise KeyboardInterrupt

    train(units, data, rule, replica_chunk=2, directory=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(units, data, rule, replica_chunk=2, directory=tmp_path / "run", progress=stop)
    with pytest.raises(KeyboardInterrupt):
        nqf.resume(tmp_path / "run", layer=units, progress=stop, checkpoint=0)
    nqf.resume(tmp_path / "run", layer=units, replica_chunk=chunk)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_a_group_fits_the_cache_and_holds_a_replica_at_least():
    assert fitting({"u": torch.zeros(1000, 8, 16), "v": torch.zeros(1000, 1, 16)}, samples=100) < 1000
    assert fitting({"u": torch.zeros(3, 1, 10**6)}, samples=100) == 1
    assert fitting({"u": torch.zeros(3, 1, 2)}, samples=10) == 3


def test_what_takes_all_replicas_at_once_is_told(units, data):
    with pytest.raises(InvalidInput, match=r"takes all replicas at once; leave replica_chunk out"):
        nqf.train(nqf.NQF(units), data, "adamw", lr=1e-3, replicas=4, replica_chunk=2, steps=2, verify=False)
    with pytest.raises(InvalidInput, match="replica_chunk must be a whole number of at least 1"):
        nqf.train(nqf.NQF(units), data, replica_chunk=0, steps=2, verify=False)
    nqf.train(nqf.NQF(units), data, "adamw", lr=1e-3, replicas=4, steps=2, verify=False)
