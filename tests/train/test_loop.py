"""The loop against one written by hand, in float64."""

import importlib
from functools import partial

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.compose.spec import from_yaml
from nqf_registry.errors import InvalidInput, NQFError
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.batches import Batches
from nqf_registry.train.models import initial_weights

CHAIN = """
inputs: {x: [4]}
nodes:
  hidden: {layer: two-layer-mlp, sizes: {n_in: 4, n_out: 4, width: 6}, from: {x: x}, residual: false}
  readout: {layer: two-layer-mlp, sizes: {n_in: 4, n_out: 1, width: 5}, from: {x: hidden}}
output: readout
"""

SETTINGS = {
    "gd": ({"optimizer": "gd"}, partial(torch.optim.SGD)),
    "decay": ({"optimizer": "gd", "weight_decay": 0.05}, partial(torch.optim.SGD, weight_decay=0.05)),
    "momentum": (
        {"optimizer": "momentum", "momentum": 0.7, "weight_decay": 0.01},
        partial(torch.optim.SGD, momentum=0.7, weight_decay=0.01),
    ),
    "nesterov": ({"optimizer": "nesterov"}, partial(torch.optim.SGD, momentum=0.9, nesterov=True)),
    "adam": ({"optimizer": "adam"}, torch.optim.Adam),
    "minibatches": ({"optimizer": "gd", "batch": 16, "batch_seed": 3}, partial(torch.optim.SGD)),
}


@pytest.mark.parametrize("name", list(SETTINGS))
def test_both_models_follow_the_loop_by_hand(units, data, loop_by_hand, name):
    options, make = SETTINGS[name]
    steps, lr = 60, 0.05 if name == "adam" else 0.3
    run = nqf.compare(
        units, data, lr=lr, steps=steps, scale=0.3, dtype="float64", records=range(steps + 1), verify=False, seed=5, **options
    )
    x = {"x": data.x["x"].double()}
    batches = Batches(data.n, 16, 3, torch.device("cpu")) if "batch" in options else None
    W = {key: block[0] for key, block in initial_weights(units, [5], 0.3, torch.float64).items()}

    def original(W, index):
        return units.forward(W, {"x": x["x"][index]})

    def form(W, index):
        return quadratic_form(units, {"x": x["x"][index]}).evaluate(W)

    for model, outputs in (("original", original), ("nqf", form)):
        history = loop_by_hand(outputs, W, data.y, steps, lambda parameters: make(parameters, lr=lr), batches)
        for key, block in run.weights[model].items():
            torch.testing.assert_close(block[0], history[-1][key], rtol=1e-9, atol=1e-12)
        expected = [float(((outputs(V, slice(None)) - data.y) ** 2).sum() / data.n) for V in history]
        np.testing.assert_allclose(run.curves("train_loss", model)[1][0], expected, rtol=1e-9)
    assert run.curves()[1][0, 0, -1] < 0.9 * run.curves()[1][0, 0, 0]


def test_lockstep_changes_nothing(units, data):
    options = {"lr": 0.2, "steps": 50, "batch": 10, "scale": 0.1, "dtype": "float64", "verify": False, "replicas": 2}
    together = nqf.compare(units, data, **options)
    for model in (nqf.Original(units), nqf.NQF(units)):
        alone = nqf.train(model, data, **options)
        np.testing.assert_array_equal(alone.curves("train_loss", model.name)[1], together.curves("train_loss", model.name)[1])
        assert all(torch.equal(alone.weights[model.name][b], together.weights[model.name][b]) for b in ("u", "v"))


def test_a_composition_trains_like_a_layer():
    composition = from_yaml(CHAIN.replace("residual: false", "residual: true"))
    data = nqf.teacher(composition, n=64, rank=1)
    run = nqf.compare(composition, data, steps=200, scale=1e-2, replicas=2, dtype="float64", verify=False, probes="top-mode")
    loss = run.data["train_loss"]
    assert float(loss.isel(record=-1).max()) < 0.1 * float(loss.isel(record=0).min())
    assert run.deviation()[0] < 0.05
    assert "hidden.u" in run.weights["nqf"] and "yaml" in run.manifest["subject"]


