"""A run that leaves the finite numbers stops, says where, and keeps what it had."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import Diverged
from nqf_registry.train.losses import LOSSES
from nqf_registry.train.models import initial_weights
from nqf_registry.train.optimizers import OPTIMIZERS
from nqf_registry.train.rates import largest_stable_rate


def first_bad_step(units, data, lr, loop_by_hand):
    x = {"x": data.x["x"].double()}
    W = {key: block[0] for key, block in initial_weights(units, [0], 0.5, torch.float64).items()}

    def outputs(W, index):
        return nqf.quadratic_form(units, x).evaluate(W)

    history = loop_by_hand(outputs, W, data.y, 200, lambda parameters: torch.optim.SGD(parameters, lr=lr))
    for step, V in enumerate(history):
        if not torch.isfinite(((outputs(V, None) - data.y) ** 2).sum()) or not all(torch.isfinite(b).all() for b in V.values()):
            return step
    raise AssertionError("the loop by hand did not diverge")


def test_the_step_is_the_first_that_is_not_finite(units, data, loop_by_hand, tmp_path):
    expected = first_bad_step(units, data, 5.0, loop_by_hand)
    assert 3 < expected < 150
    with pytest.raises(Diverged, match=f"nqf of test-units left the finite numbers at step {expected}: replica 0") as caught:
        nqf.train(
            nqf.NQF(units),
            data,
            lr=5.0,
            steps=1000,
            scale=0.5,
            dtype="float64",
            verify=False,
            directory=tmp_path / "run",
            records=400,
        )
    message, run = str(caught.value), caught.value.run
    assert "at rate 5" in message and "The rate is below the largest stable one" in message and str(tmp_path / "run") in message
    opened = nqf.Run.open(tmp_path / "run")
    for found in (run, opened):
        assert found.status == "diverged" and found.manifest["failure"]["step"] == expected
        assert found.data["step"].values.max() < expected
        assert np.isfinite(found.data["train_loss"]).all() and found.data.sizes["record"] > 3
        assert all(torch.isfinite(block).all() for block in found.weights["nqf"].values())
    assert caught.value.exit_code == 3


def test_the_replica_and_the_model_are_named(fragile, data):
    quiet, loud = 0.01, 1.5
    with pytest.raises(Diverged, match=r"original of test-fragile .* at step 0: replica 1 \(seed 8\) has loss nan"):
        nqf.compare(fragile, data, lr=0.01, steps=50, scale=[quiet, loud], seed=7, verify=False)


def test_minibatches_and_adam_diverge_as_clearly(fragile, data):
    with pytest.raises(Diverged, match="no estimate of the largest stable rate of adam") as caught:
        far = nqf.Data(data.x, 1000 * data.y)
        nqf.train(nqf.Original(fragile), far, optimizer="adam", lr=0.05, steps=500, batch=8, scale=0.1, verify=False)
    assert 1 < caught.value.run.manifest["failure"]["step"] < 100


@pytest.mark.parametrize("optimizer", ["gd", "momentum", "nesterov"])
def test_the_estimated_rate_separates_stable_from_unstable(optimizer):
    """On a layer that is its quadratic form the estimate is sharp."""
    layer = nqf.default_registry().get("rectangular-matrix-sensing")
    data = nqf.teacher(layer, n=200)
    rule = OPTIMIZERS[optimizer]((1.0,), (0.0,), 0.0 if optimizer == "gd" else 0.9)
    stable = largest_stable_rate(layer, data, LOSSES["squared"], rule.stability_limit())
    options = {"optimizer": optimizer, "steps": 1500, "scale": 0.01, "dtype": "float64", "verify": False}
    calm = nqf.train(nqf.NQF(layer), data, lr=0.8 * stable, **options)
    assert float(calm.data["train_loss"][0, 0, -1]) < 1e-3 * float(calm.data["train_loss"][0, 0, 0])
    try:
        wild = nqf.train(nqf.NQF(layer), data, lr=1.3 * stable, **options)
    except Diverged:
        return
    assert float(wild.data["train_loss"][0, 0, -1]) > 1e-3 * float(wild.data["train_loss"][0, 0, 0])


def test_the_automatic_rate_stays_below_the_stable_one():
    """On the digits a tenth of growth a step would be too much: the mean image curves the loss more than it teaches."""
    layer = nqf.default_registry().get("two-layer-mlp", n_in=64, n_out=1)
    run = nqf.train(nqf.NQF(layer), nqf.digits(layer), steps=1500, verify=False, records=range(0, 1501, 10))
    rate = run.manifest["rate"]
    assert rate["value"] == pytest.approx(rate["stable"] / 2) and "half the estimated largest stable rate" in rate["rule"]
    loss = run.curves("train_loss", "nqf")[1][0]
    assert (np.diff(loss) < 1e-3 * loss[0]).all(), "the loss jumps up"


def test_an_overflow_before_the_first_step_is_not_the_rates(units, data):
    far = nqf.Data(data.x, data.y.sign() * 1e25)
    with pytest.raises(
        Diverged, match=r"at step 0: .* has loss inf at its initial weights of scale 0.01, before any step"
    ) as caught:
        nqf.train(nqf.NQF(units), far, lr=0.1, steps=5, verify=False)
    assert "stable rate" not in str(caught.value) and "float64" in str(caught.value)


def test_the_largest_rate_diverges(units, data):
    with pytest.raises(Diverged, match=r"at step 1: .* at rate 3e\+38"):
        nqf.train(nqf.NQF(units), data, lr=3e38, steps=5, scale=1.0, weight_decay=1.0, verify=False)


@pytest.mark.parametrize("scales", [[0.1], [0.01, 0.3], [1.0]])
def test_the_automatic_rate_counts_initial_weights_that_are_not_small(scales):
    """The teacher is small here, so that the weights' own curvature, not the way down, bounds the rate."""
    layer = nqf.default_registry().get("two-layer-mlp")
    run = nqf.train(nqf.NQF(layer), nqf.teacher(layer), steps=200, replicas=len(scales), scale=scales, verify=False)
    loss = run.curves("train_loss", "nqf")[1]
    assert run.status == "finished" and (loss[:, -1] < 0.1 * loss[:, 0])[np.array(scales) >= 0.1].all()


def test_a_rate_below_the_estimate_blames_the_weights():
    layer = nqf.default_registry().get("two-layer-mlp")
    with pytest.raises(Diverged, match=r"at rate 5\. The rate is below .* weights of scale 0\.3 are too large"):
        nqf.train(nqf.NQF(layer), nqf.teacher(layer), lr=5.0, steps=200, scale=0.3, verify=False)
