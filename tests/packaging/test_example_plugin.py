"""A third-party plugin, one module and five lines of pyproject.toml, goes everywhere that a built-in layer goes."""

import json
import shutil
from importlib.util import find_spec

import pytest

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]  # one worker builds the wheel, once

KEY = "bounded-product"


@pytest.fixture(params=["installed", "file"])
def nqf_with_example(request, nqf_outside, environment, example_wheel, example_plugin):
    """``nqf`` where the example is installed, and where its file alone is given by ``--plugin``."""
    if request.param == "file":
        file = example_plugin / "nqf_example_plugin.py"
        yield lambda *arguments: nqf_outside(*arguments, "--plugin", file)
        return
    environment.install(example_wheel)
    yield nqf_outside
    environment.uninstall("nqf-example-plugin")


def needs(verb):
    return pytest.mark.skipif(find_spec(f"nqf_registry.cli.{verb}") is None, reason=f"the verb {verb} is not there")


def test_the_example_is_one_module_and_five_lines(example_plugin):
    assert sorted(path.name for path in example_plugin.iterdir() if path.suffix in (".py", ".toml")) == [
        "nqf_example_plugin.py",
        "pyproject.toml",
    ]
    assert len((example_plugin / "pyproject.toml").read_text().splitlines()) == 5


def test_list(nqf_with_example):
    keys = [entry["key"] for entry in json.loads(nqf_with_example("list", "--json"))]
    assert KEY in keys
    assert len(keys) == 18


@needs("verify")
def test_verify(nqf_with_example):
    [report] = json.loads(nqf_with_example("verify", KEY, "--json"))
    assert (report["layer"], report["passed"], report["classification"]) == (KEY, True, "nqf")


@needs("catalogue")
def test_catalogue(nqf_with_example, tmp_path):
    nqf_with_example("catalogue", KEY, "--out", tmp_path / "catalogue")
    texts = [path.read_text() for path in (tmp_path / "catalogue").rglob("*.md")]
    assert any("Bounded product unit" in text for text in texts)


@needs("train")
def test_train(nqf_with_example, tmp_path):
    nqf_with_example("train", KEY, "--data", "teacher", "--steps", "20", "--out", tmp_path / "run")
    assert any((tmp_path / "run").rglob("*.jsonl"))


def test_the_kit_runs_a_plugins_own_tests(python_outside, environment, root, tmp_path):
    """The test file that the documentation shows, with what the wheel holds of the library and pytest beside it."""
    for name in ("gated_unit.py", "test_gated_unit.py"):
        shutil.copy(root / "examples" / name, tmp_path)
    (tmp_path / "conftest.py").write_text("import nqf_registry\n\nprint(nqf_registry.__file__)\n")
    shown = python_outside("-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "test_gated_unit.py")
    assert str(environment.site) in shown.splitlines()[0]
    assert "25 passed, 3 xfailed" in shown
