"""What can go wrong around a run: each is told, leaves earlier data as it was, and a run that can be resumed."""

import json
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

import nqf_registry as nqf
from nqf_registry.cli.main import main
from nqf_registry.errors import InvalidInput, StorageError
from nqf_registry.train import room
from nqf_registry.train.directory import RunDirectory

COMMAND = ["train", "two-layer-mlp", "--set", "n_in=4", "--set", "width=4", "--lr", "0.1", "--scale", "0.3"]
FILES = ("records.jsonl", "weights.safetensors", "checkpoint.safetensors")

LIMITED = """
import resource, signal, sys
from nqf_registry.cli.main import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
sys.exit(main(sys.argv[2:]))
"""

KILLED = """
import os, signal, sys, nqf_registry as nqf
layer = nqf.default_registry().get("two-layer-mlp", n_in=4, width=4)
def told(step, steps, loss):
    if step >= int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
if len(sys.argv) > 3:
    nqf.resume(sys.argv[1], checkpoint=0, progress=told)
else:
    nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=20), "nesterov", batch=5, lr=0.01, scale=0.3, steps=700, records=60,
              verify=False, checkpoint=0, directory=sys.argv[1], progress=told)
"""


def python(code, *arguments, **more):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, **more)


def steps_of(path):
    return [json.loads(line)["step"] for line in (path / "records.jsonl").read_text().splitlines()]


def test_killed_twice_and_resumed_is_the_run_that_was_not(tmp_path):
    assert python(KILLED, tmp_path / "whole", 10**9).returncode == 0
    assert python(KILLED, tmp_path / "run", 100).returncode == -signal.SIGKILL
    assert nqf.Run.open(tmp_path / "run").status == "killed"
    assert python(KILLED, tmp_path / "run", 300, "resume").returncode == -signal.SIGKILL
    run = nqf.resume(tmp_path / "run", checkpoint=0)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name
    assert run.status == "finished" and steps_of(tmp_path / "run") == run.manifest["records"]


