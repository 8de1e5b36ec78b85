"""The root of ``nqf``: verbs, plugin options on either side of the verb, plugin verbs, and how it ends."""

import json
import os
import subprocess
import sys

import pytest

import nqf_registry
from nqf_registry.verbs import VERBS

GREETER = '''
import click
import nqf_registry as nqf


@click.command("greet")
@click.argument("ending", default="")
def greet(ending):
    """Say hello."""
    endings = {"interrupt": KeyboardInterrupt(), "bug": RuntimeError("a bug"), "diverge": nqf.Diverged("step 3")}
    if ending in endings:
        raise endings[ending]
    click.echo("hello")
    return 5


@nqf.hookimpl
def nqf_register_commands(register):
    register(greet)
'''


@pytest.fixture
def greeter(write):
    return write("greeter.py", GREETER)


def test_help_names_every_verb(nqf):
    done = nqf("--help")
    assert done.code == 0
    assert all(f"  {verb} " in done.out for verb in VERBS)


def test_version(nqf):
    assert nqf_registry.__version__ in nqf("--version").out


@pytest.mark.parametrize("before", [True, False])
def test_a_plugin_file_before_or_after_the_verb(nqf, write, layer_source, before):
    option = ["--plugin", write("mine.py", layer_source("mine"))]
    done = nqf(*(option if before else []), "list", "--json", *([] if before else option))
    assert done.code == 0
    assert "mine" in [entry["key"] for entry in json.loads(done.out)]


def test_plugin_files_on_both_sides_add_up(nqf, write, layer_source):
    one, two = (write(f"{name}.py", layer_source(name)) for name in ("one", "two"))
    keys = [entry["key"] for entry in json.loads(nqf("--plugin", one, "list", "--json", "--plugin", two).out)]
    assert {"one", "two"} <= set(keys)


def test_a_verb_of_a_plugin(nqf, greeter):
    for arguments in (["--plugin", greeter, "greet"], ["greet", "--plugin", greeter], ["greet", f"--plugin={greeter}"]):
        done = nqf(*arguments)
        assert (done.code, done.out) == (0, "hello\n")  # what the function returns is no exit code
    assert "Say hello." in nqf("--plugin", greeter, "--help").out
    assert "there is no verb" in nqf("greet").err


def test_how_a_verb_ends(nqf, greeter):
    interrupted = nqf("--plugin", greeter, "greet", "interrupt")
    assert (interrupted.code, interrupted.err.strip()) == (130, "Interrupted.")
    diverged = nqf("--plugin", greeter, "greet", "diverge")
    assert (diverged.code, diverged.err) == (3, "Error: step 3\n")
    bug = nqf("--plugin", greeter, "greet", "bug")
    assert bug.code == 3
    assert bug.err.startswith("Error: unexpected RuntimeError: a bug")
    assert "Traceback" not in bug.err
    assert "Traceback" in nqf("--debug", "--plugin", greeter, "greet", "bug").err


def test_nqf_plugins_is_read_and_a_broken_file_named_on_stderr(nqf, write, layer_source, monkeypatch):
    good, bad = write("good.py", layer_source("good-one")), write("bad.py", "1 / 0\n")
    monkeypatch.setenv("NQF_PLUGINS", os.pathsep.join([str(good), str(bad)]))
    done = nqf("list", "--json")
    assert done.code == 0
    assert "good-one" in [entry["key"] for entry in json.loads(done.out)]
    assert "bad.py was left out: it failed at import: ZeroDivisionError" in done.err


def test_python_dash_m():
    done = subprocess.run([sys.executable, "-m", "nqf_registry", "lits"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Did you mean 'list'" in done.stderr


def test_a_reader_that_goes_away_is_no_error(write):
    many = "import nqf_registry as nqf, click\n@nqf.hookimpl\ndef nqf_register_commands(register):\n"
    many += "    register(click.Command('flood', callback=lambda: [click.echo('x' * 1000) for _ in range(1000)]))\n"
    command = [sys.executable, "-m", "nqf_registry", "flood", "--plugin", str(write("flood.py", many))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 141
