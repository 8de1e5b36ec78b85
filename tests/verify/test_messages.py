"""What failing checks say: a golden file to be judged by a reader, and what each message must have.

``python tests/verify/test_messages.py`` writes the golden file anew.
"""

import functools
import os
import re
import shlex
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.addresses import target_of
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.messages import LONGEST, WIDTH, brief
from nqf_registry.verify.text import told

HERE = Path(__file__).parent
BROKEN = HERE / "broken_layers.py"
GOLDEN = HERE / "golden_messages.txt"

# The check that each broken layer is there for; most fail others too.
CASES = {
    "noise": "determinism",
    "counting": "determinism",
    "in-place": "determinism",
    "own-inputs": "determinism",
    "normalised": "finiteness",
    "raising": "finiteness",
    "index-weights": "permutation-symmetry",
    "first-ignored": "permutation-symmetry",
    "bias-inside": "zero-gradient-at-zero",
    "sum-squared": "zero-gradient-at-zero",
    "relu": "smoothness",
    "largest-unit": "smoothness",
    "twice-a": "structure-matrix",
    "one-entry": "structure-matrix",
    "one-sample": "structure-matrix",
    "one-output": "structure-matrix",
    "one-width": "structure-matrix",
    "skewed": "structure-matrix",
    "wrong-linear": "structure-matrix",
    "wrong-cross": "structure-matrix",
    "wrong-offset": "structure-matrix",
    "wrong-pullback": "structure-matrix",
    "wrong-variant": "structure-matrix",
    "minus-a": "remainder-order",
    "falsely-exact": "remainder-order",
    "falsely-even": "sign-symmetry",
    "stacked-heads": "minimality",
}
LABELS = ("expected", "measured", "counterexample", "next", "replay")
NUMBER = re.compile(r"(?<![\w.\]])-?\d+\.\d+(?:e[-+]\d+)?|(?<![\w.])-?\d+e[-+]\d+")


@functools.cache
def registry():
    return nqf.Registry.load(plugins=[str(BROKEN)], entry_points=False)


@functools.cache
def report(key):
    return nqf.verify(registry().get(key))


def block(key):
    """The text of one failing check in a terminal, where the layer is known by its key."""
    return "\n".join(told(key, report(key).addressed(key)[CASES[key]], report(key).sizes))


def golden():
    return "\n\n".join(block(key) for key in CASES) + "\n"


def fields(text):
    """The labelled parts of a text."""
    found, label = {}, ""
    for line in text.splitlines()[1:]:
        if match := re.match(r"    ([a-z]+): +(\S.*)", line):
            label = match[1]
            found[label] = match[2]
        else:
            found[label] += " " + line.strip()
    return found


def alike(a, b):
    """Whether two texts differ in line breaks and in the last digits of numbers only.

    Residuals differ between machines by what the order of a sum does; two digits of them are told apart. What is at rounding
    is zero on one machine and not on another.
    """
    a, b = " ".join(a.split()), " ".join(b.split())
    words = NUMBER.sub("#", a) == NUMBER.sub("#", b)
    pairs = zip(map(float, NUMBER.findall(a)), map(float, NUMBER.findall(b)), strict=False)
    return words and all(abs(p - q) <= 0.02 * max(abs(p), abs(q)) + 1e-9 for p, q in pairs)


def test_the_golden_file_is_what_is_said():
    kept = GOLDEN.read_text(encoding="utf-8").split("\n\n")
    assert len(kept) == len(CASES) >= 20 and set(CASES.values()) == set(CHECKS)
    for key, text in zip(CASES, kept, strict=True):
        assert alike(text, block(key)), f"{key} says now:\n{block(key)}\npython {Path(__file__).name} writes the file anew"


def test_texts_are_alike_up_to_digits():
    assert alike("slope 3.001\n  of u[2]", "slope 3.002 of u[2]") and not alike("slope 3.001", "slope 3.5")
    assert not alike("of u[2]", "of u[1]") and not alike("neuron 1", "neuron 2") and alike("by 1.2e-17", "by 0.0")


