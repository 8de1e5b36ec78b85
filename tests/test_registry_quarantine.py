"""A plugin that does something wrong is named and left out whole, and everything else works."""

import json
import sys
import textwrap

import pytest

from nqf_registry.registry import Registry

HOOK = "import nqf_registry as nqf\n@nqf.hookimpl\n"

MALFORMED = """
from dataclasses import dataclass
import nqf_registry as nqf

@dataclass(frozen=True)
class Malformed(nqf.Layer):
    key = "malformed"
    width: int = 2

    def blocks(self):
        return {"w": [3]}

    def sample(self, n, generator):
        return {}

    def unit(self, w, x):
        return None

@nqf.hookimpl
def nqf_register(register):
    register(Malformed)
"""

# name: (source, value of the entry point, stage, exception, a word of the message)
BROKEN = {
    "import-error": (
        "import a_module_that_is_not_there\n",
        None,
        "import",
        "ModuleNotFoundError",
        "a_module_that_is_not_there",
    ),
    "system-exit": ("import sys\nsys.exit(0)\n", None, "import", "SystemExit", "0"),
    "unknown-hook": (HOOK + "def nqf_regsiter(register): ...\n", None, "registration", "PluginValidationError", "nqf_regsiter"),
    "target-is-none": ("plugin = None\n", "broken_plugin:plugin", "import", "PluginError", "None"),
    "malformed-blocks": (MALFORMED, None, "validation", "LayerError", "blocks"),
    # Further ways than the usual ones.
    "error-without-text": (
        "class Bad(Exception):\n    def __str__(self): return 1 / 0\nraise Bad\n",
        None,
        "import",
        "Bad",
        "Bad",
    ),
    "endless-recursion": ("def f(): f()\nf()\n", None, "import", "RecursionError", "recursion"),
    "no-text": ("\xff\0", None, "import", "SyntaxError", "null"),
    "syntax-error": ("def (:\n", None, "import", "SyntaxError", "invalid syntax"),
    "missing-attribute": ("", "broken_plugin:plugin", "import", "AttributeError", "plugin"),
    "missing-module": ("", "no_such_module_at_all", "import", "ModuleNotFoundError", "no_such_module_at_all"),
    "no-hook": ("def nqf_register(register): ...\n", None, "registration", "PluginError", "@nqf.hookimpl"),
    "wrong-argument": (HOOK + "def nqf_register(registry): ...\n", None, "registration", "PluginValidationError", "registry"),
    "no-layer": (HOOK + "def nqf_register(register): register(3)\n", None, "validation", "LayerError", "nqf.Layer"),
    "exit-in-hook": (HOOK + "def nqf_register(register): raise SystemExit('over')\n", None, "hook", "SystemExit", "over"),
    "no-command": (HOOK + "def nqf_register_commands(register): register(print)\n", None, "validation", "PluginError", "click"),
    "exit-in-text": (
        "class Bad(Exception):\n    def __str__(self): raise SystemExit(9)\nraise Bad\n",
        None,
        "import",
        "Bad",
        "Bad",
    ),
    "loader-that-answers-nothing": (
        HOOK + "def nqf_register_data(register):\n"
        "    class Evil:\n"
        "        def __call__(self, layer): ...\n"
        "        def __getattr__(self, name): raise RuntimeError('no ' + name)\n"
        "    register('a', Evil())\n",
        None,
        "validation",
        "RuntimeError",
        "no __",
    ),
    "loader-no-function": (
        HOOK + "def nqf_register_data(register): register('a', 1)\n",
        None,
        "validation",
        "PluginError",
        "loader",
    ),
}


@pytest.fixture(scope="module")
def healthy():
    """The keys that are there without the broken plugin."""
    return Registry.load().keys()


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plugin_is_named_and_the_others_are_there(name, install, healthy):
    source, value, stage, error, word = BROKEN[name]
    install("broken_plugin", source, value=value, distribution="broken-dist")
    registry = Registry.load()
    [failure] = [failure for failure in registry.failures if failure.distribution == "broken-dist"]
    assert (failure.plugin, failure.stage, type(failure.error).__name__) == ("broken_plugin", stage, error)
    assert word in failure.message
    assert "\n" not in failure.message
    assert registry.keys() == healthy


