"""Malformed graph files: one clear message each, with file and line; exit 2 and no traceback through the command.

The messages stand in ``bad_graphs.txt`` so that a reader can judge them. After a change of wording, write it anew with
``NQF_WRITE_GOLDEN=1 pytest tests/compose/test_bad_graphs.py`` and read the difference.
"""

import os
from pathlib import Path

import pytest

import nqf_registry as nqf
from nqf_registry.cli.main import main

GOLDEN = Path(__file__).with_name("bad_graphs.txt")


def graph(*nodes, output="b", head="inputs: {x: [4]}\nnodes:\n"):
    return head + "".join(f"  {node.rstrip()}\n" for node in nodes) + f"output: {output}\n"


def units(name, source, n_in=4, n_out=4, more=""):
    return f"{name}: {{layer: small-units, sizes: {{n_in: {n_in}, n_out: {n_out}}}, from: {{x: {source}}}{more}}}"


PAIR = "b: {layer: small-pair, from: %s}"

BAD = {
    "cycle": graph(units("a", "b"), units("b", "a")),
    "self-loop": graph(units("b", "b")),
    "longer cycle": graph(units("c", "a"), units("a", "s"), "s: {sum: [x, d]}", units("d", "c"), units("b", "d")),
    "shape mismatch": graph(units("a", "x", n_out=3), units("b", "a")),
    "sum of two shapes": graph(units("a", "x", n_out=3), "b: {sum: [x, a]}"),
    "integers into numbers": graph(units("b", "t"), head="inputs: {t: {shape: [4], integer: true}}\nnodes:\n"),
    "numbers into integers": graph("b: {layer: small-lookup, from: {token: x}}"),
    "integers into a concatenation": graph(
        "a: {layer: small-lookup, from: t}", "b: {concat: [a, t]}", head="inputs: {t: {shape: [], integer: true}}\nnodes:\n"
    ),
    "port fed by nothing": graph(PAIR % "{x: x}"),
    "port that is not there": graph(PAIR % "{x: x, context: x}"),
    "port fed twice": graph("b:", "  layer: small-units", "  from:", "    x: x", "    x: x"),
    "several sources for a port": graph(units("b", "[x, x]")),
    "one source for two ports": graph(PAIR % "x"),
    "no from": graph("b: {layer: small-units}"),
    "node that nobody reads": graph(units("a", "x"), units("b", "x")),
    "input that nobody reads": graph(units("b", "x"), head="inputs: {x: [4], z: [3]}\nnodes:\n"),
    "unknown source": graph(units("hidden", "x"), units("b", "hiden")),
    "unknown key": graph("b: {layer: small-unit, from: {x: x}}"),
    "unknown kind": graph(units("a", "x"), "b: {concatenate: [a, x]}"),
    "two kinds": graph("b: {sum: [x], concat: [x]}"),
    "unknown size": graph("b: {layer: small-units, sizes: {n_inn: 4}, from: {x: x}}"),
    "wrong type of a size": graph("b: {layer: small-units, sizes: {n_in: four}, from: {x: x}}"),
    "negative width": graph("b: {layer: small-units, sizes: {width: -1}, from: {x: x}}"),
    "unknown field of a node": graph(units("b", "x", more=", froms: x")),
    "unknown field": "input: {x: [4]}\n" + graph(units("b", "x")),
    "unknown form": graph(units("b", "x", more=", form: quadratic")),
    "residual between two shapes": graph(units("b", "x", n_out=2, more=", residual: true")),
    "residual of a port that is not there": graph(units("b", "x", more=", residual: y")),
    "residual with two ports": graph(
        "b: {layer: small-pair, from: {x: x, c: z}, residual: true}", head="inputs: {x: [4], z: [3]}\nnodes:\n"
    ),
    "no output": "inputs: {x: [4]}\nnodes:\n  " + units("b", "x") + "\n",
    "output that is no node": graph(units("b", "x"), output="c"),
    "output that is an input": graph(units("b", "x"), output="x"),
    "no nodes": "inputs: {x: [4]}\nnodes: {}\noutput: b\n",
    "no layer": graph("b: {sum: [x]}"),
    "empty sum": graph(units("a", "x"), "b: {sum: []}"),
    "nodes as a list": "inputs: {x: [4]}\nnodes: [a, b]\noutput: b\n",
    "node as a word": graph("b: x"),
    "sizes as a list": graph("b: {layer: small-units, sizes: [4, 2], from: {x: x}}"),
    "sum of a word": graph(units("a", "x"), "b: {sum: a}"),
    "joining what has no axis": graph(units("a", "x"), "b: {concat: [a, m]}", head="inputs: {x: [4], m: []}\nnodes:\n"),
    "joining a table and a vector": graph(units("a", "x"), "b: {concat: [a, m]}", head="inputs: {x: [4], m: [2, 4]}\nnodes:\n"),
    "name of input and node": graph(units("x", "x"), output="x"),
    "name with a dot": graph(units("a.b", "x"), output="a.b"),
    "bad shape": graph(units("b", "x"), head="inputs: {x: [4, 0]}\nnodes:\n"),
    "node twice": graph(units("b", "x"), units("b", "x")),
    "list instead of a mapping": "- a\n- b\n",
    "word instead of a mapping": "two-layer\n",
    "empty file": "# nothing yet\n",
    "no valid YAML": "inputs: {x: [4\nnodes: ]\n",
    "name that YAML reads as false": graph(units("off", "x"), output="off"),
    "tag that runs code": "inputs: !!python/object/apply:os.system ['true']\n",
    "date for a size": graph("b: {layer: small-units, sizes: {n_in: 2020-01-01}, from: {x: x}}"),
    "two documents": "a: 1\n---\nb: 2\n",
    "alias of itself": "inputs: &a {x: *a}\n",
    "aliases that explode": "a0: &a0 [1, 1]\n"
    + "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)),
    "deep nesting": "inputs: " + "[" * 1500 + "]" * 1500 + "\n",
    "octal number": graph("b: {layer: small-units, sizes: {width: 010}, from: {x: x}}"),
    "number of base 60": graph("b: {layer: small-units, sizes: {width: 1:30}, from: {x: x}}"),
    "number with a line": graph("b: {layer: small-units, sizes: {width: 4_0}, from: {x: x}}"),
    "residual in quotes": graph(units("b", "x", more=", residual: 'true'")),
    "name that leads away": "name: ../up\n" + graph(units("b", "x")),
    "zero byte": graph(units("b", "x")).encode() + b"# \0\n",
    "no UTF-8": "inputs: {x: [4]}\n# caf\xe9\n".encode("latin-1"),
    "binary": bytes(range(32)) * 4,
    "huge file": b"# " + b"x" * 300_000,
}


