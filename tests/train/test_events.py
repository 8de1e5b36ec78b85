"""Records where the losses move, and the events that are read off them."""

import itertools

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.events import EventRecorder, candidates, moved
from nqf_registry.train.losses import find_loss

MODELS = ("original", "nqf", "order-parameters", "compressed")
SAME = ("records.jsonl", "weights.safetensors", "checkpoint.safetensors")


@pytest.fixture
def staircase():
    """A quadratic network and data of two modes, which from small weights switch on one after the other."""
    layer = nqf.default_registry().get("quadratic-network", n_in=2, width=4)
    return layer, nqf.Data({"x": torch.eye(2)}, torch.tensor([[2.0], [0.5]]))


def train(layer, data, models=("original", "nqf"), **settings):
    settings = {"lr": 0.015, "steps": 1400, "scale": 1e-4, "records": 20, "verify": False, "dtype": "float64", **settings}
    return nqf.compare(layer, data, list(models), **settings)


def inside(losses, high, low):
    """How many records lie in the middle 80 % of a fall."""
    return int(((losses < high - 0.1 * (high - low)) & (losses > low + 0.1 * (high - low))).sum())


def interrupt(*at):
    left = list(at)

    def told(step, steps, loss):
        if left and step >= left[0]:
            del left[0]
            raise KeyboardInterrupt

    return told


def broken(path, layer, data, *at, **settings):
    """A run that was interrupted past each of some steps, and resumed."""
    with pytest.raises(KeyboardInterrupt):
        train(layer, data, directory=path, checkpoint=0, progress=interrupt(at[0]), **settings)
    for stop in at[1:]:
        with pytest.raises(KeyboardInterrupt):
            nqf.resume(path, layer=layer, data=data, checkpoint=0, progress=interrupt(stop))
    return nqf.resume(path, layer=layer, data=data, checkpoint=0)


def test_falls_are_resolved_where_planned_records_miss_them(staircase):
    settings = {"lr": 0.01, "steps": 2000}
    planned, run = train(*staircase, **settings), train(*staircase, **settings, events=0.05)
    levels = (2.125, 0.125, 0.0)  # (2² + ½²) / 2, ½² / 2, nothing
    for m in range(2):
        losses = run.curves()[1][m, 0]
        for high, low in itertools.pairwise(levels):
            assert inside(planned.curves()[1][m, 0], high, low) <= 2
            assert inside(losses, high, low) >= 5
    assert len(run.records) < 150


def test_planned_records_are_those_of_a_run_without_events(staircase):
    planned, run = train(*staircase, probes=["top-mode"]), train(*staircase, probes=["top-mode"], events=0.05)
    by_step = {record["step"]: record for record in run.records}
    assert list(by_step) == sorted(by_step) and set(by_step) > {record["step"] for record in planned.records}
    for record in planned.records:
        found = by_step[record["step"]]
        assert not found["event"].any() and set(found) == {*record, "event"}
        for name, value in record.items():
            np.testing.assert_array_equal(found[name], value)
    for name, W in planned.weights.items():
        assert all(torch.equal(block, run.weights[name][at]) for at, block in W.items())


def test_a_record_is_kept_by_the_rule_and_by_nothing_else(staircase):
    run = train(*staircase, events=0.1, models=["nqf"], replicas=3)
    planned_steps = run.manifest["records"]
    every = train(*staircase, models=["nqf"], replicas=3, records=sorted({*planned_steps, *candidates(planned_steps)}))
    first = kept = every.records[0]["train_loss"]
    expected = {}
    for record in every.records:
        flags = moved(record["train_loss"], kept, first, 0.1)
        planned = record["step"] in planned_steps
        if planned or flags.any():
            expected[record["step"]], kept = flags & (not planned), record["train_loss"]
    assert {record["step"] for record in run.records} == set(expected)
    for record in run.records:
        np.testing.assert_array_equal(record["event"], expected[record["step"]])
    values = {record["step"]: record["train_loss"] for record in every.records}
    assert all(np.array_equal(record["train_loss"], values[record["step"]]) for record in run.records)


def test_where_blocks_end_keeps_the_same_records(staircase, tmp_path, monkeypatch):
    from nqf_registry.train import events, execution

    settings = {"models": MODELS, "events": 0.05, "checkpoint": 0, "steps": 500}
    train(*staircase, directory=tmp_path / "long", **settings)
    monkeypatch.setattr(events, "COPIES", 1)  # a block a candidate
    train(*staircase, directory=tmp_path / "full", **settings)
    clock = iter(range(10**9))
    monkeypatch.setattr(execution.time, "perf_counter", lambda: float(next(clock)))  # a block a step
    train(*staircase, directory=tmp_path / "short", **settings)
    for other in ("full", "short"):
        for name in SAME:
            assert (tmp_path / "long" / name).read_bytes() == (tmp_path / other / name).read_bytes(), name


