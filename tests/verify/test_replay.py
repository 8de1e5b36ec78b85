"""An example is a line of text that measures the same again, from Python and from the command line."""

import dataclasses
import functools
import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.examples import example_line, parse_example
from nqf_registry.verify.strategies import Draw

BROKEN = str(Path(__file__).parent / "broken_layers.py")


@functools.cache
def registry():
    return nqf.Registry.load(plugins=[BROKEN], entry_points=False)


@functools.cache
def report(key, seed=0):
    return nqf.verify(registry().get(key), seed=seed)


def command(capfd, *arguments):
    from nqf_registry.cli.main import main

    code = main(list(map(str, arguments)))
    out, err = capfd.readouterr()
    return code, out, err


def good():
    return nqf.default_registry().get("quadratic-network")


@settings(max_examples=100, database=None, deadline=None)
@given(
    st.sampled_from(sorted(CHECKS)),
    st.builds(
        Draw,
        instance=st.integers(0, 9),
        width=st.integers(1, 300),
        samples=st.integers(1, 64),
        inputs=st.integers(0, 2**32 - 1),
        weights=st.integers(0, 2**32 - 1),
        factor=st.floats(1e-9, 1e9),
        neuron=st.integers(0, 300),
    ),
    st.integers(0, 2**63 - 1),
)
def test_a_line_is_read_as_it_was_written(name, draw, seed):
    line = example_line(name, draw, seed)
    assert parse_example(line, CHECKS) == (name, draw, seed)
    assert parse_example(f" {line.replace(',', ' , ').replace('=', ' = ')} ", CHECKS) == (name, draw, seed)
    assert "'" not in line and " " not in line and "\n" not in line  # as it stands between quotes of a shell


def test_a_line_has_what_differs_from_the_defaults():
    assert example_line("smoothness", Draw(width=2, weights=17, neuron=1), 3) == "smoothness:width=2,weights=17,neuron=1,seed=3"
    assert example_line("minimality", Draw()) == "minimality"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", "begins with the name of a check, got ''. The checks are determinism,"),
        ("smothness:width=2", "Did you mean 'smoothness'"),
        ("smoothness:", "NAME=VALUE, such as width=2; got ''"),
        ("smoothness:width", "NAME=VALUE, such as width=2; got 'width'"),
        ("smoothness:wdith=2", "no field 'wdith'. Did you mean 'width'? The fields are instance, width,"),
        ("smoothness:width=2,width=3", "the field width is given twice"),
        ("smoothness:width=0", "width of an example must be an integer from 1 to"),
        ("smoothness:width=-1", "integer"),
        ("smoothness:width=1.5", "integer"),
        ("smoothness:width=٣", "integer"),
        ("smoothness:samples=100000000", "integer from 1 to 64"),
        ("smoothness:seed=99999999999999999999", "integer"),
        ("smoothness:factor=nan", "number from 1e-09 to 1e+09, got 'nan'"),
        ("smoothness:factor=-1", "number from 1e-09"),
        ("smoothness:factor=" + "9" * 5000, "number from 1e-09"),
        ("smoothness:instance=1", "has no variants, so instance must be 0; got 1"),
        ("permutation-symmetry", "permutation-symmetry needs a width of at least 2, got width=1"),
        ("x" * 10_000, "begins with the name of a check"),
    ],
)
def test_a_wrong_line_is_told(line, words):
    with pytest.raises(nqf.InvalidInput) as told:
        nqf.replay(good(), line)
    assert words in str(told.value) and len(str(told.value)) < 400


def test_wrong_use_is_told(layer):
    with pytest.raises(nqf.InvalidInput, match="an example is a line such as 'smoothness:width=2,weights=17', got dict"):
        nqf.replay(good(), {"width": 2})
    with pytest.raises(nqf.InvalidInput, match="pass an instance"):
        nqf.replay(type(good()), "smoothness")
    with pytest.raises(nqf.InvalidInput, match="dev, ci, deep"):
        nqf.replay(good(), "smoothness", profile="quick")
    fixed = layer("fixed", unit=lambda w, x: torch.tanh(x @ w["u"])[:, None] * w["v"], width=2, fixed=True)
    assert nqf.replay(fixed, "smoothness:width=2").status == "pass"
    with pytest.raises(nqf.InvalidInput, match="the width of fixed is fixed at 2; got width=3"):
        nqf.replay(fixed, "smoothness:width=3")


def test_a_variant_that_is_not_there_is_told():
    subject = registry().get("wrong-variant")
    assert nqf.replay(subject, "structure-matrix:instance=0").status == "pass"
    assert nqf.replay(subject, "structure-matrix:instance=1").counterexample["sizes"]["scale"] == 2.0
    with pytest.raises(nqf.InvalidInput, match="instance must be between 0 and 1; got 2"):
        nqf.replay(subject, "structure-matrix:instance=2")