def run(name, text, folder, plugin, capsys):
    """The message of the library and of the command for one file, which must be the same."""
    file = folder / f"{name.replace(' ', '-')}.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    registry = nqf.Registry.load(plugins=[plugin], entry_points=False)
    with pytest.raises(nqf.NQFError) as caught:
        nqf.load_composition(file.name, registry)
    assert main(["compose", file.name, "--plugin", str(plugin)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    assert err == f"Error: {caught.value}\n"
    return str(caught.value)


@pytest.fixture(scope="module")
def golden():
    """The expected messages by case."""
    text = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    return dict(block.split("\n    ", 1) for block in text.rstrip("\n").split("\n\n") if block)


@pytest.mark.parametrize("name", BAD)
def test_one_clear_message_and_exit_2(name, golden, tmp_path, monkeypatch, small_layers, capsys):
    monkeypatch.chdir(tmp_path)
    message = run(name, BAD[name], tmp_path, small_layers, capsys)
    assert "\n" not in message and len(message) < 400
    assert message.startswith(f"{name.replace(' ', '-')}.yaml")
    if os.environ.get("NQF_WRITE_GOLDEN"):
        golden[name] = message
        GOLDEN.write_text("\n\n".join(f"{case}\n    {golden[case]}" for case in BAD if case in golden) + "\n", encoding="utf-8")
    assert message == golden[name]


def test_the_golden_file_has_no_case_that_is_gone(golden):
    assert list(golden) == list(BAD)


def test_a_file_that_is_not_there(tmp_path, capsys):
    assert main(["compose", str(tmp_path / "none.yaml")]) == 2
    assert capsys.readouterr().err.endswith(
        "none.yaml: expected a YAML file, but it cannot be read: No such file or directory.\n"
    )
    assert main(["compose", str(tmp_path)]) == 2
    assert "cannot be read: Is a directory" in capsys.readouterr().err


def test_every_message_that_names_an_edge_names_both_ends_and_shapes(golden):
    assert (
        "a -> b.x" in golden["shape mismatch"] and "(n, 3)" in golden["shape mismatch"] and "(n, 4)" in golden["shape mismatch"]
    )
    assert "a -> b -> a" in golden["cycle"] and "line 3" in golden["cycle"]
    assert "Did you mean 'hidden'?" in golden["unknown source"]
    assert "Did you mean 'small-units'" in golden["unknown key"]


def test_nothing_is_executed(tmp_path, monkeypatch, shelf):
    monkeypatch.chdir(tmp_path)
    Path("evil.yaml").write_text(
        "inputs: !!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path [made]]\n"
    )
    with pytest.raises(nqf.GraphError):
        nqf.load_composition("evil.yaml", shelf)
    assert not Path("made").exists()


def test_the_builder_tells_the_same_mistakes(shelf):
    units_layer = shelf.get("small-units", n_out=4)
    start = nqf.Graph().input("x", 4)
    cases = [
        (lambda: start.layer("a", units_layer, "b").layer("b", units_layer, "a").output("b"), "a -> b -> a"),
        (lambda: start.layer("a", units_layer, "x", x="x"), "fed twice, by 'x' and by 'x'"),
        (lambda: start.layer("a", units_layer, "x").layer("a", units_layer, "x"), "stands twice"),
        (lambda: start.layer("a", "small-units", "x"), "needs a layer with its sizes"),
        (lambda: start.layer("a", units_layer, y="x").output("a"), "has no port 'y'"),
        (lambda: start.layer("a", units_layer, "x", form="nfq").output("a"), "Did you mean 'nqf'"),
        (lambda: start.layer("a", shelf.get("small-pair"), "x"), "has the ports x, c"),
        (lambda: nqf.Graph().input("x", 0), "needs a shape"),
        (lambda: nqf.Graph().input("a b", 1), "needs a name"),
        (lambda: start.sum("s").output("s"), "has no layer"),
        (lambda: start.layer("a", units_layer, "x").sum("s").output("s"), "reads nothing"),
        (lambda: nqf.Graph(" ").input("x", 4).layer("a", units_layer, "x").output("a"), "needs a name"),
    ]
    for build, message in cases:
        with pytest.raises(nqf.GraphError, match=message):
            build()
