"""``nqf catalogue`` and ``nqf show`` on small plugins: bytes, --check after an edit, entries that cannot be verified."""

import json
import os
import subprocess
import sys

import pytest

from nqf_registry.cli.main import main

FILES = ["catalogue.csv", "catalogue.html", "catalogue.json", "catalogue.md", "catalogue.tex", "measurements.json"]

SMALL = '''
from dataclasses import dataclass

import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class Small(nqf.Layer):
    """f(W) = 3 sum_i (w_i . x)^2."""

    key = "small"
    title = "Small | <b>"
    formula = r"f=3\\sum_i (w_i^\\top x)^2"
    structure_formula = r"A=3\\,xx^\\top"
    claims = nqf.Claims(sign_symmetric=True, exact=True)
    n_in: int = 3
    width: int = 2

    def blocks(self):
        return {"w": (self.n_in,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        return 3.0 * ((x["x"] @ W["w"]) ** 2).sum(-1, keepdim=True)

    def structure(self, x):
        return nqf.quadratic("i,ni,nj,j->n", "w", x["x"], x["x"], "w", scale=3.0)


@nqf.hookimpl
def nqf_register(register):
    register(Small)
'''

RAISING = SMALL.replace('"small"', '"raising"').replace(
    "return 3.0 * ((x", 'raise RuntimeError("it | is <i>broken</i>")\n        return 3.0 * ((x'
)


@pytest.fixture
def small(write):
    return write("small_layer.py", SMALL)


@pytest.fixture
def committed(small, tmp_path):
    """A catalogue of the small layer alone, and the arguments that make it again."""
    arguments = ["catalogue", "--plugin", str(small), "--out", str(tmp_path / "out"), "--profile", "dev", "small"]
    assert main(arguments) == 0
    return arguments


def entries(folder):
    return {entry["key"]: entry for entry in json.loads((folder / "catalogue.json").read_text(encoding="utf-8"))["entries"]}


def test_the_files_and_their_facts(committed, tmp_path, capsys):
    out = tmp_path / "out"
    assert sorted(path.name for path in out.iterdir()) == FILES
    facts = entries(out)["small"]
    assert (
        facts["passed"] and facts["classification"] == "exact-nqf" and facts["remainder"] == "exact" and facts["error"] is None
    )
    assert facts["plugin"] == "small_layer.py"  # the folder of a file is no fact
    assert facts["structure"]["couplings"] == ["w-w"] and facts["structure"]["rank"] == [1, 1]
    assert len(facts["checks"]) == 9 and facts["checks"]["structure-matrix"] == {"status": "pass", "bound": "≤ 1e-10"}
    measured = json.loads((out / "measurements.json").read_text(encoding="utf-8"))
    check = measured["entries"]["small"]["checks"]["structure-matrix"]
    assert check["residual"] <= 1e-10 and check["examples"] > 0
    assert {"profile", "seed", "torch"} <= measured["settings"].keys()
    page = (out / "catalogue.html").read_text(encoding="utf-8")
    assert "<svg" in page and "<math" in page and "Small | &lt;b&gt;" in page
    assert str(tmp_path) not in "".join(path.read_text(encoding="utf-8") for path in out.iterdir())


def test_two_processes_with_different_hash_seeds_write_the_same_bytes(small, tmp_path):
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"}
        arguments = ["--plugin", str(small), "--out", str(tmp_path / seed), "--profile", "dev", "small", "quadratic-network"]
        command = [sys.executable, "-m", "nqf_registry", "catalogue", *arguments]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    for name in FILES:
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes(), name


def test_check_passes_and_names_the_entry_and_the_facts_after_an_edit(committed, small, capsys):
    assert main([*committed, "--check"]) == 0
    assert "every fact" in capsys.readouterr().out
    small.write_text(SMALL.replace("scale=3.0", "scale=3.1"))
    assert main([*committed, "--check"]) == 1
    told = capsys.readouterr().out
    assert "small: passed: committed True, measured False" in told
    assert "small: remainder: committed exact, measured None" in told
    assert "small: checks.structure-matrix.status: committed pass, measured fail" in told
    assert "small: structure.fingerprint: committed [" in told


def test_check_sees_a_coefficient_that_changed_in_forward_and_structure_alike(committed, small, capsys):
    capsys.readouterr()
    small.write_text(SMALL.replace("scale=3.0", "scale=3.1").replace("return 3.0", "return 3.1"))
    assert main([*committed, "--check", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert not told["passed"] and [(d["entry"], d["field"]) for d in told["differences"]] == [
        ("small", "fingerprint"),
        ("small", "structure.fingerprint"),
        ("small", "structure_lines"),
    ]


def test_a_corrupt_or_missing_catalogue_is_wrong_use(committed, tmp_path, capsys):
    (tmp_path / "out" / "catalogue.json").write_text("{")
    assert main([*committed, "--check"]) == 2
    assert "no JSON" in capsys.readouterr().err
    assert main([*committed[:-4], str(tmp_path / "nowhere"), "small", "--check"]) == 2
    assert "found no file" in capsys.readouterr().err


def test_an_entry_that_cannot_be_verified_leaves_the_others_whole(small, write, tmp_path, capsys):
    raising = write("raising_layer.py", RAISING)
    out = tmp_path / "out"
    arguments = ["catalogue", "--plugin", str(small), "--plugin", str(raising), "--out", str(out), "--profile", "dev"]
    assert main([*arguments, "small", "raising"]) == 1
    found = entries(out)
    assert found["small"]["passed"] and not found["raising"]["passed"]
    assert "broken" in found["raising"]["error"]
    assert "not verified" in (out / "catalogue.md").read_text(encoding="utf-8")
    assert "1 of 2 entries pass" in capsys.readouterr().out


def test_an_unknown_key_is_told_before_anything_is_written(tmp_path, capsys):
    assert main(["catalogue", "--out", str(tmp_path / "out"), "no-such-layer"]) == 2
    assert not (tmp_path / "out").exists() and "no-such-layer" in capsys.readouterr().err


def test_show_in_words_in_json_and_as_a_picture(small, tmp_path, capsys):
    picture = tmp_path / "A.svg"
    assert main(["show", "small", "--plugin", str(small), "--set", "n_in=4", "--picture", str(picture)]) == 0
    told = capsys.readouterr().out
    for line in ("A[w_i, w_j] = 3 x_i x_j", "f = 3 Σᵢ(wᵢᵀ x)²", "exact-nqf", "n_in=4, width=2"):
        assert line in told
    assert picture.read_text().startswith("<svg")
    assert main(["show", "small", "--plugin", str(small), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["key"] == "small" and shown["passed"] and shown["blocks"] == {"w": [3]}
    assert main(["show", "small", "--plugin", str(small), "--picture", "A.pdf"]) == 2
    assert main(["show", "small", "--plugin", str(small), "--set", "nope=1"]) == 2
