"""Graphs as data: YAML in, YAML out, and the same graph from Python."""

import textwrap
from dataclasses import dataclass, field

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.compose.check import Origin, ports_of
from nqf_registry.compose.nodes import Identity, LayerNode

TEXT = """\
name: example
inputs:
  t: {shape: [], integer: true}
  x: [4]
nodes:
  looked-up:
    layer: small-lookup
    sizes: {n_tokens: 5, n_out: 4, width: 2}
    from: {token: t}
    form: original
  skip:
    sum: [looked-up, x]
  wide:
    concat: [skip, x]
  pair:
    layer: small-pair
    sizes: {n_in: 8, n_context: 4, n_out: 4, width: 2}
    from: {x: wide, c: x}
    form: nqf
    residual: c
  same:
    identity: pair
  readout:
    layer: small-units
    sizes: {n_in: 4, n_out: 4, width: 3}
    from: {x: same}
    residual: true
output: readout
"""


def built(shelf):
    return (
        nqf.Graph("example")
        .input("x", 4)
        .input("t", integer=True)
        .layer("readout", shelf.get("small-units", n_out=4), "same", residual=True)
        .layer("looked-up", shelf.get("small-lookup"), token="t", form="original")
        .sum("skip", "looked-up", "x")
        .concat("wide", "skip", "x")
        .layer("pair", shelf.get("small-pair", n_in=8, n_context=4, n_out=4), x="wide", c="x", form="nqf", residual="c")
        .identity("same", "pair")
        .output("readout")
    )


def test_python_and_yaml_give_the_same_graph(shelf):
    net = nqf.Composition.from_yaml(TEXT, shelf)
    assert net == built(shelf) and hash(net) == hash(built(shelf))
    assert net.to_yaml() == built(shelf).to_yaml()


def test_the_text_is_canonical(shelf):
    """Nodes in the order of evaluation: a text in that order is given back to the byte."""
    net = nqf.Composition.from_yaml(TEXT, shelf)
    text = net.to_yaml()
    assert nqf.Composition.from_yaml(text, shelf).to_yaml() == text
    assert sorted(text.splitlines()) == sorted(TEXT.splitlines())
    assert net.order == ("looked-up", "skip", "wide", "pair", "same", "readout")
    assert text == TEXT


def test_short_ways_of_writing_mean_the_same(shelf):
    short = """
        inputs: {x: 4, t: {shape: [], integer: yes}}
        nodes:
          readout: {layer: small-units, sizes: {n_out: 4}, from: same, residual: true}
          same: {identity: pair}
          pair: &pair {layer: small-pair, sizes: {n_in: 8, n_context: 4, n_out: 4}, from: {c: x, x: wide},
                       form: nqf, residual: c}
          skip: {sum: &parts [looked-up, x]}
          wide: {concat: [skip, x]}
          looked-up: {layer: small-lookup, from: t, form: original}
        output: readout
        name: example
    """
    assert nqf.Composition.from_yaml(textwrap.dedent(short), shelf) == nqf.Composition.from_yaml(TEXT, shelf)


def test_different_graphs_differ(shelf):
    net = nqf.Composition.from_yaml(TEXT, shelf)
    for old, new in [
        ("form: nqf", "form: original"),
        ("width: 3", "width: 4"),
        ("residual: true", "residual: false"),
        ("example", "other"),
    ]:
        assert nqf.Composition.from_yaml(TEXT.replace(old, new), shelf) != net


def test_a_file_gives_its_name_where_it_has_none(shelf, tmp_path):
    path = tmp_path / "my-net.yaml"
    path.write_text("\ufeff" + TEXT.partition("\n")[2], encoding="utf-8")  # a byte order mark is no part of the text
    assert nqf.load_composition(path, shelf).key == "my-net"
    assert nqf.load_composition(str(path), shelf).origin.file == str(path)
    assert nqf.Composition.from_yaml(path.read_text(encoding="utf-8-sig"), shelf).key == "composition"


