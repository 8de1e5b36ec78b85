"""Gradient flow against exact solutions, conserved quantities, gradient descent in the limit, and itself taken up again."""

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import Diverged, InvalidInput, WorkFailed
from nqf_registry.train.flow import Flow, flow_times
from nqf_registry.train.lockstep import Lockstep
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import initial_weights

TIGHT = {"rtol": 1e-11}
OPTIONS = {"optimizer": "flow", "dtype": "float64", "verify": False}


@pytest.fixture
def sensing():
    """Diagonal matrices with orthogonal features, for which Theorem 6 holds: layer, data, λ (m, k) and y (m,)."""
    features, samples = 4, 6
    layer = nqf.default_registry().get("psd-matrix-sensing", size=features, width=3)
    generator = torch.Generator().manual_seed(5)
    Q, _ = torch.linalg.qr(torch.randn(samples, features, generator=generator, dtype=torch.float64))
    eigenvalues = Q * torch.tensor([3.0, 2.0, 1.5, 1.0], dtype=torch.float64)
    y = eigenvalues @ torch.tensor([2.0, 1.0, 0.5, -0.5], dtype=torch.float64)
    [port] = layer.ports()
    return layer, nqf.Data(x={port: torch.diag_embed(eigenvalues)}, y=y[:, None], name="orthogonal"), eigenvalues, y


