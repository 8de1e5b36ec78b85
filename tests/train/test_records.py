import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.records import log_spaced, record_steps


@pytest.mark.parametrize("steps", [0, 1, 7, 1000, 123456])
def test_log_spaced_steps_begin_and_end_where_the_run_does(steps):
    chosen = log_spaced(steps, 50)
    assert chosen[0] == 0 and chosen[-1] == steps and len(chosen) <= 50
    assert chosen == sorted(set(chosen))
    if steps > 1000:
        ratios = np.diff(np.log1p(chosen))[-20:]
        assert ratios.std() < 0.05 * ratios.mean()


def test_steps_may_be_given():
    assert record_steps(10, [5, 3, 5]) == [0, 3, 5, 10]


@pytest.mark.parametrize("batch", [None, 7])
def test_what_is_recorded_is_what_one_would_measure(units, data, batch):
    run = nqf.compare(
        units,
        data,
        lr=0.3,
        steps=20,
        scale=0.3,
        batch=batch,
        dtype="float64",
        replicas=2,
        verify=False,
        records=[0, 20],
        chunk=9,
    )
    double, last = data.to("cpu", torch.float64), run.data.isel(record=-1)
    W = run.weights
    outputs = {"original": units(W["original"], double.x), "nqf": nqf.NQF(units).outputs(W["nqf"], double.x)}
    tested = {"original": units(W["original"], double.test_x), "nqf": nqf.NQF(units).outputs(W["nqf"], double.test_x)}
    for model in ("original", "nqf"):
        found = last.sel(model=model)
        train = ((outputs[model] - double.y) ** 2).sum((1, 2)) / data.n
        test = ((tested[model] - double.test_y) ** 2).sum((1, 2)) / len(double.test_y)
        np.testing.assert_allclose(found["train_loss"], train, rtol=1e-12)
        np.testing.assert_allclose(found["test_loss"], test, rtol=1e-12)
        apart = ((outputs[model] - outputs["original"]) ** 2).sum((1, 2)) / data.n
        np.testing.assert_allclose(found["output_distance"], apart.sqrt(), rtol=1e-10)
        squares = sum((W[model][b] - W["original"][b]).square().flatten(1).sum(1) for b in ("u", "v"))
        np.testing.assert_allclose(found["weight_distance"], squares.sqrt(), rtol=1e-10)


def test_probes_are_functions_of_the_weights(units, data):
    probes = {"norm": lambda W: W["u"].square().sum((1, 2)), "matrix": lambda W: W["v"] @ W["u"].mT}
    run = nqf.compare(units, data, lr=0.3, steps=5, scale=0.3, replicas=3, verify=False, records=[0, 5], probes=probes)
    assert run.data["norm"].dims == ("model", "replica", "record")
    assert run.data["matrix"].shape == (2, 3, 2, 2, 5)
    W = run.weights["nqf"]
    np.testing.assert_allclose(run.data["norm"].sel(model="nqf")[:, -1], W["u"].square().sum((1, 2)), rtol=1e-6)
    np.testing.assert_allclose(run.data["matrix"].sel(model="nqf")[:, -1], W["v"] @ W["u"].mT, rtol=1e-5, atol=1e-8)


def test_a_probe_without_replica_axis_is_told(units, data):
    with pytest.raises(InvalidInput, match=r"the probe 'norm' must give a tensor with leading replica axis 2, got \(\)"):
        nqf.compare(units, data, lr=0.1, steps=1, replicas=2, verify=False, probes={"norm": lambda W: W["u"].sum()})


@pytest.mark.parametrize("k", [1, 3])
def test_accuracy_counts_labels(k):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=k)
    x = {"x": torch.randn(50, 3, generator=torch.Generator().manual_seed(0))}
    classes = torch.arange(50) % max(k, 2)
    y = torch.where(classes[:, None] == torch.arange(k), 1.0, -1.0)
    run = nqf.train(nqf.Original(layer), nqf.Data(x, y), lr=0.1, steps=3, scale=1.0, verify=False, dtype="float64")
    f = layer({n: b[0] for n, b in run.weights["original"].items()}, x)
    expected = (f.sign() == y).double().mean() if k == 1 else (f.argmax(1) == classes).double().mean()
    assert float(run.data["train_accuracy"][0, 0, -1]) == pytest.approx(float(expected))


def test_no_accuracy_without_labels(units, data):
    run = nqf.train(nqf.NQF(units), data, lr=0.1, steps=1, verify=False)
    assert not [name for name in run.data.data_vars if "accuracy" in name]
