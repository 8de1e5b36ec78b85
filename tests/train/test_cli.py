import importlib
import json

import pytest

import nqf_registry as nqf
from nqf_registry.cli.main import main

SMALL = ("--data-set", "n=32", "--steps", "40", "--records", "8")


@pytest.fixture
def cli(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_run_is_trained_summarised_listed_and_shown(cli, tmp_path):
    code, out, _ = cli("train", "phase-retrieval", *SMALL, "--set", "width=3", "--replicas", "2")
    assert code == 0
    assert "scaled by c = 1" in out and "original" in out and "runs/phase-retrieval-teacher-1/loss.png" in out
    run = nqf.Run.open(tmp_path / "runs" / "phase-retrieval-teacher-1")
    assert run.manifest["subject"]["layers"]["phase-retrieval"]["fields"]["width"] == 3
    assert run.manifest["verdicts"]["phase-retrieval"].startswith("phase-retrieval: passed, exact-nqf")
    assert (run.directory / "loss.png").exists()
    code, out, _ = cli("runs")
    assert code == 0 and "finished" in out and "40/40" in out
    code, out, _ = cli("runs", "show", run.directory)
    assert code == 0 and "phase-retrieval on teacher (32 samples" in out and "exact-nqf" in out


def test_json_is_json(cli):
    code, out, _ = cli("train", "phase-retrieval", *SMALL, "--json", "--models", "nqf", "--out", "here")
    found = json.loads(out)
    assert code == 0 and found["run"] == "here" and found["status"] == "finished"
    loss = found["models"]["nqf"]["train_loss"]
    assert loss["last"][0] < loss["first"][0]
    code, out, _ = cli("runs", ".", "--json")
    assert json.loads(out)[0]["status"] == "finished"
    code, out, _ = cli("runs", "show", "here", "--json")
    assert json.loads(out)["manifest"]["models"] == ["nqf"]


def test_numbers_by_replica_and_quiet(cli):
    code, out, _ = cli(
        "train", "two-layer-mlp", *SMALL, "--optimizer", "momentum", "--momentum", "0.5", "--lr", "0.1,0.2",
        "--scale", "0.1,0.2", "--weight-decay", "0.001", "--batch", "8", "--quiet", "--out", "here",
    )  # fmt: skip
    assert code == 0 and out == "run: here\n"
    settings = nqf.Run.open("here").manifest["settings"]
    assert settings["lr"] == [0.1, 0.2] and settings["scales"] == [0.1, 0.2] and settings["momentum"] == 0.5


def test_optimizers_schedules_and_the_flow(cli):
    code, out, _ = cli(
        "train", "phase-retrieval", *SMALL, "--optimizer", "adamw", "--opt", "betas=[0.8,0.9]", "--weight-decay", "0.1",
        "--schedule", "step", "--schedule-opt", "every=10", "--schedule-opt", "factor=0.5", "--out", "here",
    )  # fmt: skip
    assert code == 0 and "torch.optim.AdamW, rate 0.001 × step (auto: 0.001, the default of torch.optim.AdamW)" in out
    settings = nqf.Run.open("here").manifest["settings"]
    assert settings["optimizer_options"] == {"betas": [0.8, 0.9]} and settings["weight_decay"] == [0.1]
    assert settings["schedule"] == {"name": "step", "options": {"every": 10, "factor": 0.5, "warmup": 0}}
    flow = ("train", "phase-retrieval", "--optimizer", "flow", "--data-set", "n=32")
    code, out, _ = cli(*flow, "--until", "0.5,1,20", "--opt", "rtol=1e-5", "--out", "there")
    assert code == 0 and "gradient flow to time 20, status finished" in out
    assert nqf.Run.open("there").data["time"].values.tolist() == [[0.0, 0.5, 1.0, 20.0]]
    for arguments, message in (
        (flow, "needs until="),
        ((*flow, "--until", "soon"), "--until expects a number"),
        ((*flow, "--until", "3", "--steps", "4"), "gradient flow takes no steps"),
        (("train", "phase-retrieval", "--schedule", "cosin"), "Did you mean 'cosine'"),
        (("train", "phase-retrieval", "--opt", "beta"), "expected an option of the optimizer as NAME=VALUE"),
    ):
        code, _, err = cli(*arguments)
        assert code == 2 and message in err and "Traceback" not in err


def test_a_composition_file_is_trained(cli, tmp_path):
    (tmp_path / "two.yaml").write_text("""
inputs: {x: [4]}
nodes:
  hidden: {layer: two-layer-mlp, sizes: {n_in: 4, n_out: 4, width: 6}, from: {x: x}, residual: true}
  readout: {layer: two-layer-mlp, sizes: {n_in: 4, n_out: 1, width: 5}, from: {x: hidden}}
output: readout
""")
    code, _, err = cli("train", "two.yaml", *SMALL, "--out", "here")
    assert code == 0, err
    assert nqf.Run.open("here").manifest["subject"]["key"] == "two"
    code, _, err = cli("train", "two.yaml", "--set", "width=3")
    assert code == 2 and "stand in its file" in err


def test_divergence_has_its_own_exit_code(cli):
    code, _, err = cli("train", "two-layer-mlp", *SMALL, "--lr", "1e6", "--scale", "1", "--out", "here")
    assert code == 3 and err.count("\n") == err.strip().count("\n") + 1
    assert "left the finite numbers" in err and "largest stable rate" in err and "Traceback" not in err
    assert nqf.Run.open("here").status == "diverged"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("two-layer-mpl",), "Did you mean 'two-layer-mlp'"),
        (("two-layer-mlp", "--data", "digit"), "Did you mean 'digits'"),
        (("two-layer-mlp", "--data", "digits"), "the data has 64 features"),
        (("two-layer-mlp", "--data-set", "n"), "as NAME=VALUE"),
        (("two-layer-mlp", "--data-set", "m=3"), "unexpected keyword argument 'm'"),
        (("two-layer-mlp", "--data-set", "n=many"), "n must be a whole number"),
        (("two-layer-mlp", "--models", "orginal"), "Did you mean 'original'"),
        (
            ("two-layer-mlp", "--models", ""),
            "--models takes a model, or several with commas: original, nqf, order-parameters, compressed; got ''",
        ),
        (("two-layer-mlp", "--models", " , "), "--models takes a model"),
        (("two-layer-mlp", "--out", ""), "directory must be the path of a new folder, got ''"),
        (("two-layer-mlp", "--seed", str(2**64)), "seed must be a whole number from 0 to"),
        (("two-layer-mlp", "--data-set", f"seed={2**64}"), "seed must be a whole number from 0 to"),
        (("two-layer-mlp", "--set", "n_in=64", "--data", "digits", "--data-set", f"seed={2**64}"), "digits: seed must be"),
        (("two-layer-mlp", "--device", "meta"), "device 'meta' cannot be used here"),
        (("two-layer-mlp", "--lr", "1e39"), "lr must lie in the range of float32"),
        (("two-layer-mlp", "--data-set", "singular_values=3"), "singular_values must be a list"),
        (("two-layer-mlp", "--lr", "quick"), "--lr expects a number"),
        (("two-layer-mlp", "--scale", "small"), "--scale expects a number"),
        (("two-layer-mlp", "--optimizer", "sdg"), "optimizer must be one of"),
        (("two-layer-mlp", "--steps", "many"), "not a valid integer"),
        (("two-layer-mlp", "--device", "tpu"), "cannot be used here"),
        (("missing.yaml",), "missing.yaml"),
    ],
)
def test_wrong_use_is_one_message(cli, tmp_path, arguments, message):
    code, _, err = cli("train", *arguments)
    assert code == 2 and message in err and "Traceback" not in err
    assert not (tmp_path / "runs").exists()