CASES = {
    "four models": {"models": MODELS},
    "replicas": {"replicas": 3, "lr": [0.003, 0.01, 0.03]},
    "groups of replicas": {"replicas": 4, "replica_chunk": 1},
    "momentum and a schedule": {"optimizer": "momentum", "lr": 0.001, "schedule": "cosine"},
    "a rule of torch": {"optimizer": "adamw", "lr": 1e-3},
    "minibatches": {"batch": 1, "lr": 0.002},
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_keeps_the_same_records(staircase, tmp_path, case):
    settings = {"events": 0.05, **CASES[case]}
    whole = train(*staircase, directory=tmp_path / "whole", checkpoint=0, **settings)
    again = broken(tmp_path / "broken", *staircase, 1, 300, **settings)
    for name in SAME:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "broken" / name).read_bytes(), name
    assert any(record["event"].any() for record in whole.records) and again.events() == whole.events()
    assert nqf.Run.open(tmp_path / "whole").data.equals(whole.data)


def test_how_many_replicas_step_together_keeps_the_same_records(staircase):
    runs = [train(*staircase, events=0.05, replicas=4, replica_chunk=chunk, models=["nqf"]) for chunk in (1, 2, 4)]
    steps = [[record["step"] for record in run.records] for run in runs]
    assert steps[0] == steps[1] == steps[2]


def test_a_run_takes_more_steps_and_goes_on_by_the_rule(staircase, tmp_path):
    train(*staircase, events=0.05, steps=700, directory=tmp_path / "run")
    run = nqf.resume(tmp_path / "run", steps=1400, layer=staircase[0], data=staircase[1])
    whole = train(*staircase, events=0.05, records=run.manifest["records"])
    assert [record["step"] for record in run.records] == [record["step"] for record in whole.records]


def test_a_flat_run_keeps_no_more_than_is_planned(staircase):
    run = train(*staircase, steps=500, lr=1e-6, events=0.05)
    assert [record["step"] for record in run.records] == run.manifest["records"]
    assert not run.data["event"].values.any() and run.events() == []


def test_every_variable_is_measured_and_times_are_exact(units, data):
    settings = {"schedule": "cosine", "lr": 0.2, "scale": 0.05, "steps": 900, "records": 5, "probes": ["top-mode"]}
    run = train(units, data, events=0.02, **settings)
    steps = [record["step"] for record in run.records]
    planned = train(units, data, **{**settings, "records": steps})
    assert len(steps) > 10 and data.test_x is not None
    for name, values in planned.data.data_vars.items():
        np.testing.assert_array_equal(run.data[name].values, values.values)
    np.testing.assert_array_equal(run.data["time"].values, planned.data["time"].values)


def test_with_minibatches_some_samples_taken_evenly_are_looked_at(units):
    data = nqf.teacher(units, n=1000, seed=3)
    local, models = data.to("cpu", torch.float64), [nqf.NQF(units)]
    recorder = EventRecorder(models, local, find_loss("squared"), {}, None, 128, 0.05, 250)
    state = models[0].init([0, 1], 0.3, torch.float64)
    recorder.measure(0, [state])
    recorder.fetch()
    part = {name: values[::4] for name, values in local.x.items()}
    expected = ((models[0].outputs(state, part) - local.y[::4]) ** 2).sum((1, 2)) / 250
    np.testing.assert_allclose(recorder.levels[1], expected[None], rtol=1e-12)


def test_copies_are_bounded(staircase, monkeypatch):
    from nqf_registry.train import events

    held = []
    look = EventRecorder.look
    monkeypatch.setattr(EventRecorder, "look", lambda self, *given: (look(self, *given), held.append(self._copied))[0])
    monkeypatch.setattr(events, "COPIES", 1000)
    train(*staircase, events=0.05, steps=1000, models=["nqf"])
    assert max(held) < 1000 + 2 * 4 * 8 and len(held) > 30


