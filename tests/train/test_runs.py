import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import Diverged, InvalidInput, StorageError
from nqf_registry.train import directory as directories
from nqf_registry.train.runs import list_runs

FILES = ["checkpoint.safetensors", "manifest.json", "records.jsonl", "weights.safetensors"]


@pytest.fixture
def run(units, data, tmp_path):
    return nqf.compare(
        units,
        data,
        lr=0.3,
        steps=30,
        scale=0.3,
        replicas=2,
        records=12,
        verify=False,
        directory=tmp_path / "run",
        probes="top-mode",
    )


def test_what_is_opened_is_what_was_trained(run):
    opened = nqf.Run.open(run.directory)
    assert opened.data.identical(run.data)
    assert opened.manifest == run.manifest and opened.status == "finished"
    for model, W in run.weights.items():
        assert all(torch.equal(opened.weights[model][name], block) for name, block in W.items())


def test_the_folder_holds_no_pickle_and_no_leftover(run):
    assert sorted(path.name for path in run.directory.iterdir()) == FILES
    lines = (run.directory / "records.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == run.manifest["records"]


def test_opening_needs_no_plugin_and_no_layer(run):
    code = (
        "import sys, nqf_registry as nqf; run = nqf.Run.open(sys.argv[1]); print(run.status, run.data['train_loss'].shape);"
        "assert not [m for m in sys.modules if m.startswith('nqf_models')]"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.directory)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"finished (2, 2, {len(run.records)})"


def test_the_manifest_says_what_the_run_was(run, data):
    manifest = json.loads((run.directory / "manifest.json").read_text())
    layer = manifest["subject"]["layers"]["test-units"]
    assert layer["fields"] == {"n_in": 5, "n_out": 2, "width": 6} and layer["class"].endswith(".Units")
    assert manifest["data"]["hash"] == data.hash and manifest["data"]["info"]["factor"] == data.info["factor"]
    assert "weights" not in manifest["data"]["info"]
    settings = manifest["settings"]
    assert settings["lr"] == [0.3, 0.3] and settings["seeds"] == [0, 1] and settings["dtype"] == "float32"
    assert manifest["rate"] == {"value": 0.3, "rule": "given", "growth": None, "stable": None}
    assert manifest["versions"]["torch"].startswith(torch.__version__.split("+")[0])
    assert manifest["step"] == 30 and manifest["status"] == "finished"
    assert set(manifest["git"] or {"commit": 0, "changed": 0}) == {"commit", "changed"}


def test_the_same_call_gives_the_same_bytes(units, data, tmp_path):
    for name in ("a", "b"):
        nqf.compare(units, data, steps=40, batch=8, directory=tmp_path / name, verify=False)
    for file in ("manifest.json", "records.jsonl", "weights.safetensors"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_a_run_is_never_overwritten(units, data, run):
    before = {path.name: path.read_bytes() for path in run.directory.iterdir()}
    with pytest.raises(InvalidInput, match="already holds a run"):
        nqf.compare(units, data, lr=0.1, steps=1, verify=False, directory=run.directory)
    assert {path.name: path.read_bytes() for path in run.directory.iterdir()} == before


def test_other_files_are_not_written_among(units, data, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match="already holds files"):
        nqf.compare(units, data, lr=0.1, steps=1, verify=False, directory=tmp_path)


def test_a_path_through_a_file_is_wrong_use(units, data, tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(InvalidInput, match="it is a file, or lies below one"):
            nqf.compare(units, data, lr=0.1, steps=1, verify=False, directory=path)


def test_a_disk_that_refuses_is_a_storage_error(units, data):
    with pytest.raises(StorageError, match="cannot be written") as caught:
        nqf.compare(units, data, lr=0.1, steps=1, verify=False, directory="/proc/nqf-run")
    assert caught.value.exit_code == 3


def test_a_disk_that_fills_up_leaves_a_run_that_opens(units, data, tmp_path, monkeypatch):
    real = directories.RunDirectory.append
    calls = []

    def append(self, records):
        calls.append(1)
        if len(calls) > 2:
            raise StorageError("no space")
        real(self, records)

    monkeypatch.setattr(directories.RunDirectory, "append", append)
    with pytest.raises(StorageError, match="no space"):
        nqf.compare(units, data, lr=0.1, steps=5000, verify=False, directory=tmp_path / "run")
    opened = nqf.Run.open(tmp_path / "run")
    assert opened.status == "failed" and opened.data.sizes["record"] > 1


def test_an_interrupted_run_says_so(units, data, tmp_path):
    def stop(step, steps, loss):
        if step > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nqf.compare(units, data, lr=0.1, steps=5000, verify=False, directory=tmp_path / "run", progress=stop)
    opened = nqf.Run.open(tmp_path / "run")
    assert opened.status == "interrupted" and 20 < opened.data["step"].values[-1] < 5000


def test_a_line_cut_off_at_the_end_is_left_out_and_one_within_is_told(run):
    file = run.directory / "records.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]) + lines[-1][:20])
    assert nqf.Run.open(run.directory).data.sizes["record"] == len(lines) - 1
    file.write_text(lines[0] + "{]\n" + "".join(lines[2:]))
    with pytest.raises(StorageError, match=r"records\.jsonl, line 2, is damaged"):
        nqf.Run.open(run.directory)


def test_damaged_arrays_and_manifests_are_told(run):
    (run.directory / "weights.safetensors").write_bytes(b"not")
    with pytest.raises(StorageError, match="cannot be read"):
        _ = nqf.Run.open(run.directory).weights
    (run.directory / "manifest.json").write_text("{")
    with pytest.raises(StorageError, match="cannot be read"):
        nqf.Run.open(run.directory)
    (run.directory / "manifest.json").write_text("[]")
    with pytest.raises(InvalidInput, match="no manifest that this version reads"):
        nqf.Run.open(run.directory)


def test_a_folder_without_a_run_is_told(tmp_path):
    with pytest.raises(InvalidInput, match="holds no run"):
        nqf.Run.open(tmp_path / "nothing")


@pytest.mark.parametrize(
    "wrong",
    [
        "7", "{}", '{"step": 1}', '{"step": "1", "train_loss": [[1, 1], [1, 1]]}', "[" * 100000,
        '{"step": %s, "train_loss": [[1, 1], [1, "2"]]}', '{"step": %s, "train_loss": [[1, 1]]}',
        '{"step": %s, "train_loss": 3}', '{"step": 0, "train_loss": [[1, 1], [1, 1]]}',
    ],
)  # fmt: skip
@pytest.mark.parametrize("last", [False, True])
def test_a_line_that_is_json_and_no_record_is_told(run, wrong, last):
    file = run.directory / "records.jsonl"
    lines = file.read_text().splitlines()
    place = len(lines) - 1 if last else 1
    lines[place] = wrong.replace("%s", str(json.loads(lines[place])["step"]))
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(StorageError, match=rf"records\.jsonl, line {place + 1}, is damaged"):
        nqf.Run.open(run.directory)


def damaged_manifests(whole):
    yield from ('{"format": 1}', "[" * 100000, "\xff", "{}", "", '{"format": 1, "status": []}')
    for name in ("status", "subject", "verdicts", "models", "data", "settings", "rate", "versions"):
        yield json.dumps({key: value for key, value in whole.items() if key != name})
        for other in (None, 3, "x", [], {}, [{}], [[1]]):
            if name != "verdicts" or other != {}:
                yield json.dumps({**whole, name: other}) if (name, other) != ("versions", {}) else "{}"
    for name in ("optimizer", "dtype", "device", "steps", "seeds", "lr", "scales", "weight_decay"):
        for other in (None, {}, [], [None], -1, [True], ["a", "b"]):
            yield json.dumps({**whole, "settings": {**whole["settings"], name: other}})


def test_a_damaged_manifest_is_told_and_hides_no_other(run, tmp_path, capsys):
    from nqf_registry.cli.main import main

    whole = json.loads((run.directory / "manifest.json").read_text())
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for text in damaged_manifests(whole):
        (damaged / "manifest.json").write_text(text, encoding="latin-1")
        with pytest.raises((InvalidInput, StorageError), match=r"manifest\.json"):
            nqf.Run.open(damaged)
    for text in ('{"format": 1}', "[" * 100000):
        (damaged / "manifest.json").write_text(text)
        assert main(["runs", str(tmp_path)]) == 0
        captured = capsys.readouterr()
        assert "finished" in captured.out and "unreadable" in captured.out and str(damaged / "manifest.json") in captured.err


def test_of_two_runs_that_want_one_folder_one_is_refused(run, tmp_path, monkeypatch):
    """Both have seen an empty folder; the second comes to its manifest after the first."""
    monkeypatch.setattr(directories, "_refuse_full", lambda path: None)
    before = (run.directory / "manifest.json").read_bytes()
    with pytest.raises(InvalidInput, match="already holds a run, and a run is never overwritten"):
        directories.RunDirectory(run.directory, run.manifest)
    assert (run.directory / "manifest.json").read_bytes() == before


def refusing(monkeypatch, *names):
    """A disk on which no second file has place."""

    def refuse(self, name, content, keep=None):
        if name in names:
            raise StorageError(f"{name}: no space")
        return real(self, name, content, keep)

    real = directories.RunDirectory._write
    monkeypatch.setattr(directories.RunDirectory, "_write", refuse)


@pytest.mark.parametrize("names", [("weights.safetensors",), ("weights.safetensors", "manifest.json")])
def test_a_full_disk_at_the_end_hides_neither_the_status_nor_what_happened(units, data, tmp_path, monkeypatch, names):
    refusing(monkeypatch, *names)
    with pytest.raises(StorageError, match="no space"):
        nqf.compare(units, data, lr=0.1, steps=5, verify=False, directory=tmp_path / "a")
    opened = nqf.Run.open(tmp_path / "a")
    assert opened.status == "finished" and "no space" in opened.manifest["unwritten"]["weights"] and not opened.weights
    with pytest.raises(Diverged, match=r"left the finite numbers .* no space"):
        nqf.compare(units, data, lr=1e6, scale=1.0, steps=50, verify=False, directory=tmp_path / "b")
    assert nqf.Run.open(tmp_path / "b").status == "diverged"


def test_records_that_the_disk_refuses_leave_no_half_a_line(run, monkeypatch):
    """A file that may grow by 100 bytes and no more."""
    file, before = run.directory / "records.jsonl", (run.directory / "records.jsonl").read_bytes()
    code = (
        "import json, resource, signal, sys; from pathlib import Path; from nqf_registry.train import directory as d\n"
        "folder = object.__new__(d.RunDirectory); folder.path = Path(sys.argv[1])\n"
        "size = (folder.path / d.RECORDS).stat().st_size; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, size + 100))\n"
        "try: folder.append([{'step': 1, 'train_loss': [1.0] * 1000}])\n"
        "except d.StorageError as error: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run.directory)], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n" and file.read_bytes() == before


def test_what_breaks_after_the_folder_is_made_is_a_failed_run(units, data, tmp_path, monkeypatch):
    import importlib

    def broken(*arguments, **settings):
        raise MemoryError("no memory")

    monkeypatch.setattr(importlib.import_module("nqf_registry.train.execution"), "Recorder", broken)
    with pytest.raises(MemoryError):
        nqf.compare(units, data, lr=0.1, steps=5, verify=False, directory=tmp_path / "run")
    opened = nqf.Run.open(tmp_path / "run")
    assert opened.status == "failed" and not opened.records and "process" not in opened.manifest


LONG = """
import sys, nqf_registry as nqf
layer = nqf.default_registry().get("phase-retrieval", size=3)
told = lambda step, steps, loss: print(step, flush=True)
nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=8), lr=1e-6, steps=10**9, records=range(0, 10**6, 10000), verify=False,
          directory=sys.argv[1], progress=told)
"""


@pytest.mark.parametrize(("signal_", "code", "status"), [("SIGTERM", 143, "interrupted"), ("SIGKILL", -9, "killed")])
def test_a_process_that_is_ended_leaves_a_run_that_says_so(tmp_path, signal_, code, status):
    import signal

    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", LONG, str(folder)], stdout=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.readline()
        assert nqf.Run.open(folder).status == "running"
        process.send_signal(getattr(signal, signal_))
        process.stdout.read()
        assert process.wait(timeout=60) == code
    opened = nqf.Run.open(folder)
    assert opened.status == status and [what["status"] for _, what in list_runs(tmp_path)] == [status]
    assert bool(opened.weights) == (status == "interrupted") and opened.records


def test_a_run_on_another_host_is_not_said_to_be_killed(run):
    file = run.directory / "manifest.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "status": "running", "process": {"host": "elsewhere", "pid": 1, "started": 1}}))
    assert nqf.Run.open(run.directory).status == "running"


def test_curves_by_name(run):
    steps, loss = run.curves("train_loss", "nqf")
    assert loss.shape == (2, len(steps)) and run.curves()[1].shape == (2, 2, len(steps))
    with pytest.raises(InvalidInput, match=r"'train_los' was not recorded\. Did you mean 'train_loss'"):
        run.curves("train_los")
    with pytest.raises(InvalidInput, match="no model 'exact' was trained; there are original, nqf"):
        run.curves(model="exact")


def test_deviation_is_the_largest_relative_distance(run):
    apart, step = run.deviation()
    loss = run.curves()[1]
    expected = np.abs(loss[1] - loss[0]) / loss[0, :, :1]
    assert apart == pytest.approx(expected.max())
    assert step in run.curves()[0][(expected == expected.max()).any(0)]


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_the_picture_is_drawn(run, tmp_path, ending):
    path = run.plot(tmp_path / f"curves.{ending}")
    assert path.stat().st_size > 3000


def test_the_picture_shows_every_curve(run, tmp_path):
    text = run.plot(tmp_path / "curves.svg").read_text()
    assert text.count("stroke-dasharray") >= 4  # two replicas of the form, training and test
    assert run.plot().name == "loss.png"


def test_pictures_that_cannot_be_are_told(run, tmp_path):
    with pytest.raises(InvalidInput, match="a figure needs one of the endings"):
        run.plot(tmp_path / "curves.docx")
    with pytest.raises(StorageError, match="cannot be written"):
        run.plot(tmp_path / "no" / "such" / "folder.png")


def test_runs_are_listed_with_their_state(run, tmp_path):
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "manifest.json").write_text("{")
    found = dict(list_runs(tmp_path))
    assert found[run.directory]["status"] == "finished"
    assert "cannot be read" in found[broken]
    with pytest.raises(InvalidInput, match="is no folder"):
        list_runs(tmp_path / "nowhere")


def test_names_count_up(tmp_path):
    assert directories.free_name(tmp_path, "x").name == "x-1"
    assert directories.free_name(tmp_path, "x").name == "x-2"


def test_two_runs_at_once_have_two_folders(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: directories.free_name(tmp_path, "x"), range(24)))
    assert len(set(found)) == 24


@pytest.mark.parametrize("stem", ["../up", "/etc/x", "a\0b", "..", "half\ud800", "x" * 500])
def test_a_free_name_lies_in_its_folder(stem, tmp_path):
    path = directories.free_name(tmp_path, stem)
    assert path.is_dir() and path.resolve().parent == tmp_path.resolve()


def test_a_run_that_fails_at_once_leaves_no_folder(tmp_path):
    path = directories.free_name(tmp_path, "x")
    with pytest.raises(ValueError, match="no"), directories.left_empty(path):
        raise ValueError("no")
    assert not path.exists()