def linear(n_in, n_out):
    """A linear map to be learnt, of the size of one."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(40, n_in, generator=generator, dtype=torch.float64)
    return nqf.Data(x={"x": x}, y=x @ torch.randn(n_in, n_out, generator=generator, dtype=torch.float64), name="linear")


def theorem_6(eigenvalues, y, W, time, decay=0.0):
    """W(t) = P diag(√(z / z(0))) Pᵀ W(0) with logistic z; weight decay γ lowers every growth rate by 2γ."""
    m = len(y)
    r = 8 / m * (eigenvalues * y[:, None]).sum(0) - 2 * decay
    C = 8 / m * (eigenvalues**2).sum(0)
    z0 = (W**2).sum(-1)
    z = r * z0 / (C * z0 + (r - C * z0) * torch.exp(-r * time))
    return torch.sqrt(z / z0)[:, None] * W


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("scale", [0.1, 1e-6])
def test_orthogonal_features_are_logistic(sensing, scale, decay):
    layer, data, eigenvalues, y = sensing
    for until in (0.7, 6.0):
        run = nqf.compare(
            layer, data, ["original", "nqf"], until=until, scale=scale, replicas=2, weight_decay=decay,
            optimizer_options=TIGHT, **OPTIONS,
        )  # fmt: skip
        start = initial_weights(layer, [0, 1], scale, torch.float64)["w"]
        for model in run.models:
            for r in range(2):
                exact = theorem_6(eigenvalues, y, start[r], until, decay)
                found = run.weights[model]["w"][r]
                assert float(((found - exact) / exact).abs().max()) < 1e-8


def drive(model, data, W, times, options=None, lr=(1.0,)):
    """The state of a model along the flow, at every time."""
    rule = Flow(lr, options={**Flow.check_options(options or {}, torch.float64, None, 0.0, 0.0), "times": times})
    lockstep = Lockstep([model], data, find_loss("squared"), rule, None)
    progress = lockstep.begin(W)
    states = [progress.copy().states[0]]
    for step in range(1, len(times)):
        lockstep.advance(progress, step)
        states.append(progress.copy().states[0])
    return states


@pytest.mark.parametrize("model", ["nqf", "order-parameters"])
def test_the_spectrum_of_a_bipartite_layer_is_conserved(model):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=2, width=7)
    data = linear(4, 2)
    W = initial_weights(layer, [0, 1], 0.4, torch.float64)
    made = nqf.NQF(layer) if model == "nqf" else nqf.OrderParameters(layer)
    times = (0.0, 0.5, 3.0, 40.0)
    states = drive(made, data, W, times, TIGHT)
    J = torch.diag(torch.tensor([1.0] * 4 + [-1.0] * 2, dtype=torch.float64))
    stacked = [torch.cat([state["u"], state["v"]], -2) for state in states]
    # the non-zero eigenvalues of J M = J S Sᵀ are those of Sᵀ J S, which is symmetric
    spectra = torch.stack([torch.linalg.eigvalsh(S.mT @ J @ S) for S in stacked])
    balance = torch.stack([state["u"].mT @ state["u"] - state["v"].mT @ state["v"] for state in states])
    assert float((stacked[-1] - stacked[0]).norm() / stacked[0].norm()) > 0.3
    assert float((spectra - spectra[0]).abs().max() / spectra[0].abs().max()) < 1e-8
    assert float((balance - balance[0]).abs().max() / balance[0].abs().max()) < 1e-8


def test_gradient_descent_tends_to_the_flow(units, data):
    flow = nqf.compare(units, data, until=20.0, scale=0.3, optimizer_options=TIGHT, **OPTIONS)
    apart = []
    for lr in (0.02, 0.01):
        steps = round(20.0 / lr)
        descent = nqf.compare(units, data, lr=lr, steps=steps, scale=0.3, dtype="float64", verify=False)
        assert descent.data["time"].values[0, -1] == pytest.approx(20.0)
        apart.append(
            [max(float((descent.weights[m][n] - b).abs().max()) for n, b in flow.weights[m].items()) for m in flow.models]
        )
    for coarse, fine in zip(*apart, strict=True):
        assert fine < 5e-3 and coarse / fine == pytest.approx(2.0, rel=0.1)  # first order in the rate


def test_all_models_of_a_layer_flow_alike():
    layer = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=1, width=12)
    data = linear(4, 1)
    models = ["nqf", "order-parameters", "compressed"]
    for scale in (0.1, 1e-8):
        run = nqf.compare(
            layer,
            data,
            models,
            until=30.0,
            scale=scale,
            replicas=2,
            weight_decay=[0.0, 1e-3],
            optimizer_options=TIGHT,
            **OPTIONS,
        )
        assert (run.curves()[1][..., -1] < 0.1 * run.curves()[1][..., 0]).all()
        assert run.deviation()[0] < 1e-8


def test_a_replica_does_not_see_its_neighbours(units, data):
    alone = nqf.compare(units, data, until=15.0, scale=0.2, seed=1, **OPTIONS)
    beside = nqf.compare(units, data, until=15.0, scale=[0.9, 0.2], seed=[0, 1], **OPTIONS)
    for model in alone.models:
        for name, block in alone.weights[model].items():
            torch.testing.assert_close(beside.weights[model][name][1], block[0], rtol=1e-12, atol=1e-13)


def test_a_flow_taken_up_again_is_the_same_to_the_bit(units, data):
    local, rule = data.to("cpu", torch.float64), Flow
    times = flow_times(12.0, 20)
    made = rule((1.0,), options={**rule.check_options({}, torch.float64, None, 0.0, 0.0), "times": times})

    def lockstep():
        return Lockstep([nqf.NQF(units), nqf.Original(units)], local, find_loss("squared"), made, None)

    straight = lockstep().begin(initial_weights(units, [0, 1], 0.2, torch.float64))
    lockstep().advance(straight, len(times) - 1)
    broken = lockstep().begin(initial_weights(units, [0, 1], 0.2, torch.float64))
    for step in (3, 4, 11, len(times) - 1):
        lockstep().advance(broken, step)
        broken = broken.copy()
    for one, other in zip(straight.states, broken.states, strict=True):
        assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("method", ["rk45", "lsoda", "radau", "bdf"])
def test_methods_agree(units, data, method):
    usual = nqf.compare(units, data, ["nqf"], until=8.0, scale=0.3, optimizer_options={"rtol": 1e-10}, **OPTIONS)
    other = nqf.compare(
        units, data, ["nqf"], until=8.0, scale=0.3, optimizer_options={"rtol": 1e-7, "method": method}, **OPTIONS
    )
    for name, block in usual.weights["nqf"].items():
        torch.testing.assert_close(other.weights["nqf"][name], block, rtol=1e-4, atol=1e-5)


def test_times_are_recorded_as_they_are_asked_for(units, data, tmp_path):
    run = nqf.compare(units, data, ["nqf"], until=[0, 0.5, 2, 7.5], directory=tmp_path / "run", **OPTIONS)
    opened = nqf.Run.open(tmp_path / "run")
    for one in (run, opened):
        assert one.data["time"].values.tolist() == [[0.0, 0.5, 2.0, 7.5]]
    assert opened.manifest["settings"]["optimizer_options"] == {"method": "dop853", "rtol": 1e-9, "atol": 1e-9}
    assert opened.manifest["settings"]["times"] == [0.0, 0.5, 2.0, 7.5]
    run = nqf.compare(units, data, ["nqf"], until=10.0, records=[0.25, 4], **OPTIONS)
    assert run.data["time"].values.tolist() == [[0.0, 0.25, 4.0, 10.0]]
    run = nqf.compare(units, data, ["nqf"], until=10.0, records=50, **OPTIONS)
    time = run.data["time"].values[0]
    assert len(time) == 50 and time[0] == 0 and time[-1] == 10.0
    np.testing.assert_allclose(np.diff(np.log(time[1:])), np.log(1e3) / 48, rtol=1e-9)


def test_float32_keeps_what_it_can(units, data):
    options = {**OPTIONS, "until": 20.0, "scale": 0.3}
    fine = nqf.compare(units, data, **options)
    coarse = nqf.compare(units, data, **{**options, "dtype": "float32"})
    np.testing.assert_allclose(coarse.curves()[1], fine.curves()[1], rtol=2e-3, atol=1e-7)


def test_a_layer_that_breaks_on_the_way_is_a_divergence(fragile):
    data = linear(5, 2)
    with pytest.raises(Diverged, match=r"original of test-fragile left the finite .* flow has no rate") as caught:
        nqf.compare(fragile, data, ["original"], until=100.0, scale=0.1, optimizer_options={"rtol": 1e-4}, **OPTIONS)
    run = caught.value.run
    assert run.status == "diverged" and all(torch.isfinite(b).all() for b in run.weights["original"].values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "optimizer 'flow' needs until="),
        ({"until": 0.0}, "until must be a positive time, got 0"),
        ({"until": "a"}, "until must be a finite number, got 'a'"),
        ({"until": [1.0, 0.5]}, "until must be positive times in ascending order"),
        ({"until": []}, "until must be positive times in ascending order"),
        ({"until": 1.0, "records": [2.0]}, "records must be positive times in ascending order, none beyond the last"),
        ({"until": 1.0, "records": 1}, "records must be a number of at least 2, or a list of times"),
        ({"until": 1.0, "steps": 10}, "gradient flow takes no steps; leave steps out"),
        ({"until": 1.0, "lr": 0.1}, "gradient flow has no rate"),
        ({"until": 1.0, "batch": 8}, "optimizer 'flow' follows the gradient of all samples; leave batch out"),
        ({"until": 1.0, "momentum": 0.5}, "optimizer 'flow' takes no momentum"),
        ({"until": 1.0, "schedule": "cosine"}, "gradient flow has no rate that a schedule could change"),
        ({"until": 1.0, "optimizer_options": {"tol": 1}}, "flow has no option 'tol'. Did you mean .*'rtol'"),
        ({"until": 1.0, "optimizer_options": {"method": "euler"}}, "method of flow must be one of dop853, .*got 'euler'"),
        ({"until": 1.0, "optimizer_options": {"rtol": 1e-15}}, "rtol of flow must be from 1e-13, which float64 can reach"),
        ({"until": 1.0, "optimizer_options": {"atol": 0}}, "atol of flow, in units of .* must be positive"),
        ({"optimizer": "gd", "until": 1.0}, "until is the time at which optimizer='flow' ends"),
    ],
)
def test_what_is_no_flow_is_told(units, data, tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.compare(units, data, directory=tmp_path / "run", **{**OPTIONS, **options})
    assert not (tmp_path / "run").exists()


def test_a_flow_that_was_interrupted_goes_on_bit_for_bit(units, data, tmp_path):
    options = {**OPTIONS, "until": 12.0, "records": 60, "scale": 0.2, "replicas": 2, "weight_decay": 1e-3}
    straight = nqf.compare(units, data, **options)

    def interrupted(step, steps, loss):
        if step >= 16:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nqf.compare(units, data, directory=tmp_path / "run", progress=interrupted, **options)
    stopped = nqf.Run.open(tmp_path / "run")
    assert stopped.status == "interrupted" and 0 < len(stopped.records) < 60
    resumed = nqf.resume(tmp_path / "run", layer=units, data=data)
    assert resumed.status == "finished"
    np.testing.assert_array_equal(resumed.curves()[1], straight.curves()[1])
    for model in straight.models:
        assert all(torch.equal(W, resumed.weights[model][block]) for block, W in straight.weights[model].items())


def test_an_integrator_that_gives_up_keeps_the_run(units, data, tmp_path, monkeypatch):
    import scipy.integrate

    honest = scipy.integrate.DOP853.step

    def tired(solver):
        if solver.t > 0.5:
            solver.status = "failed"
            return "Required step size is less than spacing between numbers."
        return honest(solver)

    monkeypatch.setattr(scipy.integrate.DOP853, "step", tired)
    with pytest.raises(WorkFailed, match=r"the flow of replica 0 cannot go on at time .* to an accuracy of rtol = 1e-09"):
        nqf.compare(units, data, ["nqf"], until=200.0, records=40, directory=tmp_path / "run", **OPTIONS)
    run = nqf.Run.open(tmp_path / "run")
    assert run.status == "failed" and len(run.records) >= 1 and np.isfinite(run.curves()[1]).all()


def test_a_composition_flows_and_follows_torch(units):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=3, width=4)
    graph = nqf.Graph("two").input("x", 3).layer("first", layer, "x").layer("second", layer, "first").output("second")
    data = linear(3, 3)
    options = {"dtype": "float64", "verify": False, "scale": 0.5, "replicas": 2}
    for rule in ({"optimizer": "flow", "until": 3.0}, {"optimizer": "adamw", "lr": 0.01, "steps": 60}):
        run = nqf.compare(graph, data, **rule, **options)
        assert (run.curves()[1][..., -1] < 0.8 * run.curves()[1][..., 0]).all()
        alone = nqf.compare(graph, data, **rule, **{**options, "replicas": 1, "seed": 1})
        np.testing.assert_allclose(run.curves()[1][:, 1], alone.curves()[1][:, 0], rtol=1e-9)