@pytest.mark.parametrize("key", CASES)
def test_each_names_what_a_reader_needs(key):
    check, text = report(key)[CASES[key]], block(key)
    assert check.status == "fail" and text.startswith(f"  {key}: {CASES[key]} failed\n")
    said = fields(text)
    assert tuple(said) == LABELS and all(said.values())
    assert "width" in said["counterexample"] and len(said["counterexample"]) <= LONGEST + 20
    assert said["replay"] == f"nqf verify {key} --replay '{check.counterexample['example']}'"
    assert said["next"].rstrip(".").count(" ") >= 5  # a step to take, not a word
    assert all(len(line) <= WIDTH + 4 for line in text.splitlines() if "replay:" not in line)
    assert "\n" not in check.message and check.message.startswith(f"{key}: {CASES[key]} failed. Expected: ")
    for word in ("Measured: ", "Counterexample: ", "Next: ", "Replay: nqf verify "):
        assert word in check.message
    for text in (check.expected, check.measured, check.advice):
        assert text and text in check.message and "{" not in text and "nan of" not in text
    assert check.advice.endswith(".") and check.advice.count(check.measured) == 0


@pytest.mark.parametrize("key", CASES)
def test_the_replay_line_fails_again(key, capfd, monkeypatch):
    from nqf_registry.cli.main import main

    monkeypatch.setenv("NQF_PLUGINS", str(BROKEN))
    program, *arguments = shlex.split(fields(block(key))["replay"])
    assert program == "nqf" and main(arguments) == 1
    out, _ = capfd.readouterr()
    if key != "counting":  # what it gives depends on how often it was called
        assert alike(out, block(key))


def test_a_brief_counterexample_is_short():
    long = {"sizes": {"width": 2}, "samples": 4, "entry": ["u" * 90, "v" * 90, "w" * 90]}
    assert len(brief(long)) <= LONGEST + 20 and brief(long).endswith("(whole in --json)")
    assert brief({}) == ""
    sparse = {"W": {"u": [[0.0, 0.5], [0.0, 0.0], [0.0, 0.0]], "v": [[0.0, -0.0], [0.0, 1.0]]}}
    assert brief(sparse) == "W = 0 but for u[0, 1] = 0.5, v[1, 1] = 1"
    assert brief({"W": {"u": [[0.0], [-0.0]]}}) == "W = 0"
    assert brief({"sizes": {"width": 2, "scale": 2.0}}, {"width": 4, "scale": 1.0}) == "width 2, scale 2"


def test_a_target_has_the_sizes_that_are_not_the_defaults():
    get = nqf.default_registry().get
    assert target_of(get("two-layer-mlp")) == "two-layer-mlp"
    assert target_of(get("two-layer-mlp", activation="gelu", width=3)) in (
        "two-layer-mlp --set activation=gelu --set width=3",
        "two-layer-mlp --set width=3 --set activation=gelu",
    )


def test_a_target_leaves_out_what_cannot_be_typed(layer):
    import dataclasses

    def sized(**sizes):
        base = layer("sized", unit=lambda w, x: torch.tanh(x @ w["u"])[:, None] * w["v"])
        fields = [(name, object, dataclasses.field(default_factory=list)) for name in sizes]
        return dataclasses.make_dataclass("Sized", fields, bases=(type(base),), frozen=True)(**sizes)

    assert target_of(sized()) == target_of(sized(shape=[])) == "sized"
    assert target_of(sized(shape=(3, 4), name="two words", on=True)) == (
        "sized --set shape=3,4 --set 'name=two words' --set on=true"
    )
    assert target_of(sized(phi=torch.tanh, text="two\nlines", nested={"a": 1})) == "sized"


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    GOLDEN.write_text(golden(), encoding="utf-8")