def test_a_file_that_may_not_grow_leaves_a_run_that_goes_on(tmp_path, capsys):
    """As on a full disk, the system refuses to write: records first, at a moment when a checkpoint is there."""
    settings = [*COMMAND, "--steps", "3000", "--records", "600", "--checkpoint", "0", "--quiet"]
    assert main([*settings, "--out", str(tmp_path / "whole")]) == 0
    done = python(LIMITED, 12000, *settings, "--out", tmp_path / "run")
    assert done.returncode == 3 and "cannot be written" in done.stderr and "Free some space" in done.stderr
    assert "nqf train --resume" in done.stderr and "Traceback" not in done.stderr
    before = (tmp_path / "run" / "records.jsonl").read_bytes()
    assert nqf.Run.open(tmp_path / "run").status == "failed" and before.endswith(b"\n") and len(before) > 5000
    assert main(["train", "--resume", str(tmp_path / "run"), "--checkpoint", "0", "--quiet"]) == 0
    assert (tmp_path / "run" / "records.jsonl").read_bytes().startswith(before)
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="mounting needs root")
def test_a_full_disk_leaves_a_run_that_goes_on_elsewhere(tmp_path):
    """A disk of 64 KiB, told beforehand and then full."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("this system mounts no tmpfs")
    settings = [*COMMAND, "--steps", "3000", "--records", "600", "--checkpoint", "0", "--quiet"]
    try:
        done = python("import sys; from nqf_registry.cli.main import main; sys.exit(main(sys.argv[1:]))",
                      *settings, "--out", disk / "run")  # fmt: skip
        assert done.returncode == 3 and "No space left on device" in done.stderr, done.stderr
        assert "MiB free, and this run will write about" in done.stderr and "Traceback" not in done.stderr
        assert nqf.Run.open(disk / "run").status == "failed" and nqf.Run.open(disk / "run").records
        subprocess.run(["cp", "-r", disk / "run", tmp_path / "run"], check=True)
    finally:
        subprocess.run(["umount", disk], check=True)
    assert main(["train", "--resume", str(tmp_path / "run"), "--checkpoint", "0", "--quiet"]) == 0
    assert main([*settings, "--out", str(tmp_path / "whole")]) == 0
    for name in FILES:
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes(), name


def test_low_disk_is_told_beforehand(units, data, tmp_path, monkeypatch):
    monkeypatch.setattr(room.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    with pytest.warns(room.LowDisk, match=r"0\.0 MiB free, and this run will write about 0\.\d MiB"):
        nqf.train(nqf.NQF(units), data, lr=0.1, steps=20, verify=False, directory=tmp_path / "run")


def test_a_folder_that_cannot_be_written_is_told(units, data, tmp_path, monkeypatch):
    run = nqf.train(nqf.NQF(units), data, lr=0.1, steps=20, verify=False, directory=tmp_path / "run")
    before = {path.name: path.read_bytes() for path in run.directory.iterdir()}

    def refuse(*arguments, **more):
        raise PermissionError(13, "Permission denied")

    import tempfile

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)  # root may write anywhere, so the system cannot be asked
    with pytest.raises(StorageError, match=r"cannot be written: Permission denied") as caught:
        nqf.resume(run.directory, steps=40, layer=units)
    assert caught.value.exit_code == 3
    assert {path.name: path.read_bytes() for path in run.directory.iterdir()} == before


def test_of_two_that_write_to_one_run_the_second_is_told_who_does(units, data, tmp_path):
    refused = []

    def told(step, steps, loss):
        if not refused:
            with pytest.raises(
                InvalidInput, match=rf"process {os.getpid()} on .* has the run in .* open for writing"
            ) as caught:
                nqf.resume(tmp_path / "run", layer=units)
            refused.append(caught.value.exit_code)

    run = nqf.train(nqf.NQF(units), data, lr=0.1, steps=200, verify=False, directory=tmp_path / "run", progress=told)
    assert refused == [2] and run.status == "finished"
    folder = RunDirectory.reopen(run.directory)  # nothing is left locked, and nothing after this either
    folder.close()
    assert nqf.resume(run.directory, steps=210, layer=units).manifest["step"] == 210


def test_a_holder_on_another_host_is_told_and_a_dead_one_here_is_not_in_the_way(units, data, tmp_path):
    run = nqf.train(nqf.NQF(units), data, lr=0.1, steps=20, verify=False, directory=tmp_path / "run")
    file = run.directory / "manifest.json"
    manifest = json.loads(file.read_text())
    from nqf_registry.train.process import this_process

    dead = {**this_process(), "pid": 2**22 + 1}
    file.write_text(json.dumps({**manifest, "status": "running", "process": {**dead, "host": "elsewhere"}}))
    with pytest.raises(InvalidInput, match="on elsewhere had the run in"):
        nqf.resume(run.directory, layer=units)
    file.write_text(json.dumps({**manifest, "status": "running", "process": dead}))
    assert nqf.resume(run.directory, layer=units).status == "finished"


def test_ctrl_c_ends_with_130_and_says_how_to_go_on(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys; from nqf_registry.cli.main import main; sys.exit(main(sys.argv[1:]))",
         *COMMAND, "--steps", "100000000", "--out", str(tmp_path / "run"), "--quiet"],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (tmp_path / "run" / "records.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "nqf train --resume" in said and "Traceback" not in said
    run = nqf.Run.open(tmp_path / "run")
    assert run.status == "interrupted" and (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_options_of_a_new_run_do_not_go_with_resume(tmp_path, capsys):
    assert main(["train", "--resume", str(tmp_path), "--lr", "0.1"]) == 2
    assert "--lr belongs to a new run" in capsys.readouterr().err
    assert main(["train", "two-layer-mlp", "--resume", str(tmp_path)]) == 2
    assert "KEY belongs to a new run" in capsys.readouterr().err
    assert main(["train", "--resume", str(tmp_path)]) == 2
    assert "holds no run" in capsys.readouterr().err
    assert main(["train", "two-layer-mlp", "--force"]) == 2
    assert main(["train"]) == 2