def test_failing_half_way_leaves_nothing_of_the_plugin(install, layer_source, healthy):
    install("half_way", layer_source("half-way") + "    raise ValueError('after the first layer')\n")
    registry = Registry.load()
    [failure] = [failure for failure in registry.failures if failure.plugin == "half_way"]
    assert (failure.stage, failure.message) == ("hook", "ValueError: after the first layer")
    assert registry.keys() == healthy


def test_one_bad_layer_takes_the_good_one_of_its_plugin_along(install, layer_source, healthy):
    install("two_layers", layer_source("good-one") + "    register(Sample())\n")
    registry = Registry.load()
    assert [failure.stage for failure in registry.failures if failure.plugin == "two_layers"] == ["validation"]
    assert registry.keys() == healthy


def test_two_outside_plugins_with_one_key_are_both_named(install, layer_source, healthy):
    install("first_claim", layer_source("one-key"))
    install("second_claim", layer_source("one-key"))
    registry = Registry.load()
    claims = [failure for failure in registry.failures if failure.stage == "contested"]
    assert [failure.plugin for failure in claims] == ["first_claim", "second_claim"]
    assert all("first_claim" in failure.message and "second_claim" in failure.message for failure in claims)
    assert registry.keys() == healthy


def test_one_plugin_that_registers_a_key_twice(install, layer_source):
    install("twice", layer_source("twice-over") + "    register(type('Again', (Sample,), {}))\n")
    [failure] = [failure for failure in Registry.load().failures if failure.plugin == "twice"]
    assert failure.stage == "validation"
    assert "'twice-over' twice" in failure.message


def test_a_keyboard_interrupt_is_not_the_plugins_failure(install):
    install("interrupted", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        Registry.load().keys()


def test_what_a_plugin_prints_does_not_reach_stdout(install, layer_source, capsys):
    install("chatty", "print('hello')\n" + layer_source("chatty"))
    assert "chatty" in Registry.load().keys()
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "hello" in captured.err


def test_a_plugin_cannot_take_a_verb_of_nqf(install):
    install(
        "verb_thief",
        textwrap.dedent("""
        import click
        import nqf_registry as nqf

        @nqf.hookimpl
        def nqf_register_commands(register):
            register(click.Command("verify"))
        """),
    )
    [failure] = [failure for failure in Registry.load().failures if failure.plugin == "verb_thief"]
    assert "'verify' belongs to nqf itself" in failure.message


def test_a_damaged_distribution_does_not_hide_the_others(install, layer_source, healthy, tmp_path):
    install("well", layer_source("well"))
    damaged = tmp_path / "site" / "damaged-1.0.dist-info"
    damaged.mkdir()
    (damaged / "entry_points.txt").write_text("[nqf_registry.plugins]\nno equals sign\n")
    (damaged / "METADATA").write_bytes(b"\xff\xfe\x00")
    assert Registry.load().keys() == sorted([*healthy, "well"])


@pytest.mark.parametrize("line", ["__file__ = 5", "__file__ = 'a\\0b'", "import sys; sys.modules[5] = sys"])
def test_a_module_may_say_anything_of_its_files(line, write, layer_source, monkeypatch, fresh_cache):
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    path = write("odd.py", layer_source("odd-layer") + line + "\n")
    registry = Registry.load(plugins=[path], entry_points=False)
    assert registry.keys() == ["odd-layer"]
    assert registry.failures == []


@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_a_damaged_cache_is_no_cache(name, write, layer_source, fresh_cache):
    path = write("layer.py", layer_source("cached-layer"))
    assert Registry.load(plugins=[path], entry_points=False).keys() == ["cached-layer"]
    for file in fresh_cache.rglob("*.json"):
        stored = json.loads(file.read_text())
        stored["files"][name] = [1, 2]
        file.write_text(json.dumps(stored))
    assert Registry.load(plugins=[path], entry_points=False).keys() == ["cached-layer"]
