"""What the verbs share: naming layers on the command line, sizes, and the options around a verb that stands alone."""

import click
import pytest
from click.testing import CliRunner

import nqf_registry as nqf
from nqf_registry.cli.options import (
    pass_registry,
    plugin_option,
    print_json,
    print_table,
    resolve_layer,
    resolve_layers,
    size_option,
)
from nqf_registry.registry import Registry


@pytest.fixture
def files(write, layer_source):
    return [write(f"{name}.py", layer_source(name)) for name in ("one", "two")]


@pytest.fixture
def registry(files):
    return Registry.load(plugins=files[:1], entry_points=False)


def keys(layers):
    return [layer.key for layer in layers]


def test_layers_are_named_by_key_by_file_or_all_at_once(registry, files):
    assert keys(resolve_layers(registry, ["one"])) == ["one"]
    assert keys(resolve_layers(registry, ["all"])) == ["one"]
    assert keys(resolve_layers(registry, [str(files[1]), "one"])) == ["two", "one"]
    assert keys(resolve_layers(registry, ["one", "all", str(files[0])])) == ["one"]


def test_a_file_relative_to_the_working_folder(registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert keys(resolve_layers(registry, ["two.py"])) == ["two"]


def test_sizes_go_to_every_layer(registry, files):
    assert [layer.width for layer in resolve_layers(registry, ["one", str(files[1])], ["width=7"])] == [7, 7]
    assert resolve_layer(registry, "one", ["n_in=5"]).n_in == 5


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("three", nqf.UnknownKey, "no layer 'three'"),
        ("three.py", nqf.PluginError, "expected a Python file"),
        ("no_hook.py", nqf.PluginError, "cannot be used"),
        ("no_layer.py", nqf.UnknownKey, "registers no layer"),
    ],
)
def test_a_target_that_is_none(registry, write, tmp_path, monkeypatch, target, error, message):
    monkeypatch.chdir(tmp_path)
    write("no_hook.py", "")
    write("no_layer.py", "import nqf_registry as nqf\n@nqf.hookimpl\ndef nqf_register(register): ...\n")
    with pytest.raises(error, match=message):
        resolve_layers(registry, [target])


def test_a_verb_that_is_invoked_by_itself(files):
    @click.command()
    @size_option
    @plugin_option
    @pass_registry
    def verb(registry, sizes):
        click.echo(f"{resolve_layer(registry, 'one', sizes).width}")

    done = CliRunner().invoke(verb, ["--plugin", str(files[0]), "--set", "width=9"])
    assert (done.exit_code, done.output) == (0, "9\n")


def test_json_has_no_nan(capsys):
    print_json({"a": [1, "é"]})
    assert capsys.readouterr().out == '{\n  "a": [\n    1,\n    "é"\n  ]\n}\n'
    with pytest.raises(ValueError, match="JSON"):
        print_json(float("nan"))


def test_a_table_has_columns(capsys):
    print_table([("a", "long text", "x"), ("long", "b", "")])
    assert capsys.readouterr().out == "a     long text  x\nlong  b\n"
