"""What importing the library and starting ``nqf`` cost: nothing heavy is imported before it is needed."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import nqf_registry
from nqf_registry.registry import Registry

HEAVY = {
    "torch",
    "numpy",
    "scipy",
    "networkx",
    "matplotlib",
    "hypothesis",
    "rich",
    "yaml",
    "jinja2",
    "sklearn",
    "xarray",
    "nqf_models",
}


def python(*arguments):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)


def imported(importtime):
    """The top-level modules in what ``-X importtime`` printed."""
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in importtime.splitlines() if "import time" in line}


def test_importing_the_library_imports_no_torch():
    done = python("-c", "import sys, nqf_registry; print(*sys.modules)")
    assert set(done.stdout.split()) & (HEAVY | {"click"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["list"], ["list", "--json"]])
def test_help_and_list_import_nothing_heavy(arguments):
    python("-m", "nqf_registry", "list")  # the first listing fills the cache
    done = python("-X", "importtime", "-m", "nqf_registry", *arguments)
    assert "click" in imported(done.stderr)
    assert imported(done.stderr) & HEAVY == set()


def test_the_first_help_of_all_imports_nothing_heavy_either(tmp_path):
    """With an empty cache, as right after installation."""
    command = [sys.executable, "-X", "importtime", "-m", "nqf_registry", "--help"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "NQF_CACHE_DIR": str(tmp_path)}
    )
    assert imported(done.stderr) & HEAVY == set()


def test_the_librarys_own_plugins_add_no_verb():
    """Help relies on it: those plugins are not asked."""
    own = [metadata for source, metadata in Registry.load().plugins() if source.distribution == "nqf_registry"]
    assert [metadata.commands for metadata in own if metadata and metadata.commands] == []
    assert len(own) == 17


def test_every_exported_name_is_there():
    for name in nqf_registry.__all__:
        try:
            assert getattr(nqf_registry, name) is not None
        except ModuleNotFoundError as error:
            pytest.fail(f"nqf_registry.{name}: {error}")


def test_the_exported_names_are_sorted_and_listed_by_dir():
    assert nqf_registry.__all__ == sorted(nqf_registry.__all__)
    assert set(nqf_registry.__all__) <= set(dir(nqf_registry))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = nqf_registry.no_such_name


def test_type_checkers_see_the_exported_names():
    stub = ast.parse((Path(nqf_registry.__file__).parent / "__init__.pyi").read_text())
    seen = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == nqf_registry._EXPORTS, "add `from MODULE import NAME as NAME` to nqf_registry/__init__.pyi"


def test_a_subpackage_does_not_hide_the_name_it_shares():
    done = python(
        "-c",
        "import nqf_registry as nqf, nqf_registry.quadratic_form; print(type(nqf.quadratic_form).__name__)",
    )
    assert done.stdout.strip() == "function"
