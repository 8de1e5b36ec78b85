"""Asking the registry for layers, commands and data sets."""

import os
import sys

import pytest

import nqf_registry as nqf
from nqf_registry.registry import Registry, default_registry


@pytest.fixture
def registry(layer_source, write):
    return Registry.load(plugins=[write("sample.py", layer_source("sample-layer"))], entry_points=False)


def test_get_makes_the_layer_with_the_sizes_given(registry):
    layer = registry.get("sample-layer", width=5)
    assert (layer.key, layer.width, layer.n_in) == ("sample-layer", 5, 3)


def test_an_unknown_key_is_answered_with_the_nearest_and_how_to_list(registry):
    with pytest.raises(nqf.UnknownKey, match=r"Did you mean 'sample-layer'\?.*nqf list"):
        registry.get("sampel-layer")


def test_a_key_with_underscores_finds_the_one_with_hyphens(registry):
    with pytest.raises(nqf.UnknownKey, match="'sample-layer'"):
        registry.get("sample_layer")


def test_a_far_word_gets_no_suggestion(registry):
    with pytest.raises(nqf.UnknownKey) as caught:
        registry.get("zzz")
    assert "Did you mean" not in str(caught.value)


def test_a_key_that_is_no_string(registry):
    with pytest.raises(nqf.UnknownKey, match="as a string, got 3"):
        registry.get(3)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"widht": 3}, r"no size 'widht'. Did you mean 'width'\? Its sizes, with their defaults: n_in=3, width=2"),
        ({"width": "abc"}, "width expects an integer, got 'abc'"),
        ({"width": True}, "width expects an integer, got True"),
        ({"width": 2.5}, "width expects an integer, got 2.5"),
        ({"width": 0}, "width must be a positive integer"),
        ({"n_in": -1}, "must be a tuple of positive integers"),
    ],
)
def test_a_wrong_size_says_what_was_expected(registry, sizes, message):
    with pytest.raises(nqf.InvalidInput, match=message):
        registry.get("sample-layer", **sizes)


def test_entries_name_key_title_and_plugin(registry, tmp_path):
    [entry] = registry.entries()
    file = str(tmp_path / "sample.py")
    assert (entry.key, entry.title, entry.plugin, entry.distribution, entry.file) == (
        "sample-layer",
        "A sample layer",
        file,
        "",
        file,
    )


def test_an_installed_entry_names_its_distribution_and_version(install, layer_source):
    install("shipped", layer_source("shipped"), distribution="some-dist", version="2.3")
    [entry] = [entry for entry in Registry.load().entries() if entry.key == "shipped"]
    assert (entry.plugin, entry.distribution, entry.version) == ("shipped", "some-dist", "2.3")


def test_layers_come_sorted_and_at_their_defaults(layer_source, write):
    files = [write(f"{name}.py", layer_source(name)) for name in ("zeta", "alpha")]
    layers = Registry.load(plugins=files, entry_points=False).layers()
    assert [(layer.key, layer.width) for layer in layers] == [("alpha", 2), ("zeta", 2)]


def test_data_sets_and_commands_of_a_plugin(write):
    path = write(
        "more.py",
        '''
        import click
        import nqf_registry as nqf

        @click.command("greet")
        def greet():
            """Say hello."""

        def wave(layer, n=3):
            """A sine wave.

            Further lines are for readers of the code.
            """
            return n

        @nqf.hookimpl
        def nqf_register_commands(register):
            register(greet)

        @nqf.hookimpl
        def nqf_register_data(register):
            register("wave", wave)
        ''',
    )
    registry = Registry.load(plugins=[path], entry_points=False)
    assert [(entry.key, entry.title) for entry in registry.commands()] == [("greet", "Say hello.")]
    assert [(entry.key, entry.title) for entry in registry.data_sets()] == [("wave", "A sine wave.")]
    assert registry.command("greet").name == "greet"
    assert registry.data_set("wave")(None, n=4) == 4
    with pytest.raises(nqf.UnknownKey, match=r"no data set 'waev' is registered\. Did you mean 'wave'"):
        registry.data_set("waev")


