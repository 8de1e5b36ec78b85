"""Whatever is given for a setting, it is taken for what it says or told as wrong use, before a folder is made."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput

LARGE = 10**400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": ["gd"]}, r"optimizer must be one of .*got \['gd'\]"),
        ({"loss": ["squared"]}, "loss must be one of"),
        ({"optimizer": "momentum", "momentum": "a"}, "momentum must be a finite number, got 'a'"),
        ({"optimizer": "momentum", "momentum": [0.1]}, "momentum must be a finite number"),
        ({"momentum": "a"}, "momentum must be a finite number"),
        ({"records": 2.5}, "records must be a number of records or a list of steps, got 2.5"),
        ({"records": None}, "records must be a number of records"),
        ({"records": "abc"}, "records must be a number of records"),
        ({"records": True}, "records must be a number of records"),
        ({"records": [1.5]}, "each of records must be a whole number"),
        ({"probes": 7}, "probes must be names of built-in ones"),
        ({"probes": [7]}, "there is no built-in probe 7"),
        ({"probes": {"a": 5}}, "the probe 'a' must be a function of the weights, got int"),
        ({"probes": {3: torch.sum}}, "a probe's name must be a word, got 3"),
        ({"steps": True}, "steps must be a whole number"),
        ({"steps": 2**60}, "steps must be a whole number from 0 to"),
        ({"seed": 2**64}, "seed must be a whole number from 0 to 9223372036854775807, got 18446744073709551616"),
        ({"seed": 2**63 - 1, "replicas": 2}, "seed must be a whole number from 0 to 9223372036854775806"),
        ({"seed": [0, LARGE]}, "seed must be a whole number from 0 to .* got an integer of 1329 bits"),
        ({"batch": 8, "batch_seed": 2**64}, "batch_seed must be a whole number from 0 to"),
        ({"lr": 1e39}, r"lr must lie in the range of float32, 1.18e-38 to 3.4e\+38; got 1e\+39"),
        ({"lr": 1e300}, "lr must lie in the range of float32"),
        ({"lr": LARGE}, "lr must lie in the range of float32, .* got an integer of 1329 bits"),
        ({"lr": LARGE, "dtype": "float64"}, "lr must lie in the range of float64"),
        ({"lr": 1e-300}, "lr must lie in the range of float32"),
        ({"weight_decay": 1e39}, "weight_decay must lie in the range of float32"),
        ({"scale": [0.1, 1e39]}, "scale must lie in the range of float32"),
        ({"device": "meta"}, "device 'meta' cannot be used here"),
        ({"device": None}, "device 'None' cannot be used here"),
        ({"device": ["cpu"]}, "cannot be used here"),
        ({"dtype": ["float32"]}, "dtype must be float32 or float64"),
        ({"models": []}, "nqf.compare takes a model or several"),
        ({"models": 7}, "models must be names, classes or models of test-units, such as nqf.NQF; got 7"),
        ({"models": "nfq"}, "there is no model 'nfq'. Did you mean .nqf."),
        ({"models": [str]}, "models must be names, classes or models of test-units"),
    ],
)
def test_what_is_no_setting_is_told(units, data, tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.compare(units, data, **{"lr": 0.1, "directory": tmp_path / "run", "verify": False, **options})
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("directory", [5, "", "a\0b", b"here"])
def test_what_is_no_path_is_told(units, data, directory):
    with pytest.raises(InvalidInput, match="directory must be the path of a new folder, got"):
        nqf.compare(units, data, lr=0.1, verify=False, directory=directory)


def test_models_are_given_by_name_class_or_alone(units, data):
    options = {"lr": 0.1, "steps": 2, "verify": False}
    for models in ("nqf", ["nqf"], nqf.NQF, [nqf.NQF], nqf.NQF(units), (nqf.NQF(units),)):
        assert nqf.compare(units, data, models, **options).models == ["nqf"]
    assert nqf.compare(units, data, ["nqf", nqf.Original], **options).models == ["nqf", "original"]
    other = nqf.default_registry().get("two-layer-mlp")
    with pytest.raises(InvalidInput, match="got one of two-layer-mlp"):
        nqf.compare(units, data, nqf.NQF(other), **options)


def test_numbers_of_numpy_are_numbers(units, data):
    options = {"models": "nqf", "verify": False}
    plain = nqf.compare(units, data, lr=0.25, steps=4, batch=8, replicas=2, seed=3, records=4, **options)
    arrays = nqf.compare(
        units,
        data,
        lr=np.float64(0.25),
        steps=np.int64(4),
        batch=np.int32(8),
        replicas=np.int64(2),
        seed=np.int64(3),
        records=np.int64(4),
        **options,
    )
    assert plain.data.identical(arrays.data) and plain.manifest["settings"] == arrays.manifest["settings"]
    given = nqf.compare(units, data, lr=0.25, steps=4, records=np.array([1, 3]), **options)
    assert given.data["step"].values.tolist() == [0, 1, 3, 4]


def test_the_largest_seed_is_a_seed(units, data):
    run = nqf.compare(units, data, "nqf", lr=0.1, steps=2, batch=8, seed=2**63 - 1, batch_seed=2**63 - 1, verify=False)
    assert run.data["seed"].values.tolist() == [2**63 - 1]


@pytest.mark.parametrize("name", ["train_loss", "test_accuracy", "step", "seed", "time", "lr", "model", "weight_decay", "a-0"])
def test_a_probe_takes_no_name_of_the_run(units, data, tmp_path, name):
    probes = {"a": lambda W: W["u"].sum(-1), name: lambda W: W["u"].sum((1, 2))}
    with pytest.raises(InvalidInput, match=f"the run itself records or counts by {name!r}"):
        nqf.compare(units, data, lr=0.1, verify=False, probes=probes, directory=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_probe_cannot_change_the_run(units, data):
    def meddle(W):
        for block in W.values():
            block.zero_()
        return W.pop("u").sum((1, 2))

    options = {"lr": 0.1, "steps": 20, "scale": 0.3, "verify": False}
    alone, watched = nqf.compare(units, data, **options), nqf.compare(units, data, probes={"meddle": meddle}, **options)
    np.testing.assert_array_equal(alone.curves()[1], watched.curves()[1])
    assert all(torch.equal(alone.weights["nqf"][name], block) for name, block in watched.weights["nqf"].items())


def test_a_probe_gives_real_numbers_of_one_shape(units, data):
    options = {"lr": 0.1, "steps": 4, "verify": False}
    with pytest.raises(InvalidInput, match=r"must give real numbers, got torch.complex64"):
        nqf.compare(units, data, probes={"a": lambda W: W["u"].sum((1, 2)) * 1j}, **options)
    sizes = iter(range(1, 100))
    with pytest.raises(InvalidInput, match=r"one shape for every model and step; got \(1, 2\) after \(1, 1\)"):
        nqf.compare(units, data, probes={"a": lambda W: W["u"].sum((1, 2))[:, None].expand(-1, next(sizes))}, **options)


def test_compare_names_a_setting_that_it_lacks(units, data):
    with pytest.raises(nqf.InvalidInput, match="has no setting 'learning_rate'"):
        nqf.compare(units, data, learning_rate=0.1)
    with pytest.raises(nqf.InvalidInput, match=r"Did you mean 'steps'\?"):
        nqf.compare(units, data, step=5)


def test_compare_says_how_to_make_a_subject(units, data):
    with pytest.raises(nqf.InvalidInput, match=r"make an instance, \w+\(\)"):
        nqf.compare(type(units), data)
    with pytest.raises(nqf.InvalidInput, match=r"finish it with \.output\(name\)"):
        nqf.compare(nqf.Graph("g").input("x", 3), data)
