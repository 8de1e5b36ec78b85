"""Report files, verdicts in the cache, killed processes: nothing is run, believed or left behind that must not be."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.cli.main import main


def reports(path, **changes):
    report = nqf.verify(nqf.default_registry().get("quadratic-network")).to_dict() | changes
    path.write_text(json.dumps([report]))
    return str(path)


def test_a_report_file_names_layers_and_runs_no_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("evil.py").write_text("open('ran', 'w')\n")
    for name in ("evil.py", "./evil.py", "all", "", "\x1b[31m"):
        assert main(["verify", "--replay", reports(tmp_path / "r.json", layer=name)]) == 2
        said = capsys.readouterr().err
        assert "which no plugin registers; name the plugin file by --plugin" in said and "\x1b" not in said
    assert not Path("ran").exists()


def test_an_unknown_status_is_no_report(tmp_path, capsys):
    checks = nqf.verify(nqf.default_registry().get("quadratic-network")).to_dict()["checks"]
    checks[0]["status"] = "Fail"
    assert main(["verify", "--replay", reports(tmp_path / "r.json", checks=checks)]) == 2
    assert "no status 'Fail'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "damage",
    [
        lambda r: r["checks"][2].update(status="fail"),
        lambda r: r.update(passed=False),
        lambda r: r.update(layer="other"),
        lambda r: r.update(classification="banana"),
        lambda r: [check.update(examples=-5) for check in r["checks"]],
        lambda r: r["checks"][0].update(examples=0.5),
    ],
)
def test_a_verdict_that_contradicts_itself_is_measured_again(damage, tmp_path, monkeypatch):
    monkeypatch.setenv("NQF_CACHE_DIR", str(tmp_path))
    layer = nqf.default_registry().get("quadratic-network")
    nqf.verdict(layer)
    (stored,) = tmp_path.glob("verdicts/*.json")
    report = json.loads(stored.read_text())
    damage(report)
    stored.write_text(json.dumps(report))
    again = nqf.verdict(layer)
    assert not again.cached and again.passed and again.layer == "quadratic-network"
    assert nqf.verdict(layer).cached


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_cache_is_not_read(tmp_path, monkeypatch):
    from nqf_registry import cache

    monkeypatch.setenv("NQF_CACHE_DIR", str(tmp_path))
    os.mkfifo(tmp_path / "pipe.json")
    assert cache.read_json("pipe.json") is None


@pytest.mark.parametrize("line", ["smoothness:samples=4096", "smoothness:factor=1e300", "smoothness:factor=1_0"])
def test_an_example_is_within_what_a_report_can_hold(line):
    with pytest.raises(nqf.InvalidInput, match="must be"):
        nqf.replay(nqf.default_registry().get("quadratic-network"), line)


def test_a_replay_over_the_budget_says_so():
    check = nqf.replay(nqf.default_registry().get("quadratic-network"), "smoothness:width=1048576")
    assert check.status == "undecided" and "the points of one check would take" in check.cause


def test_variants_without_end_are_refused(layer):
    def endless(self):
        while True:
            yield self

    report = nqf.verify(layer("endless", forward=lambda W, x: (x @ W["u"]).square().sum(-1, keepdim=True), variants=endless))
    assert not report.passed and "at most 64 further layers" in report.cause


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_inputs_that_are_not_finite_are_the_samplers(layer, value):
    def sample(self, n, generator):
        return {"x": value * torch.ones(n, 3)}

    report = nqf.verify(layer("odd-inputs", forward=lambda W, x: (x @ W["u"]).square().sum(-1, keepdim=True), sample=sample))
    assert {check.status for check in report.checks} == {"undecided"}
    assert "sample must return finite numbers; 24 of the 24 of 'x' are nan or infinite" in report.cause


def started(environment):
    command = [sys.executable, "-m", "nqf_registry", "verify", "all", "--profile", "deep", "--jobs", "2"]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        workers = [pid for pid in children(process.pid) if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
        if len(workers) == 2:
            return process, workers
        time.sleep(0.1)
    process.kill()
    pytest.fail("no workers were started within a minute")


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return found


def gone(pids, seconds):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        left = [
            pid for pid in pids if Path(f"/proc/{pid}/stat").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text()
        ]
        if not left:
            return True
        time.sleep(0.2)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks for processes under /proc")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_workers_end_with_the_process_that_started_them(how, tmp_path):
    process, workers = started(os.environ | {"NQF_CACHE_DIR": str(tmp_path)})
    time.sleep(2)  # they are importing or measuring
    os.kill(process.pid, how)
    try:
        assert process.wait(30) == (-signal.SIGKILL if how == signal.SIGKILL else 130)
        assert gone(workers, 30)
    finally:
        for pid in workers:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)