def test_the_default_registry_reads_nqf_plugins_and_warns_of_a_broken_file(layer_source, write, monkeypatch):
    good = write("good.py", layer_source("from-environment"))
    bad = write("bad.py", "1 / 0\n")
    monkeypatch.setenv("NQF_PLUGINS", f"{good}:{bad}")
    with pytest.warns(UserWarning, match=r"bad\.py was left out: it failed at import: ZeroDivisionError"):
        registry = default_registry()
    assert "from-environment" in registry.keys()


def test_the_same_unchanged_file_gives_the_same_class_and_a_changed_one_the_new(layer_source, write, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write("edited.py", layer_source("edited"))
    os.utime(path, ns=(0, 10**18))
    first = Registry.load(plugins=[path], entry_points=False).layer_class("edited")
    assert Registry.load(plugins=[path], entry_points=False).layer_class("edited") is first
    # The same length within the same second: bytecode caches would not see it.
    path.write_text(path.read_text().replace("n_in: int = 3", "n_in: int = 4"))
    os.utime(path, ns=(0, 10**18 + 1000))
    assert Registry.load(plugins=[path], entry_points=False).get("edited").n_in == 4


def test_a_plugin_file_leaves_no_bytecode_beside_it(registry, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    registry.layers()
    assert not (tmp_path / "__pycache__").exists()


@pytest.mark.parametrize("name", ["missing.py", "", "loop.py", "notes.txt", "x" * 300 + ".py"])
def test_a_plugin_file_that_is_none_is_quarantined(tmp_path, name):
    (tmp_path / "loop.py").symlink_to(tmp_path / "loop.py")
    (tmp_path / "notes.txt").write_text("")
    with pytest.warns(UserWarning, match="was left out"):
        registry = Registry.load(plugins=[tmp_path / name], entry_points=False)
    [failure] = registry.failures
    assert failure.stage == "import"
    assert "expected a Python file" in failure.message or "too long" in failure.message


def test_a_plugin_that_stops_importing_is_told_at_its_first_use(layer_source, write, fresh_cache, tmp_path, monkeypatch):
    (tmp_path / "site").mkdir()
    needed = tmp_path / "site" / "needed_by_plugin.py"
    needed.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    path = write("needs.py", "import needed_by_plugin\n" + layer_source("needs-another"))
    assert Registry.load(plugins=[path], entry_points=False).keys() == ["needs-another"]
    # A new process without the dependency: metadata still list the key, but nothing is imported.
    for name in [name for name in sys.modules if name.startswith(("nqf_plugin_needs_", "needed_by_plugin"))]:
        del sys.modules[name]
    needed.unlink()
    registry = Registry.load(plugins=[path], entry_points=False)
    assert registry.keys() == ["needs-another"]
    with pytest.raises(nqf.PluginError, match="failed at import: ModuleNotFoundError"):
        registry.get("needs-another")
    assert registry.keys() == []


def test_one_path_is_one_plugin(write, layer_source):
    path = write("single.py", layer_source("single-layer"))
    for given in (path, str(path)):
        assert Registry.load(plugins=given, entry_points=False).keys() == ["single-layer"]
        assert Registry.load(entry_points=False).extended(given).keys() == ["single-layer"]


@pytest.mark.parametrize("given", [3, b"single.py", [3], [None]])
def test_what_is_no_path_is_named(given):
    with pytest.raises(nqf.InvalidInput, match="paths of Python files"):
        Registry.load(plugins=given, entry_points=False)


def test_a_file_that_cannot_be_used_is_told_at_once_and_again_at_an_unknown_key():
    with pytest.warns(UserWarning, match=r"nope\.py was left out"):
        registry = Registry.load(plugins=["nope.py"], entry_points=False)
    assert [failure.stage for failure in registry.failures] == ["import"]
    with pytest.raises(nqf.UnknownKey, match=r"1 plugin failed to load"):
        registry.get("some-layer")


def test_an_unknown_key_says_how_to_name_a_file():
    with pytest.raises(nqf.UnknownKey, match=r"--plugin FILE"):
        Registry.load(entry_points=False).get("some-layer")