@pytest.mark.parametrize("lr", [0.02, 0.005])
def test_switch_ons_of_a_diagonal_layer_are_where_the_logistic_formula_has_them(lr):
    """z = r z₀ / (C z₀ + (r − C z₀) e^{−rt}) by mode, and half of V (1 − C z / r)² is gone at C z / r = 1 − √½."""
    layer = nqf.default_registry().get("diagonal-linear-square", n_in=3)
    y = torch.tensor([[3.0], [1.5], [0.5]])
    data = nqf.Data({"x": torch.eye(3)}, y)
    run = train(layer, data, models=["nqf"], lr=lr, steps=int(120 / lr), scale=1e-4, events=0.03, replicas=2, records=60)
    r, C = 8 / 3 * y[:, 0].double().numpy() / 4, 8 / 3 / 16  # of m = 3 samples with λ = ¼
    half = 1 - 0.5**0.5
    for replica, seed in enumerate((0, 1)):
        z0 = layer.random(torch.Generator().manual_seed(seed), 1e-4, torch.float64)["u"][:, 0].square().numpy()
        expected = np.log((r / (C * z0) - 1) * half / (1 - half)) / r
        found = [e for e in run.events() if e.name == "switch-on" and e.replica == replica]
        np.testing.assert_allclose([event.time for event in found], expected, rtol=0.02)
        np.testing.assert_allclose([event.step * lr for event in found], expected, rtol=0.02)
        levels = [float((y[k:] ** 2).sum()) / 3 for k in range(4)]
        np.testing.assert_allclose([event.before for event in found], levels[:3], rtol=0.05)
        np.testing.assert_allclose([event.after for event in found], levels[1:], rtol=0.05, atol=1e-4)
        ends = [e for e in run.events() if e.name == "plateau's end" and e.replica == replica]
        assert [e.step < s.step for e, s in zip(ends, found, strict=True)] == [True] * 3


def test_events_are_read_off_runs_that_looked_for_none(staircase):
    run = train(*staircase, records=300, models=["original"])
    names = [event.name for event in run.events()]
    assert names == ["plateau's end", "switch-on"] * 2
    for one, other in zip(run.events(), train(*staircase, events=0.05, models=["original"]).events(), strict=True):
        assert (one.name, one.model, one.replica) == (other.name, "original", 0)
        assert one.step == pytest.approx(other.step, rel=0.05)


def test_events_of_gradient_flow_have_times(staircase):
    flow = train(*staircase, optimizer="flow", lr="auto", steps=None, until=20.0, records=300, models=["nqf"])
    steps = train(*staircase, models=["nqf"], lr=0.002, steps=10000, events=0.05)
    for one, other in zip(flow.events(), steps.events(), strict=True):
        assert one.name == other.name and one.time == pytest.approx(other.time, rel=0.05)
        assert 0 < one.step < 300


@pytest.mark.parametrize("shape", ["drift", "rise", "short"])
def test_what_is_no_staircase_has_no_switch_on(shape):
    from nqf_registry.train.staircase import _curve

    x = 1.0 + np.arange(0, 1000, 3)
    L = {"drift": x**-0.05, "rise": 2 - 1 / (1 + np.exp(x - 500)), "short": np.where(x < 500, 1.0, 0.5)}[shape]
    names = [name for name, *_ in _curve(x, L, 0.05)]
    assert names == {"drift": [], "rise": ["plateau's end"], "short": ["plateau's end", "switch-on"]}[shape]


def test_runs_show_names_them(staircase, tmp_path):
    from click.testing import CliRunner

    from nqf_registry.cli.runs import command

    train(*staircase, events=0.05, directory=tmp_path / "run")
    text = CliRunner().invoke(command, ["show", str(tmp_path / "run")]).output
    assert "original: plateau's end at step " in text and ", switch-on at step " in text and "(2.1" in text
    assert '"name": "switch-on"' in CliRunner().invoke(command, ["show", str(tmp_path / "run"), "--json"]).output


@pytest.mark.parametrize("events", [0, 1, -0.1, 1.5, True, "0.1", float("nan"), [0.1]])
def test_what_is_no_fraction_is_told(staircase, events):
    with pytest.raises(InvalidInput, match=r"events must be .*got "):
        train(*staircase, events=events)


def test_gradient_flow_is_told_to_take_times(staircase):
    with pytest.raises(InvalidInput, match="give more times, by records= or until="):
        train(*staircase, optimizer="flow", lr="auto", steps=None, until=5.0, events=0.05)


def test_a_fraction_to_read_events_by_is_checked(staircase):
    with pytest.raises(InvalidInput, match=r"fraction must be above 0 and below 1, .*got 2"):
        train(*staircase, steps=10).events(2)
