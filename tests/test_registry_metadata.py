"""Listing reads what is known of a plugin without importing it, and notices every change."""

import json
import os
import sys

import pytest

from nqf_registry.registry import Registry


def imported(module):
    return module in sys.modules


def load_as_new_process(module):
    sys.modules.pop(module, None)
    return Registry.load()


@pytest.fixture(autouse=True)
def _fresh(fresh_cache):
    return fresh_cache


def test_a_known_plugin_is_listed_without_an_import(install, layer_source):
    install("listed", layer_source("listed-layer"))
    assert "listed-layer" in Registry.load().keys()
    assert imported("listed")
    registry = load_as_new_process("listed")
    assert [entry.title for entry in registry.entries() if entry.key == "listed-layer"] == ["A sample layer"]
    assert not imported("listed")
    assert registry.get("listed-layer").width == 2
    assert imported("listed")


def test_the_parent_package_is_not_imported_either(install, layer_source, tmp_path):
    install("unused", "", value="a_package.inner", distribution="a-package")
    package = tmp_path / "site" / "a_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text(layer_source("inner-layer"))
    assert "inner-layer" in Registry.load().keys()
    sys.modules.pop("a_package.inner")
    registry = load_as_new_process("a_package")
    assert "inner-layer" in registry.keys()
    assert not imported("a_package")
    # The package's own file counts too.
    (package / "__init__.py").write_text("raise ImportError('changed')\n")
    assert "inner-layer" not in load_as_new_process("a_package").keys()


def test_an_edit_is_noticed(install, layer_source):
    path = install("edited_plugin", layer_source("before-edit"))
    assert "before-edit" in Registry.load().keys()
    path.write_text(layer_source("after-the-edit"))
    keys = load_as_new_process("edited_plugin").keys()
    assert "after-the-edit" in keys
    assert "before-edit" not in keys


def test_an_edit_of_a_base_class_elsewhere_is_noticed(install, layer_source, tmp_path):
    base = tmp_path / "site" / "base_of_plugin.py"
    base.write_text(layer_source("base-layer"))
    install(
        "derived",
        "from base_of_plugin import Sample, nqf\n@nqf.hookimpl\ndef nqf_register(register): register(Sample)\n",
    )
    assert "base-layer" in Registry.load().keys()
    base.write_text(layer_source("renamed-base-layer"))
    sys.modules.pop("base_of_plugin")
    assert "renamed-base-layer" in load_as_new_process("derived").keys()


def test_a_failure_is_not_remembered(install, layer_source):
    path = install("recovering", "1 / 0\n")
    assert "recovered" not in Registry.load().keys()
    stat = path.stat()
    text = layer_source("recovered")
    path.write_text(text)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "recovered" in load_as_new_process("recovering").keys()


def test_an_uninstalled_plugin_is_gone(install, layer_source, tmp_path):
    install("leaving", layer_source("leaving-layer"))
    assert "leaving-layer" in Registry.load().keys()
    (tmp_path / "site" / "leaving-1.0.dist-info" / "entry_points.txt").unlink()
    assert "leaving-layer" not in Registry.load().keys()


@pytest.mark.parametrize("damage", ["", "{", "[]", "null", '{"format": 1}', "\x00\xff"])
def test_a_damaged_cache_is_as_good_as_none(install, layer_source, fresh_cache, damage):
    install("kept", layer_source("kept-layer"))
    Registry.load().keys()
    files = list((fresh_cache / "plugins").iterdir())
    assert files
    for file in files:
        file.write_text(damage, encoding="latin-1")
    assert "kept-layer" in load_as_new_process("kept").keys()
    assert all(json.loads(file.read_text())["format"] == 1 for file in files)


def test_metadata_of_another_shape_are_as_good_as_none(install, layer_source, fresh_cache):
    install("shaped", layer_source("shaped-layer"))
    Registry.load().keys()
    for file in (fresh_cache / "plugins").iterdir():
        stored = json.loads(file.read_text())
        stored["names"]["layers"] = {"shaped-layer": 3}
        file.write_text(json.dumps(stored))
    assert [entry.title for entry in load_as_new_process("shaped").entries() if entry.key == "shaped-layer"] == [
        "A sample layer"
    ]


def test_a_cache_that_cannot_be_written_breaks_nothing(install, layer_source, fresh_cache):
    fresh_cache.write_text("a file where the folder should be")
    install("uncached", layer_source("uncached-layer"))
    assert "uncached-layer" in Registry.load().keys()
    assert "uncached-layer" in load_as_new_process("uncached").keys()