def test_every_kind_of_broken_layer_is_replayed_as_it_was_reported():
    """Each counterexample, of a failing check or of an observed one, comes out bit for bit, and the check with it."""
    seen, failing = set(), 0
    for subject in registry().layers():
        for seed in (0, 2**63 - 1):
            for check in report(subject.key, seed).checks:
                if not check.counterexample:
                    continue
                again = nqf.replay(subject, check.counterexample["example"])
                assert again.status == check.status, (subject.key, check.message, again.message)
                assert again.to_dict()["counterexample"] == check.to_dict()["counterexample"], (subject.key, check.name)
                if subject.key != "counting":
                    assert again.message == check.message
                    assert dataclasses.replace(again, examples=check.examples).to_dict() == check.to_dict()
                seen.add(check.name)
                failing += check.status == "fail"
    assert seen == set(CHECKS) and failing > 60


def test_a_layer_that_is_noisy_at_one_width_has_the_same_weights_again(layer):
    def forward(W, x):
        noise = torch.rand(()) if W["u"].shape[-1] == 5 else 0.0
        return torch.tanh(8 * (x @ (W["u"] / W["u"].norm(dim=0)))).sum(-1, keepdim=True) + noise

    subject = layer("noisy", forward=forward, blocks={"u": (3,)})
    check = nqf.verify(subject)["finiteness"]
    assert check.status == "fail" and check.counterexample["sizes"]["width"] != 5
    assert nqf.replay(subject, check.counterexample["example"]).counterexample == check.counterexample


@pytest.mark.parametrize("profile", ["ci", "deep"])
def test_the_profile_does_not_matter(profile):
    check = report("one-width")["structure-matrix"]
    assert nqf.replay(registry().get("one-width"), check.counterexample["example"], profile).message == check.message


def test_what_holds_passes():
    for name in CHECKS:
        check = nqf.replay(good(), f"{name}:width=3,weights=17,samples=2")
        assert check.name == name and check.status in ("pass", "not-applicable") and not check.replay, check


def test_one_example_is_measured_and_nothing_is_drawn(units):
    widths = set()

    def phi(a):
        widths.add(a.shape[-1])
        return torch.tanh(a)

    assert nqf.replay(units("tanh", phi), "sign-symmetry:width=2,samples=3").examples == 1
    assert widths == {2, 4}  # and its own width at the first call


def test_a_layer_that_is_no_function_is_tried_no_further():
    check = nqf.replay(registry().get("noise"), "smoothness")
    assert check.status == "undecided" and "no function" in check.message and check.broken


def test_a_layer_that_raises_is_told_again():
    check = nqf.replay(registry().get("raising"), "smoothness")
    assert check.status == "undecided" and check.broken
    assert nqf.replay(registry().get("raising"), "finiteness").measured == report("raising")["finiteness"].measured


def test_nothing_outside_changes():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    nqf.replay(registry().get("noise"), "determinism")
    nqf.replay(good(), "smoothness")
    assert torch.equal(before, torch.get_rng_state())


def test_the_command_line(capfd):
    code, out, _ = command(capfd, "verify", "twice-a", "--plugin", BROKEN, "--replay", "structure-matrix:width=3")
    assert code == 1 and out.startswith("  twice-a: structure-matrix failed\n    expected:")
    assert "twice the truth" in " ".join(out.split())
    assert f"nqf verify twice-a --plugin {BROKEN} --replay 'structure-matrix:width=3'" in out
    code, out, _ = command(capfd, "verify", "quadratic-network", "--set", "width=2", "--replay", "finiteness:width=2")
    assert code == 0 and "finiteness" in out and len(out.splitlines()) == 1
    code, out, err = command(capfd, "verify", "quadratic-network", "--replay", "finiteness:width=0")
    assert code == 2 and not out and "integer from 1" in err
    code, out, err = command(capfd, "verify", "quadratic-network", "linear-ssl", "--replay", "finiteness")
    assert code == 2 and not out and "one example is replayed on one layer, got 2 (quadratic-network, linear-ssl)" in err


def test_the_command_line_as_json(capfd):
    code, out, _ = command(capfd, "verify", "twice-a", "--plugin", BROKEN, "--replay", "structure-matrix", "--json")
    ((entry),) = json.loads(out)
    assert code == 1 and entry["layer"] == "twice-a" and [check["status"] for check in entry["checks"]] == ["fail"]
    check = nqf.Check.from_dict(entry["checks"][0])
    assert check.expected and check.measured and check.advice and check.counterexample["example"] == "structure-matrix"


