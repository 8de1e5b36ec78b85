"""``nqf verify``: exit codes, JSON on stdout and nothing else, files, sizes, and several processes."""

import json

import pytest
from click.testing import CliRunner

from nqf_registry.cli.main import main

NOISY = """
@dataclass(frozen=True)
class Loud(Sample):
    key = "loud"

    def unit(self, w, x):
        print("printed by the layer")
        return (x["x"] @ w["w"])[:, None] ** 2
"""


def nqf(capfd, *arguments):
    code = main(list(map(str, arguments)))
    out, err = capfd.readouterr()
    return code, out, err


def test_a_key_that_passes(capfd):
    code, out, _ = nqf(capfd, "verify", "quadratic-network")
    assert code == 0 and "quadratic-network: passed, exact-nqf" in out and "structure-matrix" in out


def test_json_is_a_list_of_reports_and_nothing_else(capfd, write, layer_source):
    source = (
        layer_source("quiet")
        .replace("@nqf.hookimpl", NOISY + "\n\n@nqf.hookimpl")
        .replace("register(Sample)", "register(Loud)")
    )
    code, out, err = nqf(capfd, "verify", write("loud.py", source), "--json")
    (report,) = json.loads(out)
    assert code == 0 and report["layer"] == "loud" and report["passed"] and len(report["checks"]) == 9
    assert "printed by the layer" in err


def test_one_failure_is_exit_code_one(capfd, write, layer_source):
    source = layer_source("kinked").replace("** 2", ".abs()")
    code, out, _ = nqf(capfd, "verify", write("kinked.py", source))
    assert code == 1 and "DID NOT PASS, not-smooth" in out and "expected:" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["verify"],
        ["verify", "no-such-layer"],
        ["verify", "no/such/file.py"],
        ["verify", "quadratic-network", "--profile", "quick"],
        ["verify", "quadratic-network", "--set", "width"],
        ["verify", "quadratic-network", "--set", "depth=3"],
        ["verify", "quadratic-network", "--jobs", "0"],
        ["verify", "quadratic-network", "--seed", "-1"],
    ],
)
def test_wrong_use_is_exit_code_two(capfd, arguments):
    code, out, err = nqf(capfd, *arguments)
    assert code == 2 and not out and len(err.strip().splitlines()) <= 4 and "Traceback" not in err


def test_a_folder_is_told_from_a_file(capfd, tmp_path):
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    code, out, err = nqf(capfd, "verify", tmp_path)
    assert code == 2 and not out and "is a folder; name the plugin file" in err and "It has mine.py." in err


def test_a_size_that_some_layers_lack_is_told(capfd):
    code, out, err = nqf(capfd, "verify", "quadratic-network", "linear-ssl", "--set", "dim=3")
    assert code == 2 and not out
    assert "dim is no size of quadratic-network; of the 2 layers 1 have it: linear-ssl." in err
    code, _, err = nqf(capfd, "verify", "quadratic-network", "linear-ssl", "--set", "nonsense=3")
    assert code == 2 and "has no size 'nonsense'" in err


def test_sizes_and_seed_are_reported(capfd):
    code, out, _ = nqf(capfd, "verify", "quadratic-network", "--set", "width=3", "--seed", "7", "--json")
    (report,) = json.loads(out)
    assert code == 0 and report["sizes"]["width"] == 3 and report["seed"] == 7


def test_several_layers_say_their_notes_below_the_table(capfd, write, layer_source):
    """A layer that passed has no block of its own; one that did not says its notes there."""
    source = layer_source("branching").replace(
        '(x["x"] @ w["w"])', '(x["x"] @ w["w"] * (1 if float(w["w"].sum()) < 9e9 else 2))'
    )
    assert "float(" in source
    kinked = layer_source("kinked").replace("** 2", ".abs()").replace("Sample", "Other")
    code, out, _ = nqf(capfd, "verify", write("a.py", source), write("b.py", kinked), "quadratic-network", "--jobs", "1")
    lines = out.splitlines()
    noted = [line for line in lines if line.startswith("  note: branching: ")]
    assert code == 1 and len(noted) == 1 and "vmap refused the layer" in noted[0]
    assert lines.index(noted[0]) < next(i for i, line in enumerate(lines) if line.startswith("kinked: DID NOT PASS"))
    assert not [line for line in lines if line.startswith("  note: kinked")]
    code, out, _ = nqf(capfd, "verify", write("a.py", source), "quadratic-network", "--jobs", "1", "-v")
    assert code == 0 and "note: branching" not in out and "  note: vmap refused" in out


def test_many_layers_in_processes_of_their_own(capfd, write, layer_source):
    """The order is that of the command line, and a local file is found in the new processes."""
    keys = ["psd-matrix-sensing", "quadratic-network", "linear-ssl"]
    code, out, _ = nqf(capfd, "verify", *keys, write("local.py", layer_source("local")), "--jobs", "2", "--json")
    reports = json.loads(out)
    assert code == 0 and [report["layer"] for report in reports] == [*keys, "local"]
    code, out, _ = nqf(capfd, "verify", *keys[:2], "--jobs", "1")
    assert code == 0 and "2 of 2 layers passed" in out and "checks ran" in out


def test_help_imports_no_torch():
    from nqf_registry.cli.verify import command

    assert "--profile" in CliRunner().invoke(command, ["--help"]).output