@dataclass(frozen=True)
class Choices(nqf.Layer):
    """f(W) = 0 in the shape of its fields: every type of size that a layer may have."""

    key = "choices"
    rate: float = 0.1
    word: str = "1e-3"
    shape: tuple[int, ...] = (1, 2)
    nested: tuple[tuple[int, int], ...] = ((1, 2),)
    maybe: int | None = None
    flag: bool = False
    width: int = 1
    fixed: int = field(default=3, init=False)

    def blocks(self):
        return {"u": (1,)}

    def sample(self, n, generator):
        return {"x": torch.zeros(n, 1)}

    def unit(self, w, x):
        return x["x"] * w["u"]


class OneLayer:
    """A registry of one class."""

    def __init__(self, cls):
        self.cls = cls

    def get(self, key, /, **sizes):
        from nqf_registry.sizes import make_layer

        assert key == self.cls.key
        return make_layer(self.cls, sizes)


@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"rate": 1e-7, "word": "1e5", "flag": True, "maybe": 4},
        {"rate": 1e300, "word": "no", "shape": (), "nested": ((3, 4), (5, 6))},
        {"rate": float("inf"), "word": "über: [x]"},
    ],
)
def test_sizes_of_every_type_come_back(sizes):
    net = nqf.Graph().input("x", 1).layer("a", Choices(**sizes), "x").output("a")
    again = nqf.Composition.from_yaml(net.to_yaml(), OneLayer(Choices))
    assert again == net
    assert again.layers()["a"] == Choices(**sizes)
    assert "fixed" not in net.to_yaml()


def test_a_number_without_a_dot_is_a_number():
    text = Choices.key.join(["inputs: {x: [1]}\nnodes:\n  a: {layer: ", ", sizes: {rate: 1e-3}, from: x}\noutput: a\n"])
    assert nqf.Composition.from_yaml(text, OneLayer(Choices)).layers()["a"].rate == 1e-3


def test_a_size_that_yaml_cannot_hold_is_told():
    net = nqf.Graph().input("x", 1).layer("a", Choices(word=object), "x").output("a")
    with pytest.raises(nqf.GraphError, match="word=<class 'object'> of choices cannot be written"):
        net.to_yaml()


def test_a_layer_that_cannot_run_is_named():
    @dataclass(frozen=True)
    class Broken(Choices):
        """Raises."""

        key = "broken"

        def unit(self, w, x):
            raise ZeroDivisionError("on purpose")

    with pytest.raises(nqf.GraphError, match=r"node 'a': .* at W = 0.*ZeroDivisionError: on purpose"):
        nqf.Graph().input("x", 1).layer("a", Broken(), "x").output("a")


@dataclass(frozen=True)
class Table(Identity):
    """A kind of node from outside: the value as a one-column table."""

    kind = "table"

    def output(self, given):
        return nqf.Port((*given["0"].shape, 1))

    def join(self, tensors):
        return tensors[0][..., None]


def test_a_new_kind_of_node_is_one_class(shelf):
    nodes = {
        "a": LayerNode(shelf.get("small-units"), {"x": "x"}),
        "b": Table(("a",)),
        "c": Table(("a",)),
        "s": Identity(("b",)),
    }
    with pytest.raises(nqf.GraphError, match=r"the output 's' gives \(n, 2, 1\); an output is numbers"):
        nqf.Composition("net", {"x": nqf.Port((4,))}, {k: nodes[k] for k in "abs"}, "s")
    known = ports_of({"x": nqf.Port((4,))}, {k: nodes[k] for k in "ab"}, ("a", "b"), "a", Origin())
    assert known["b"] == nqf.Port((2, 1))


def test_a_layer_of_no_installed_plugin_is_told_where_it_may_come_from():
    text = "inputs: {x: {shape: [3]}}\nnodes: {a: {layer: nowhere-to-be-found, from: {x: x}}}\noutput: a\n"
    with pytest.raises(nqf.NQFError, match=r"nowhere-to-be-found.*registry="):
        nqf.Composition.from_yaml(text)
