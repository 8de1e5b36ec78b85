"""Distributions that seem to be installed: found as pip would leave them, and gone without a trace."""

import importlib
import importlib.metadata
import os
import subprocess
import sys

import pytest

import nqf_registry as nqf
from nqf_registry.testing import fake_distribution


def state():
    return list(sys.path), os.environ.get("PYTHONPATH"), {name for name in sys.modules if name.startswith("faked")}


def test_a_plugin_is_found_and_gone_again(tmp_path, layer_source):
    before = state()
    modules = {"faked_plugin": layer_source("faked-layer")}
    with fake_distribution(
        tmp_path / "deep" / "site", "faked", modules=modules, entry_points={"x": "faked_plugin"}, version="2.5"
    ):
        [entry] = [entry for entry in nqf.Registry.load().entries() if entry.key == "faked-layer"]
        assert (entry.distribution, entry.version) == ("faked", "2.5")
        assert nqf.default_registry().get("faked-layer").key == "faked-layer"
        assert "faked_plugin" in sys.modules
    assert state() == before
    assert not list(tmp_path.iterdir())
    assert "faked-layer" not in nqf.Registry.load().keys()
    with pytest.raises(importlib.metadata.PackageNotFoundError):
        importlib.metadata.version("faked")


def test_children_see_it_too(tmp_path):
    with fake_distribution(tmp_path, "for-children", modules={"seen_by_children": "WORD = 'here'"}):
        code = "import seen_by_children as m, importlib.metadata as d; print(m.WORD, d.version('for-children'))"
        assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["here", "1.0"]


def test_packages_and_files(tmp_path):
    (tmp_path / "source.py").write_text("VALUE = 3\n")
    modules = {"faked_package": "NAME = 'top'", "faked_package.deep.inner": tmp_path / "source.py"}
    with fake_distribution(tmp_path / "site", "packaged", modules=modules):
        assert importlib.import_module("faked_package").NAME == "top"
        assert importlib.import_module("faked_package.deep.inner").VALUE == 3
    assert not (tmp_path / "site").exists() and "faked_package.deep" not in sys.modules


def test_two_share_a_folder(tmp_path):
    with fake_distribution(tmp_path, "one", modules={"faked_one": ""}):
        with fake_distribution(
            tmp_path, "two", modules={"faked_two": "VALUE = 2"}, entry_points={"e": "faked_two:VALUE"}, group="other"
        ):
            [entry] = importlib.metadata.entry_points(group="other")
            assert entry.load() == 2 and importlib.metadata.version("one") == "1.0"
        assert importlib.metadata.version("one") == "1.0"
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("faked_two")


def test_it_goes_also_when_the_block_raises(tmp_path):
    before = state()
    with pytest.raises(ZeroDivisionError), fake_distribution(tmp_path, "raising", modules={"faked_raising": "1 / 0"}):
        importlib.import_module("faked_raising")
    assert state() == before and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "modules", "message"),
    [
        ("no name", {}, "distribution's name"),
        ("../up", {}, "distribution's name"),
        ("fine", {"../up": ""}, "dotted names"),
        ("fine", {"there": ""}, "is there already"),
    ],
)
def test_wrong_names_are_refused_before_anything_is_written(tmp_path, name, modules, message):
    (tmp_path / "there.py").write_text("")
    with pytest.raises(nqf.InvalidInput, match=message), fake_distribution(tmp_path, name, modules=modules):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["there.py"]


def test_the_fixture(install_distribution, tmp_path, layer_source):
    site = install_distribution("by-fixture", {"by_fixture": layer_source("by-fixture")}, {"by-fixture": "by_fixture"})
    assert site == tmp_path / "site"
    assert "by-fixture" in nqf.Registry.load().keys()


def test_it_imports_neither_torch_nor_hypothesis_nor_pytest():
    code = "import sys; from nqf_registry.testing import fake_distribution; print(*sys.modules)"
    loaded = set(subprocess.check_output([sys.executable, "-c", code], text=True).split())
    assert not {"torch", "hypothesis", "pytest"} & loaded and "nqf_registry.testing.distributions" in loaded