def test_a_file_of_one_layer_is_the_target(capfd, write, layer_source):
    path = write("kinked file.py", layer_source("kinked").replace("** 2", ".abs()"))
    code, out, _ = command(capfd, "verify", path)
    assert code == 1 and f"nqf verify '{path}' --replay 'smoothness'" in out
    code, out, _ = command(capfd, "verify", path, "--replay", "smoothness")
    assert code == 1 and f"nqf verify '{path}' --replay 'smoothness'" in out


def test_a_report_file_names_its_layers(capfd, tmp_path):
    _, out, _ = command(capfd, "verify", "twice-a", "quadratic-network", "--plugin", BROKEN, "--json")
    path = tmp_path / "report.json"
    path.write_text(out, encoding="utf-8")
    code, out, _ = command(capfd, "verify", "--plugin", BROKEN, "--replay", path, "--json")
    assert code == 1 and [entry["layer"] for entry in json.loads(out)] == ["twice-a"]
    code, out, err = command(capfd, "verify", "--replay", path)
    assert code == 2 and not out and "twice-a" in err
    for arguments in ([], ["--replay", "smoothness"]):
        code, out, err = command(capfd, "verify", *arguments)
        assert code == 2 and not out and "Missing argument 'KEY|FILE|all...'" in err
    code, out, err = command(capfd, "verify", "--replay", tmp_path / "none.json")
    assert code == 2 and not out and "none.json is not there" in err


def test_a_report_file_is_replayed(capfd, tmp_path):
    code, out, _ = command(capfd, "verify", "twice-a", "skewed", "quadratic-network", "--plugin", BROKEN, "--json")
    path = tmp_path / "report.json"
    path.write_text(out, encoding="utf-8")
    reported = {entry["layer"]: [c["name"] for c in entry["checks"] if c["status"] == "fail"] for entry in json.loads(out)}
    code, out, _ = command(
        capfd, "verify", "twice-a", "skewed", "quadratic-network", "--plugin", BROKEN, "--replay", path, "--json"
    )
    replayed = {entry["layer"]: [check["name"] for check in entry["checks"]] for entry in json.loads(out)}
    assert code == 1 and replayed == {key: names for key, names in reported.items() if names} and len(replayed) == 2
    code, _, err = command(capfd, "verify", "quadratic-network", "--replay", path)
    assert code == 2 and "holds no failing check of quadratic-network" in err
    code, _, err = command(capfd, "verify", "linear-ssl", "--replay", path)
    assert (
        code == 2 and "holds no report of linear-ssl; the layers that it reports are twice-a, skewed, quadratic-network" in err
    )
    code, _, err = command(capfd, "verify", "twice-a", "--set", "width=2", "--plugin", BROKEN, "--replay", path)
    assert code == 2 and "reports twice-a at other sizes; add --set width=4" in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("3", "report 0: expected checks as a list, got a int"),
        ('[{"layer": "relu"}]', "report 0: expected checks as a list, got no checks"),
        ('[{"layer": 3, "checks": [], "sizes": {}}]', "expected layer as a str, got layer is int"),
        ('[{"layer": "relu", "checks": [], "sizes": []}]', "expected sizes as a dict, got sizes is list"),
        ('[{"layer": "relu", "checks": [null], "sizes": {}}]', "check 0: expected status as a str, got a NoneType"),
        (
            '[{"layer": "relu", "checks": [{"status": "fail"}], "sizes": {}}]',
            "check 0: expected counterexample as a dict, got no counterexample",
        ),
        (
            '[{"layer": "relu", "checks": [{"status": "fail", "counterexample": {"example": 3}}], "sizes": {}}]',
            "counterexample: expected example as a str",
        ),
        (
            '[{"layer": "relu", "checks": [{"status": "fail", "counterexample": {"example": "x"}}], "sizes": {}}]',
            "begins with the name of a check, got 'x'",
        ),
        ("[]", "holds no report of quadratic-network; the layers that it reports are none"),
        ("9" * 5000, "is no JSON"),
    ],
)
def test_a_hostile_file_is_told(capfd, tmp_path, text, words):
    path = tmp_path / "report.json"
    path.write_text(text, encoding="utf-8")
    code, out, err = command(capfd, "verify", "quadratic-network", "--replay", path)
    assert code == 2 and not out and words in err and "Traceback" not in err and len(err) < 1000


def test_a_file_that_cannot_be_read_is_told(capfd, tmp_path, monkeypatch):
    from nqf_registry.verify import recorded

    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large.json").write_text(" " * 100, encoding="utf-8")
    monkeypatch.setattr(recorded, "LARGEST", 64)
    for path, words in (
        (tmp_path / "none.json", "is not there"),
        (tmp_path, "is a folder"),
        (tmp_path / "bytes.json", "cannot be read"),
        (tmp_path / "large.json", "at most"),
        ("/" * 5000 + ".json", "no"),
    ):
        code, out, err = command(capfd, "verify", "quadratic-network", "--replay", path)
        assert code == 2 and not out and words in err and "Traceback" not in err
