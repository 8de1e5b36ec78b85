"""Streams that are closed, full or of another encoding, and what a layer prints: one exit code, one valid document."""

import json
import os
import subprocess
import sys

import pytest

NOISE = """
import os
print("NOISE at import")
os.write(1, b"NOISE below Python\\n")
for _name in ("blocks", "sample", "unit"):
    def _noisy(self, *given, _do=getattr(Sample, _name)):
        print("NOISE in a method")
        os.write(1, b"NOISE below Python\\n")
        return _do(self, *given)
    setattr(Sample, _name, _noisy)
"""


def shell(line, **environment):
    return subprocess.run(
        ["sh", "-c", line.replace("nqf ", f"{sys.executable} -m nqf_registry ")],
        capture_output=True,
        env={**os.environ, **environment},
        timeout=120,
    )


@pytest.mark.parametrize("verb", ["list", "show sample", "verify sample", "train sample --steps 2 --out {out}"])
def test_what_a_layer_prints_is_not_in_the_document(verb, tmp_path, layer_source):
    file = tmp_path / "noisy.py"
    file.write_text(layer_source("sample") + NOISE)
    done = shell(f"nqf {verb.format(out=tmp_path / 'run')} --json --plugin {file}")
    assert done.returncode == 0, done.stderr
    assert b"NOISE below Python" in done.stderr
    json.loads(done.stdout)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("nqf list >&-", 0),
        ("nqf list --json >&-", 0),
        ("nqf list 2>&-", 0),
        ("nqf show no-such-layer 2>&-", 2),
        ("nqf show no-such-layer >&- 2>&-", 2),
        ("nqf show no-such-layer 2>/dev/full", 2),
        ("nqf list >/dev/full", 3),
        ("nqf list --json >/dev/full", 3),
        ("nqf list --json >/dev/full 2>/dev/full", 3),
    ],
)
def test_closed_and_full_streams(line, code):
    done = shell(line)
    assert done.returncode == code
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def test_letters_that_the_encoding_lacks(tmp_path, layer_source):
    file = tmp_path / "greek.py"
    file.write_text(layer_source("greek").replace("A sample layer", "γ layer"))
    done = shell(f"nqf list --plugin {file}", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0 and b"\\u03b3 layer" in done.stdout
    done = shell(f"nqf list --json --plugin {file}", PYTHONIOENCODING="latin-1")
    assert "γ layer" in [entry["title"] for entry in json.loads(done.stdout.decode("latin-1"))]


def test_a_file_name_that_is_no_text(tmp_path, layer_source):
    file = os.fsencode(tmp_path) + b"/odd\xff.py"
    with open(file, "w") as opened:
        opened.write(layer_source("odd"))
    for options in ([], ["--json"]):
        done = subprocess.run([sys.executable, "-m", "nqf_registry", "list", *options, "--plugin", file], capture_output=True)
        assert done.returncode == 0, done.stderr
    json.loads(done.stdout.decode())


def test_a_folder_that_is_gone(tmp_path):
    (tmp_path / "gone").mkdir()
    done = shell(f"cd {tmp_path}/gone && rmdir {tmp_path}/gone && nqf list", PYTHONPATH=os.getcwd())
    assert done.returncode == 2
    assert done.stderr.startswith(b"Error: the folder") and done.stderr.count(b"\n") == 1
