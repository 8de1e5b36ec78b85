"""Runs beside each other, and runs whose plugin is gone."""

import json
import subprocess
import sys

import numpy as np
import pytest

import nqf_registry as nqf
from nqf_registry.cli.main import main
from nqf_registry.errors import InvalidInput
from nqf_registry.train.comparison import compare_runs


@pytest.fixture
def runs(units, data, tmp_path):
    settings = {"steps": 60, "records": 12, "verify": False, "scale": 0.3, "replicas": 2}
    nqf.compare(units, data, lr=0.1, directory=tmp_path / "a", **settings)
    nqf.compare(units, data, models=["nqf"], lr=0.02, optimizer="nesterov", directory=tmp_path / "b", **settings)
    nqf.compare(units, data, models=["order-parameters"], lr=0.1, directory=tmp_path / "c", **{**settings, "steps": 0})
    return [nqf.Run.open(tmp_path / name) for name in "abc"]


def test_what_differs_is_named_and_what_does_not_is_left_out(runs):
    found = compare_runs(runs)
    assert found.differing["settings.lr"] == [0.1, 0.02, 0.1] and found.differing["settings.optimizer"] == [
        "gd",
        "nesterov",
        "gd",
    ]
    assert found.differing["settings.steps"] == [60, 60, 0]
    assert not any(name.startswith(("data", "versions", "subject", "settings.dtype")) for name in found.differing)
    assert found.last["original"][1:] == [None, None]
    assert found.last["nqf"][1] == pytest.approx(runs[1].records[-1]["train_loss"][0].mean())


def test_the_largest_distance_of_curves_is_that_of_the_steps_in_common(runs):
    (found,) = compare_runs(runs).distances
    first, second = (run.curves("train_loss", "nqf") for run in runs[:2])
    apart = [abs(a - b) / first[1].mean(0)[0] for a, b in zip(first[1].mean(0), second[1].mean(0), strict=True)]
    assert (found.run, found.model, found.steps) == (1, "nqf", len(first[0]))
    assert found.distance == pytest.approx(max(apart)) and found.step == first[0][int(np.argmax(apart))] > 0
    assert compare_runs([runs[0], runs[0]]).distances[0].distance == 0 and not compare_runs([runs[0], runs[0]]).differing


def test_one_run_is_no_comparison(runs):
    with pytest.raises(InvalidInput, match="at least two runs"):
        compare_runs(runs[:1])


def test_the_command_compares_and_draws(runs, tmp_path, capsys):
    paths = [str(run.directory) for run in runs]
    assert main(["runs", "compare", *paths, "--out", str(tmp_path / "all.png")]) == 0
    out = capsys.readouterr().out
    assert (
        "settings.lr" in out and "nesterov" in out and "last loss, order-parameters" in out and "largest distance from" in out
    )
    assert (tmp_path / "all.png").read_bytes().startswith(b"\x89PNG")
    assert main(["runs", "plot", paths[0], "--out", str(tmp_path / "one.svg"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["picture"].endswith("one.svg") and "<svg" in (tmp_path / "one.svg").read_text()
    assert main(["runs", "compare", *paths[:2], "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["differing"]["settings.lr"] == [0.1, 0.02]
    for wrong in (["compare", paths[0]], ["plot"], ["plot", paths[0], "--out", "x.txt"], ["--out", "x.png", str(tmp_path)]):
        assert main(["runs", *wrong]) == 2


PLUGIN = """
import torch, nqf_registry as nqf
from dataclasses import dataclass

@dataclass(frozen=True)
class Gone(nqf.Layer):
    key = "soon-gone"
    width: int = 3
    def blocks(self): return {"u": (4,)}
    def sample(self, n, generator): return {"x": torch.randn(n, 4, generator=generator)}
    def forward(self, W, x): return (x["x"] @ W["u"]).square().sum(-1, keepdim=True)

@nqf.hookimpl
def nqf_register(register): register(Gone)
"""


def test_a_run_is_opened_compared_and_drawn_after_its_plugin_is_gone_and_resumed_with_it(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("NQF_CACHE_DIR", str(tmp_path / "cache"))
    plugin, run = tmp_path / "gone_plugin.py", tmp_path / "run"
    plugin.write_text(PLUGIN)
    code = "import sys; from nqf_registry.cli.main import main; sys.exit(main(sys.argv[1:]))"

    def cli(*words):
        return subprocess.run([sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True)

    done = cli("train", "soon-gone", "--plugin", plugin, "--steps", 30, "--lr", 0.01, "--out", run, "--quiet")
    assert done.returncode == 0, done.stderr
    plugin.rename(tmp_path / "kept.py")
    for words in (("runs", tmp_path), ("runs", "show", run), ("runs", "compare", run, run), ("runs", "plot", run)):
        done = cli(*words, *(("--out", tmp_path / "x.png") if words[1] == "plot" else ()))
        assert done.returncode == 0, done.stderr
    opened = "import sys, nqf_registry as nqf; r = nqf.Run.open(sys.argv[1]); r.weights, r.data; "
    opened += "print([m for m in sys.modules if 'gone' in m])"
    assert subprocess.run([sys.executable, "-c", opened, str(run)], capture_output=True, text=True).stdout == "[]\n"
    done = cli("train", "--resume", run, "--steps", 40, "--quiet")
    assert done.returncode == 2 and "Give the plugin that registers it" in done.stderr
    (tmp_path / "kept.py").rename(plugin)
    assert cli("train", "--resume", run, "--steps", 40, "--quiet", "--plugin", plugin).returncode == 0
    plugin.write_text(PLUGIN + "\n# changed\n")
    done = cli("train", "--resume", run, "--steps", 50, "--quiet", "--plugin", plugin)
    assert done.returncode == 2 and "the source of the layer soon-gone has changed" in done.stderr
    done = cli("train", "--resume", run, "--steps", 50, "--quiet", "--plugin", plugin, "--force")
    assert done.returncode == 0 and "resumed at step 40 although the source" in cli("runs", "show", run).stdout