def test_a_file_as_folder_is_wrong_use_and_a_folder_that_refuses_is_not(cli, tmp_path):
    (tmp_path / "file").write_text("")
    assert cli("train", "phase-retrieval", *SMALL, "--out", "file")[0] == 2
    assert cli("train", "phase-retrieval", *SMALL, "--out", "/proc/nqf-run")[0] == 3
    for arguments in (("show",), ("show", "a", "b"), ("a", "b"), ("nowhere",), ("show", "nowhere")):
        code, _, err = cli("runs", *arguments)
        assert code == 2 and "Traceback" not in err


@pytest.mark.parametrize(
    "arguments", [("--out", "file"), ("--out", "/proc/zz"), ("--steps", "-1"), ("--probe", "x"), ("--lr", "-1")]
)
def test_folder_and_settings_are_looked_at_before_the_data_is_made(cli, tmp_path, monkeypatch, arguments):
    (tmp_path / "file").write_text("")

    def made(*arguments, **options):
        raise AssertionError("the data was made first")

    monkeypatch.setattr(importlib.import_module("nqf_registry.train.data"), "load_data", made)
    code, _, err = cli("train", "phase-retrieval", *arguments)
    assert code == (3 if "/proc/zz" in arguments else 2) and "data was made" not in err
    if "/proc/zz" in arguments:
        assert "/proc/zz cannot be written: the system makes no folder there. Give another path." in err
