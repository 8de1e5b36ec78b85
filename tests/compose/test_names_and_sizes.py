"""The name of a composition leads to no other folder, and its size is known before anything of it is allocated."""

import pytest

import nqf_registry as nqf


def graph(name, layer):
    return nqf.Graph(name).input("x", 4).layer("a", layer, "x").output("a")


@pytest.fixture
def units(small_layers):
    registry = nqf.Registry.load(plugins=[small_layers], entry_points=False)
    return lambda width=3: registry.get("small-units", width=width)


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a\\b", "a\0b", "a\nb", "half\ud800", "two words", "..", "-x", "x" * 101, "", 5]
)
def test_a_name_is_one_printable_word(name, units):
    with pytest.raises(nqf.GraphError, match="one printable word"):
        graph(name, units())


def test_a_file_of_any_name_has_a_composition(units, small_layers, tmp_path):
    registry = nqf.Registry.load(plugins=[small_layers], entry_points=False)
    file = tmp_path / "-my graph: 1.yaml"
    file.write_text("inputs: {x: [4]}\nnodes: {a: {layer: small-units, from: x}}\noutput: a\n")
    assert nqf.load_composition(file, registry).key == "my_graph__1"


def test_a_huge_width_is_told_without_allocating(units):
    assert graph("wide", units(10**9)).n_outputs() == 2
    big = units(10**10)
    with pytest.raises(nqf.GraphError, match="120,000,000,000 weights, more than the 68,719,476,736"):
        nqf.Graph("two").input("x", 4).layer("a", big, "x").layer("b", big, "x").sum("s", "a", "b").output("s")
