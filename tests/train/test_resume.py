"""A run that ended early goes on bit for bit as if it had never stopped."""

import json
import warnings

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import Diverged, InvalidInput
from nqf_registry.train.checkpoint import FILE, PREVIOUS, find_checkpoint
from nqf_registry.train.resume import ResumeWarning

SAME = ("records.jsonl", "weights.safetensors", "checkpoint.safetensors")


def interrupt(*at):
    """A progress function that raises once past each of some steps."""
    left = list(at)

    def told(step, steps, loss):
        if left and step >= left[0]:
            del left[0]
            raise KeyboardInterrupt

    return told


def train(layer, data, path, stop=None, models=("original", "nqf"), **settings):
    settings = {"lr": 0.05, "steps": 500, "scale": 0.3, "records": 40, "verify": False, "checkpoint": 0, **settings}
    try:
        return nqf.compare(layer, data, list(models), directory=path, progress=stop or False, **settings)
    except KeyboardInterrupt:
        return nqf.Run.open(path)


def same_files(one, other):
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    first, second = (json.loads((path / "manifest.json").read_text()) for path in (one, other))
    assert {**second, "resumed": None} == {**first, "resumed": None}


CASES = {
    "gd": {},
    "minibatches": {"batch": 7},
    "momentum": {"optimizer": "momentum", "weight_decay": 0.01, "lr": 0.01},
    "nesterov-minibatches": {"optimizer": "nesterov", "batch": 16, "lr": 0.01},
    "adam": {"optimizer": "adam", "lr": 1e-3},
    "replicas": {"replicas": 3, "lr": [0.01, 0.02, 0.05], "weight_decay": [0, 0.01, 0.0]},
    "one rate for several": {"replicas": 3, "optimizer": "nesterov", "lr": 0.01},
    "four models": {"models": ["original", "nqf", "order-parameters", "compressed"], "optimizer": "nesterov", "lr": 0.01},
    "a rule of torch": {"optimizer": "adamw", "lr": 1e-3, "replicas": 2},
    "rates of torch by replica": {"optimizer": "rmsprop", "lr": [1e-3, 1e-4], "replicas": 2, "batch": 9},
    "a schedule": {"schedule": "cosine", "schedule_options": {"warmup": 20}},
    "probes": {"probes": ["top-mode"]},
    "float64": {"dtype": "float64", "models": ["nqf"], "optimizer": "momentum", "lr": 0.01},
    "automatic rate": {"lr": "auto"},
}


@pytest.mark.parametrize("case", CASES)
def test_three_resumes_in_a_row_give_the_bits_of_one_run(units, data, tmp_path, case):
    train(units, data, tmp_path / "whole", **CASES[case])
    train(units, data, tmp_path / "broken", interrupt(1), **CASES[case])
    for stop in (100, 250):
        with pytest.raises(KeyboardInterrupt):
            nqf.resume(tmp_path / "broken", layer=units, checkpoint=0, progress=interrupt(stop))
    assert 250 <= nqf.Run.open(tmp_path / "broken").manifest["step"] < 500
    nqf.resume(tmp_path / "broken", layer=units, checkpoint=0)
    same_files(tmp_path / "whole", tmp_path / "broken")
    resumed = json.loads((tmp_path / "broken" / "manifest.json").read_text())["resumed"]
    assert len(resumed) == 3 and 0 < resumed[0]["step"] < resumed[1]["step"] < resumed[2]["step"]


def test_where_blocks_end_changes_no_number(units, data, tmp_path, monkeypatch):
    """Blocks of one step, against blocks as long as they are quick."""
    from nqf_registry.train import execution

    settings = {"models": ["original", "nqf", "order-parameters"], "optimizer": "nesterov", "lr": 0.01, "steps": 150}
    train(units, data, tmp_path / "long", **settings)
    clock = iter(range(10**9))
    monkeypatch.setattr(execution.time, "perf_counter", lambda: float(next(clock)))
    train(units, data, tmp_path / "short", **settings)
    for name in SAME:
        assert (tmp_path / "long" / name).read_bytes() == (tmp_path / "short" / name).read_bytes(), name


