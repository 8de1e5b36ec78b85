"""``nqf compose``: the table, the JSON and the drawing; malformed files are in test_bad_graphs.py."""

import json
import re
from pathlib import Path

import pytest

import nqf_registry as nqf
from nqf_registry.cli.main import main

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.yaml"
    path.write_text(
        "inputs: {x: [4], t: {shape: [], integer: true}}\n"
        "nodes:\n"
        "  looked-up: {layer: small-lookup, sizes: {width: 2}, from: t, form: nqf}\n"
        "  both: {sum: [looked-up, x]}\n"
        "  last: {layer: small-units, sizes: {n_in: 4, n_out: 4, width: 3}, from: both, residual: true}\n"
        "output: last\n"
    )
    return path


def test_the_table_shows_every_node(file, small_layers, capsys):
    assert main(["compose", str(file), "--plugin", str(small_layers)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "net: 3 nodes, 42 weights, output last"
    table = [" ".join(line.split()) for line in lines[2:8]]
    assert table[0] == "node kind form reads gives d p weights"
    assert [row.partition(" ")[0] for row in table[1:]] == ["t", "x", "looked-up", "both", "last"]
    assert table[3] == "looked-up small-lookup nqf token: t (n) integer (n, 4) 2 9 18"
    assert table[4] == "both sum looked-up (n, 4), x (n, 4) (n, 4)"
    assert table[5] == "last small-units follow x: both (n, 4); + x (n, 4) 3 8 24"
    assert lines[9].startswith("small-lookup: passed, exact-nqf,")
    assert lines[10].startswith("small-units: passed, nqf,")


def test_json_holds_the_same(file, small_layers, capsys):
    assert main(["compose", str(file), "--json", "--plugin", str(small_layers)]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["name"], content["output"], content["weights"]) == ("net", "last", 42)
    by_name = {node["node"]: node for node in content["nodes"]}
    assert by_name["t"]["kind"] == "input" and by_name["t"]["integer"] and by_name["t"]["verdict"] is None
    assert by_name["last"]["ports"] == {"x": {"from": "both", "shape": [4], "integer": False}}
    assert by_name["last"]["residual"] == "x"
    assert by_name["looked-up"]["verdict"]["passed"] and by_name["looked-up"]["verdict"]["classification"] == "exact-nqf"


def test_the_drawing_is_written(file, small_layers, tmp_path, capsys):
    picture = tmp_path / "net.svg"
    assert main(["compose", str(file), "--plugin", str(small_layers), "--draw", str(picture)]) == 0
    assert picture.read_text().startswith("<?xml")
    assert capsys.readouterr().out.endswith(f"drawing: {picture}\n")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--draw", "net.gif"], 2, "ends in .svg, .png, .pdf; got net.gif"),
        (["--draw", "nowhere/net.svg"], 3, "nowhere/net.svg cannot be written: No such file or directory"),
    ],
)
def test_a_drawing_that_cannot_be(file, small_layers, capsys, arguments, code, message, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["compose", str(file), "--plugin", str(small_layers), *arguments]) == code
    err = capsys.readouterr().err
    assert message in err and "Traceback" not in err


@pytest.mark.parametrize("example", sorted(path.name for path in (ROOT / "examples").glob("*.yaml")))
def test_the_examples_are_valid(example):
    registry = nqf.Registry.load(plugins=[ROOT / "examples" / "gated_unit.py"])
    net = nqf.load_composition(ROOT / "examples" / example, registry)
    assert nqf.Composition.from_yaml(net.to_yaml(), registry) == net


def test_the_page_shows_one_graph_twice():
    """The YAML and the Python of docs/compositions.md say the same."""
    page = (ROOT / "docs" / "compositions.md").read_text()
    names = {}
    exec(re.search(r"```python\n(.*?)```", page, re.DOTALL)[1], names)
    written = nqf.Composition.from_yaml(re.search(r"```yaml\n(.*?)```", page, re.DOTALL)[1])
    assert written == names["net"] and written.to_yaml() == names["net"].to_yaml()
