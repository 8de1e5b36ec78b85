"""What is recorded by name, against what the weights themselves say."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.losses import LOSSES
from nqf_registry.train.observables import OBSERVABLES

EVERY = list(OBSERVABLES)
MODELS = ["original", "nqf", "order-parameters", "compressed"]


def run_of(layer, probes=EVERY, models=MODELS, data=None, **settings):
    data = data or nqf.teacher(layer, n=40, seed=2)
    settings = {
        "steps": 30,
        "records": [0, 10, 30],
        "scale": 0.1,
        "replicas": 2,
        "dtype": "float64",
        "verify": False,
    } | settings
    return data, nqf.compare(layer, data, models=models, probes=probes, **settings)


def perceptron(**sizes):
    return nqf.default_registry().get("two-layer-mlp", **{"n_in": 5, "n_out": 2, "width": 30} | sizes)


def test_order_parameters_and_spectrum_are_those_of_the_weights():
    _, run = run_of(perceptron())
    W = run.weights["nqf"]
    S = torch.cat([W["u"], W["v"]], 1)
    M = (S @ S.mT).numpy()
    found = run.data["order-parameters"].sel(model="nqf").isel(record=-1).values[:, 0]
    np.testing.assert_allclose(found, M, rtol=1e-12)
    spectrum = run.data["spectrum"].sel(model="nqf").isel(record=-1).values[:, 0]
    np.testing.assert_allclose(spectrum, np.linalg.eigvalsh(M)[:, ::-1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in EVERY if "loss" not in name])
def test_models_that_keep_no_weights_know_the_same_order_parameters(name):
    _, run = run_of(perceptron(), [name])
    expected = run.data[name].sel(model="nqf").values
    for model in ("order-parameters", "compressed"):  # these inputs span everything, so that nothing is projected away
        np.testing.assert_allclose(run.data[name].sel(model=model).values, expected, rtol=1e-8, atol=1e-11)


def test_losses_by_sample_and_by_output_add_up():
    data, run = run_of(perceptron(), ["sample-loss", "output-loss"])
    loss = run.data["train_loss"].values
    np.testing.assert_allclose(np.moveaxis(run.data["sample-loss"].values, -1, 2).mean(2), loss, rtol=1e-12)
    np.testing.assert_allclose(np.moveaxis(run.data["output-loss"].values, -1, 2).sum(2), loss, rtol=1e-12)
    assert run.data["sample-loss"].shape == (4, 2, 3, data.n) and run.data["output-loss"].shape == (4, 2, 3, 2)


def test_losses_by_sample_do_not_depend_on_chunks_or_minibatches():
    data, whole = run_of(perceptron(), ["sample-loss"], ["nqf"], batch=8, lr=0.1)
    _, chunked = run_of(perceptron(), ["sample-loss"], ["nqf"], data, batch=8, lr=0.1, chunk=7)
    np.testing.assert_allclose(chunked.data["sample-loss"], whole.data["sample-loss"], rtol=1e-12)


def test_the_logistic_loss_has_parts_too():
    layer = perceptron(n_out=1)
    x = layer.sample(20, torch.Generator().manual_seed(0))
    data = nqf.Data(x, x["x"][:, 0].sign())
    _, run = run_of(layer, ["sample-loss", "output-loss"], ["original"], data, loss="logistic", lr=0.1)
    W = {name: block[0] for name, block in run.weights["original"].items()}
    f = layer(W, {"x": x["x"].double()})
    each = [float(LOSSES["logistic"].total(f[i : i + 1], data.y[i : i + 1].double())) for i in range(20)]
    np.testing.assert_allclose(run.data["sample-loss"].values[0, 0, -1], each, rtol=1e-12)


def test_modes_are_the_order_parameters_of_the_growth_rates():
    layer = perceptron()
    data, run = run_of(layer, ["modes"], ["nqf"])
    growth = nqf.growth_rates(layer, data, k=2)
    W = {name: block.double() for name, block in run.weights["nqf"].items()}
    for k in range(2):
        found = run.data["modes"].values[0, :, -1, k]
        np.testing.assert_allclose(found, growth.order_parameter(W, k), rtol=1e-8)


def test_a_folded_mode_sums_over_the_axis_that_is_folded():
    """Attention's modes come once for each row of V; M̄ adds them."""
    layer = nqf.default_registry().get("multi-head-attention", d_v=3)
    data, run = run_of(layer, ["modes"], ["nqf", "order-parameters"])
    growth = nqf.growth_rates(layer, data, k=3)
    assert float(growth.rates[2]) == pytest.approx(float(growth.rates[0]))
    W = {name: block.double() for name, block in run.weights["nqf"].items()}
    total = sum(growth.order_parameter(W, k) for k in range(3))
    np.testing.assert_allclose(run.data["modes"].values[0, :, -1, 0], total, rtol=1e-8)
    np.testing.assert_allclose(run.data["modes"].values[1], run.data["modes"].values[0], rtol=1e-8, atol=1e-12)


def test_the_overlap_with_the_teacher_becomes_one():
    layer = nqf.default_registry().get("psd-matrix-sensing", width=30)
    _, run = run_of(layer, ["teacher-overlap"], ["nqf"], nqf.teacher(layer, n=200, seed=0), steps=3000, scale=1e-3)
    overlap = run.data["teacher-overlap"].values[0]
    assert (overlap[:, 0] < 0.9).all() and (overlap[:, -1] > 0.999).all()


def test_the_feature_of_a_mode_takes_its_part_of_the_loss():
    layer = nqf.default_registry().get("quadratic-network", width=10)
    data, run = run_of(layer, ["feature-loss"], ["nqf"], steps=0, records=2)
    growth = nqf.growth_rates(layer, data, k=1)
    e = growth.modes["w"][0]
    phi = (data.x["x"].double() @ e) ** 2
    f = nqf.NQF(layer).outputs({n: b.double() for n, b in run.weights["nqf"].items()}, data.x)[:, :, 0]
    expected = ((f - data.y[:, 0]) @ phi / phi.norm()) ** 2 / data.n
    np.testing.assert_allclose(run.data["feature-loss"].values[0, :, 0, 0], expected, rtol=1e-9)


def test_several_components_have_a_name_each():
    layer = nqf.default_registry().get("diagonal-linear-two-factor")
    _, run = run_of(layer, ["order-parameters"], ["nqf"])
    assert run.data["order-parameters"].shape[3:] == (layer.size if hasattr(layer, "size") else 6, 2, 2)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("sample-loss", "output-loss")])
def test_compositions_record_what_has_no_closed_set(name):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=3)
    graph = nqf.Graph("two").input("x", 3).layer("first", layer, "x").layer("second", layer, "first").output("second")
    data = nqf.Data({"x": torch.randn(6, 3)}, torch.randn(6, 3))
    with pytest.raises(InvalidInput, match=f"{name} is recorded of one layer; two is a composition"):
        nqf.compare(graph, data, models=["nqf"], probes=[name], lr=0.1, steps=1, verify=False)
    run = nqf.compare(graph, data, models=["nqf"], probes=["sample-loss"], lr=0.1, steps=1, verify=False)
    assert run.data["sample-loss"].shape == (1, 1, 2, 6)


def test_data_without_a_teacher_has_no_overlap():
    layer = perceptron()
    data = nqf.Data(layer.sample(5, torch.Generator().manual_seed(0)), torch.zeros(5, 2), name="mine")
    with pytest.raises(InvalidInput, match="teacher-overlap needs data that knows its teacher"):
        nqf.compare(layer, data, probes=["teacher-overlap"], lr=0.1, steps=1, verify=False)
