"""Rules that hold for the source itself."""

import ast
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIBRARY = sorted((ROOT / "nqf_registry").rglob("*.py"))
SOURCES = [*LIBRARY, *sorted((ROOT / "plugins").rglob("*.py")), *sorted((ROOT / "tests").rglob("*.py"))]
LIMIT = 400
ENTRY_POINTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["nqf_registry.plugins"]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_file_is_short_or_says_why_not(path):
    lines = path.read_text().splitlines()
    if len(lines) >= LIMIT:
        assert any("Longer than 400 lines because" in line for line in lines[:30]), (
            f"{len(lines)} lines and no reason in the first 30"
        )


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_names_no_plugin_package(path):
    assert "nqf_models" not in path.read_text()


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_the_library_branches_on_no_model(path):
    """No comparison, match case or dispatch table of the library holds the key, module or class name of a model."""
    names = {
        form for key in ENTRY_POINTS for form in (key, key.replace("-", "_"), "".join(word.title() for word in key.split("-")))
    }
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.Compare, ast.MatchValue, ast.Dict, ast.Set)):
            parts = node.keys if isinstance(node, ast.Dict) else list(ast.walk(node))
            found = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)} & names
            assert not found, f"line {node.lineno} branches on {found}"


def test_there_is_one_entry_point_for_each_model_file_named_by_its_key():
    modules = {path.stem for path in (ROOT / "plugins" / "nqf_models").glob("*.py")} - {"__init__"}
    assert {value for value in ENTRY_POINTS.values()} == {f"nqf_models.{module}" for module in modules}
    assert all(value == "nqf_models." + key.replace("-", "_") for key, value in ENTRY_POINTS.items())


def test_the_plugin_root_is_no_package():
    assert not (ROOT / "plugins" / "__init__.py").exists()


def test_every_verb_has_its_module():
    from nqf_registry.verbs import VERBS

    assert sorted(VERBS) == list(VERBS)
    modules = {path.stem for path in (ROOT / "nqf_registry" / "cli").glob("*.py")}
    assert set(VERBS) <= modules


def test_torch_is_pinned_for_tests_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [need for need in project["dependencies"] if need.startswith("torch")] == ["torch>=2.11"]
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()
