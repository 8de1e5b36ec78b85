"""A key that two plugins claim belongs to neither, and every way to ask says so."""

import pytest

import nqf_registry as nqf
from nqf_registry.registry import Registry


@pytest.fixture
def built_in():
    """The key, the module file and the plugin of one built-in layer."""
    return Registry.load().entries()[0]


def test_a_plugin_that_claims_a_built_in_key_makes_it_contested(built_in, install, layer_source):
    install("rival", layer_source(built_in.key))
    registry = Registry.load()
    assert built_in.key not in registry.keys()
    assert list(registry.contested) == [built_in.key]
    assert {failure.plugin for failure in registry.failures if failure.stage == "contested"} == {built_in.plugin, "rival"}
    with pytest.raises(nqf.ContestedKey, match=r"rival \(rival 1\.0\)") as caught:
        registry.get(built_in.key)
    assert built_in.plugin in str(caught.value)
    assert "neither" in str(caught.value)


def test_the_other_keys_of_a_contesting_plugin_stay(install, layer_source):
    install("first", layer_source("shared-key"))
    second = layer_source("shared-key") + "    register(type('Other', (Sample,), {'key': 'own-key'}))\n"
    install("second", second)
    registry = Registry.load()
    assert "own-key" in registry.keys()
    assert registry.get("own-key").key == "own-key"
    assert list(registry.contested) == ["shared-key"]


def test_a_file_contests_an_installed_plugin(install, layer_source, write):
    install("installed", layer_source("both"))
    path = write("copy.py", layer_source("both"))
    registry = Registry.load(plugins=[path])
    [plugins] = registry.contested.values()
    assert any("installed" in plugin for plugin in plugins)
    assert str(path) in plugins


def test_the_very_file_of_an_installed_plugin_is_that_plugin(install, layer_source):
    path = install("the_same", layer_source("the-same"))
    registry = Registry.load(plugins=[path])
    assert registry.contested == {}
    assert registry.keys_of(path) == ["the-same"]
    assert [entry.distribution for entry in registry.entries() if entry.key == "the-same"] == ["the-same"]


def test_a_symbolic_link_to_an_installed_plugin_is_that_plugin(install, layer_source, tmp_path):
    path = install("linked", layer_source("linked"))
    link = tmp_path / "link.py"
    link.symlink_to(path)
    assert Registry.load(plugins=[link]).contested == {}


def test_one_file_given_twice_is_one_plugin(layer_source, write):
    path = write("once.py", layer_source("once"))
    registry = Registry.load(plugins=[path, str(path)], entry_points=False).extended([path])
    assert registry.keys() == ["once"]


def test_two_commands_of_one_name_are_contested(install):
    source = "import click, nqf_registry as nqf\n@nqf.hookimpl\n"
    source += "def nqf_register_commands(register): register(click.Command('greet'))\n"
    install("greeter_a", source)
    install("greeter_b", source)
    registry = Registry.load()
    assert registry.commands() == []
    with pytest.raises(nqf.ContestedKey, match="command 'greet' is contested"):
        registry.command("greet")