def test_an_mlp_learns_the_digits():
    layer = nqf.default_registry().get("two-layer-mlp", n_in=64, n_out=1, width=32)
    data = nqf.digits(layer)
    for options in ({"optimizer": "adam", "lr": 0.01, "batch": 100}, {"optimizer": "momentum", "loss": "logistic"}):
        run = nqf.compare(layer, data, steps=150, scale=0.05, verify=False, records=10, **options)
        accuracy = run.data["test_accuracy"].values[:, 0]
        assert (accuracy[:, -1] > 0.85).all(), options
        assert set(run.data.data_vars) >= {"train_loss", "test_loss", "train_accuracy", "output_distance", "weight_distance"}


def test_the_automatic_rate_is_the_rule(units, data):
    growth = float(nqf.growth_rates(units, data).rates[0])
    for options, factor in (({"optimizer": "gd"}, 1.0), ({"optimizer": "momentum", "momentum": 0.8}, 0.2)):
        run = nqf.train(nqf.NQF(units), data, steps=1, verify=False, **options)
        assert run.manifest["settings"]["lr"] == [pytest.approx(factor * 0.1 / growth, rel=1e-3)]
        assert "growth rate" in run.manifest["rate"]["rule"]
    run = nqf.train(nqf.NQF(units), data, steps=1, optimizer="adam", verify=False)
    assert run.manifest["settings"]["lr"] == [1e-3] and "default of adam" in run.manifest["rate"]["rule"]


def test_no_rate_follows_where_nothing_grows():
    layer = nqf.default_registry().get("phase-retrieval", size=3)
    x = layer.sample(20, torch.Generator().manual_seed(0))
    with pytest.raises(InvalidInput, match=r"lr='auto' needs a mode that grows.*Give lr a number"):
        nqf.train(nqf.NQF(layer), nqf.Data(x, -torch.ones(20, 1)), verify=False)