def test_gradient_flow_goes_on(units, data, tmp_path):
    settings = {"optimizer": "flow", "until": 50.0, "steps": None, "records": 30, "models": ["nqf"]}
    settings["lr"] = "auto"
    train(units, data, tmp_path / "whole", **settings)
    train(units, data, tmp_path / "broken", interrupt(1), **settings)
    nqf.resume(tmp_path / "broken", layer=units, checkpoint=0)
    same_files(tmp_path / "whole", tmp_path / "broken")


def test_a_run_takes_more_steps_and_keeps_its_records(units, data, tmp_path):
    train(units, data, tmp_path / "run", steps=100, records=10)
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    run = nqf.resume(tmp_path / "run", steps=700, layer=units)
    steps = [record["step"] for record in run.records]
    assert (tmp_path / "run" / "records.jsonl").read_bytes().startswith(before) and 100 in steps and steps[-1] == 700
    assert steps == run.manifest["records"] and run.manifest["settings"]["steps"] == 700
    train(units, data, tmp_path / "whole", steps=700, records=steps)
    for name in SAME:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert [r["step"] for r in nqf.resume(tmp_path / "run", steps=900, records=[800], layer=units).records][-2:] == [800, 900]
    with pytest.raises(InvalidInput, match="steps can only be raised"):
        nqf.resume(tmp_path / "run", steps=5, layer=units)


def test_a_finished_run_is_opened(units, data, tmp_path):
    run = train(units, data, tmp_path / "run", steps=20)
    with pytest.warns(ResumeWarning, match="is finished, after 20 steps"):
        assert nqf.resume(tmp_path / "run").data.identical(run.data)


def test_a_run_that_diverged_has_nothing_to_go_on_with(units, data, tmp_path):
    with pytest.raises(Diverged):
        train(units, data, tmp_path / "run", lr=1e6)
    with pytest.raises(InvalidInput, match="left the finite numbers at step"):
        nqf.resume(tmp_path / "run", layer=units)


def test_layers_of_the_registry_and_named_data_are_made_again(tmp_path):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=4, width=5)
    data = nqf.teacher(layer, n=20, seed=5, singular_values=[2.0, 1.0])
    train(layer, data, tmp_path / "whole")
    train(layer, data, tmp_path / "broken", interrupt(100))
    nqf.resume(tmp_path / "broken", checkpoint=0)
    same_files(tmp_path / "whole", tmp_path / "broken")


def test_other_data_another_layer_and_a_changed_source_are_refused(units, data, tmp_path, monkeypatch):
    train(units, data, tmp_path / "run", interrupt(1))
    with pytest.raises(InvalidInput, match="of hash"):
        nqf.resume(tmp_path / "run", layer=units, data=nqf.teacher(units, n=40, seed=4))
    with pytest.raises(InvalidInput, match=r"the layer of the run .* cannot be made again: .*layer="):
        nqf.resume(tmp_path / "run")
    with pytest.raises(InvalidInput, match="trained test-units with"):
        nqf.resume(tmp_path / "run", layer=type(units)(width=7), data=data)
    file = tmp_path / "run" / "manifest.json"
    manifest = json.loads(file.read_text())
    manifest["subject"]["layers"]["test-units"]["source"] = "0" * 64
    manifest["versions"]["numpy"] = "0.1"
    file.write_text(json.dumps(manifest))
    with (
        pytest.raises(InvalidInput, match="the source of the layer test-units has changed"),
        pytest.warns(ResumeWarning, match="numpy"),
    ):
        nqf.resume(tmp_path / "run", layer=units)
    told = []
    run = nqf.resume(tmp_path / "run", layer=units, force=True, tell=told.append)
    assert run.status == "finished" and "numpy was 0.1" in told[0]
    assert any("source" in change for change in run.manifest["resumed"][0]["changed"])


def test_what_has_no_name_is_given_again(units, data, tmp_path):
    def norm(W):
        return W["u"].square().sum((-2, -1))

    def fall(t):
        return 1 / (1 + t)

    own = nqf.Data(data.x, data.y)
    train(units, own, tmp_path / "run", interrupt(1), probes={"norm": norm}, schedule=fall)
    for match, given in (
        ("give it by data=", {}),
        ("give it by schedule=", {"data": own}),
        ("give all its probes", {"data": own, "schedule": fall}),
        ("the run recorded the probes norm", {"data": own, "schedule": fall, "probes": {"other": norm}}),
        ("schedule was", {"data": own, "schedule": lambda t: 1.0, "probes": {"norm": norm}}),
    ):
        with pytest.raises(InvalidInput, match=match):
            nqf.resume(tmp_path / "run", layer=units, **given)
    run = nqf.resume(tmp_path / "run", layer=units, data=own, schedule=fall, probes={"norm": norm}, checkpoint=0)
    train(units, own, tmp_path / "whole", probes={"norm": norm}, schedule=fall)
    same_files(tmp_path / "whole", run.directory)


def broken_run(units, data, tmp_path):
    train(units, data, tmp_path / "whole")
    train(units, data, tmp_path / "run", interrupt(200))
    assert (tmp_path / "run" / PREVIOUS).exists()
    return tmp_path / "run"


@pytest.mark.parametrize("how", ["cut", "flip", "empty"])
@pytest.mark.parametrize("which", [(FILE,), (FILE, PREVIOUS)])
def test_a_damaged_checkpoint_is_told_and_the_one_before_taken(units, data, tmp_path, how, which):
    path = broken_run(units, data, tmp_path)
    records = (path / "records.jsonl").read_bytes()
    for name in which:
        content = bytearray((path / name).read_bytes())
        content[-5] ^= 1
        (path / name).write_bytes({"cut": bytes(content[:-9]), "flip": bytes(content), "empty": b""}[how])
    told = []
    nqf.resume(path, layer=units, checkpoint=0, tell=told.append)
    assert FILE in told[0] and "damaged" in told[0]
    assert ("from its beginning" if len(which) == 2 else "goes on from step") in told[-1]
    same_files(tmp_path / "whole", path)
    kept = path / "records-before-1.jsonl"
    assert not kept.exists() or kept.read_bytes() == records


@pytest.mark.parametrize("tail", [b'{"step": 31', b"\x00\x00\x00", b'{"step": 5}\n', b"[1]\n"])
def test_what_follows_the_records_of_the_checkpoint_is_computed_again(units, data, tmp_path, tail):
    path = broken_run(units, data, tmp_path)
    with open(path / "records.jsonl", "ab") as file:
        file.write(tail)
    nqf.resume(path, layer=units, checkpoint=0)
    same_files(tmp_path / "whole", path)


def test_records_that_are_damaged_take_an_earlier_checkpoint(units, data, tmp_path):
    path = broken_run(units, data, tmp_path)
    content = (path / "records.jsonl").read_bytes()
    (path / "records.jsonl").write_bytes(content[:-30])
    told = []
    nqf.resume(path, layer=units, checkpoint=0, tell=told.append)
    assert "does not hold the records" in told[0]
    same_files(tmp_path / "whole", path)
    assert (path / "records-before-1.jsonl").exists() or "goes on from step" in told[-1]


def test_a_run_without_checkpoints_begins_again(units, data, tmp_path):
    train(units, data, tmp_path / "whole")
    train(units, data, tmp_path / "run", interrupt(200), checkpoint=None)
    assert find_checkpoint(tmp_path / "run", nqf.Run.open(tmp_path / "run").manifest)[0] is None
    with pytest.warns(ResumeWarning, match="goes on from its beginning"):
        nqf.resume(tmp_path / "run", layer=units, checkpoint=0)
    same_files(tmp_path / "whole", tmp_path / "run")


def test_the_number_of_threads_is_that_of_the_run(units, data, tmp_path):
    train(units, data, tmp_path / "run", interrupt(100))
    file, own, seen = tmp_path / "run" / "manifest.json", torch.get_num_threads(), []
    file.write_text(file.read_text().replace(f'"threads": {own}', f'"threads": {own + 1}'))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nqf.resume(tmp_path / "run", layer=units, progress=lambda *_: seen.append(torch.get_num_threads()))
    assert set(seen) == {own + 1} and torch.get_num_threads() == own