def test_no_rate_follows_from_a_chain():
    chain = from_yaml(CHAIN)
    data = nqf.Data(chain.sample(30, torch.Generator().manual_seed(0)), torch.ones(30, 1))
    with pytest.raises(InvalidInput, match="lr='auto' needs a mode that grows"):
        nqf.train(nqf.NQF(chain), data, verify=False)
    assert nqf.train(nqf.NQF(chain), data, lr=0.1, steps=5, verify=False).status == "finished"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "sdg"}, "optimizer must be one of gd, momentum, nesterov, adam, flow, .*sgd"),
        ({"lr": -1.0}, "lr must be a positive number, or 'auto', got -1.0"),
        ({"lr": "fast"}, "lr must be a positive number, or 'auto', got 'fast'"),
        ({"lr": float("nan")}, "lr must be a positive number"),
        ({"steps": -1}, "steps must be a whole number of at least 0"),
        ({"steps": 2.5}, "steps must be a whole number"),
        ({"batch": 41}, "batch must be at most the 40 training samples"),
        ({"batch": 0}, "batch must be a whole number of at least 1"),
        ({"replicas": 0}, "replicas must be a whole number of at least 1"),
        ({"seed": -3}, "seed must be a whole number"),
        ({"scale": 0.0}, "scale must be a positive number"),
        ({"weight_decay": -0.1}, "weight_decay must be a number of at least 0"),
        ({"momentum": 0.9}, "'gd' takes no momentum"),
        ({"optimizer": "momentum", "momentum": 1.0}, "momentum must be at least 0 and below 1"),
        ({"loss": "hinge"}, "loss must be one of squared, logistic"),
        ({"loss": "logistic"}, "takes labels -1 and"),
        ({"dtype": torch.float16}, "dtype must be float32 or float64, got torch.float16"),
        ({"device": "tpu"}, "device 'tpu' cannot be used here"),
        ({"records": 1}, "records must be at least 2"),
        ({"records": [0, 2000]}, "records must be steps from 0 to 1000"),
        ({"probes": "top-mod"}, "Did you mean 'top-mode'"),
        ({"lr": [0.1, 0.2], "scale": [0.1, 0.2, 0.3]}, "lr has 2 values for 3 replicas"),
        ({"lr": [0.1, 0.2], "replicas": 3}, "lr has 2 values for 3 replicas"),
        ({"chunk": 0}, "chunk must be a whole number of at least 1"),
    ],
)
def test_wrong_settings_are_told_before_anything_is_made(units, data, tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.compare(units, data, directory=tmp_path / "run", verify=False, **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_an_absent_device_is_told(units, data):
    with pytest.raises(InvalidInput, match=r"device 'cuda' cannot be used here .*device='cpu'"):
        nqf.train(nqf.NQF(units), data, device="cuda", verify=False)


def test_data_that_does_not_fit_is_told(units, data):
    other = nqf.Data({"z": data.x["x"]}, data.y)
    with pytest.raises(InvalidInput, match=r"test-units takes the inputs x \(n, 5\); data has z"):
        nqf.compare(units, other, verify=False)
    with pytest.raises(InvalidInput, match="has 2 outputs, data has targets of 1"):
        nqf.compare(units, nqf.Data(data.x, data.y[:, :1]), verify=False)
    with pytest.raises(NQFError, match=r"\(2, 4\)"):
        nqf.compare(units, nqf.Data({"x": data.x["x"][:, :4]}, data.y), verify=False)
    x = {"x": torch.zeros(3, 4)}
    with pytest.raises(NQFError, match=r"\(2, 4\)"):
        nqf.compare(units, nqf.Data(data.x, data.y, test_x=x, test_y=torch.zeros(3, 2)), verify=False)
    with pytest.raises(InvalidInput, match=r"takes labels -1 and \+1; these targets hold 0"):
        labels = data.y.sign()
        test = {"test_x": {"x": torch.zeros(3, 5)}, "test_y": torch.zeros(3, 2)}
        nqf.compare(units, nqf.Data(data.x, labels, **test), loss="logistic", verify=False)
    with pytest.raises(InvalidInput, match=r"targets holds 1e\+60, too large for float32 .* or give dtype float64"):
        nqf.compare(units, nqf.Data(data.x, torch.full((40, 2), 1e60, dtype=torch.float64)), lr=0.1, verify=False)
    with pytest.raises(InvalidInput, match=r"data must be nqf.Data, got tuple"):
        nqf.compare(units, (data.x, data.y), verify=False)


def test_models_that_do_not_fit_are_told(units, data):
    for wrong in (units, "nqf", []):
        with pytest.raises(InvalidInput, match=r"nqf\.train takes a model"):
            nqf.train(wrong, data)
    with pytest.raises(InvalidInput, match="takes a layer or a composition, got str"):
        nqf.compare("two-layer-mlp", data)
    with pytest.raises(InvalidInput, match="different ones of one layer, got nqf, nqf"):
        nqf.compare(units, data, models=[nqf.NQF, nqf.NQF])


def test_the_first_use_is_verified(units, data, monkeypatch, capsys):
    module = importlib.import_module("nqf_registry.verify.verdict")

    asked = []

    def said(layer):
        asked.append(layer)
        return real(layer)

    real = module.verdict
    monkeypatch.setattr(module, "verdict", said)
    run = nqf.compare(units, data, steps=1, lr=0.1, progress=True)
    assert asked == [units]
    assert run.manifest["verdicts"]["test-units"].startswith("test-units: passed, nqf")
    assert "test-units: passed, nqf" in capsys.readouterr().err
    nqf.compare(units, data, steps=1, lr=0.1, verify=False)
    assert asked == [units]
