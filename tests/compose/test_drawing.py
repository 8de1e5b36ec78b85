"""The drawing: what is written in the boxes, that nothing overlaps, and the files."""

import itertools
import re

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry.compose.drawing import draw, figure_of
from nqf_registry.compose.layout import lay_out


@pytest.fixture
def net(shelf):
    units = shelf.get("small-units", n_in=4, n_out=4, width=30)
    return (
        nqf.Graph("drawn")
        .input("x", 4)
        .layer("a", units, "x", form="nqf")
        .layer("b", units, "a", form="original", residual=True)
        .layer("c", shelf.get("small-pair", n_in=4, n_context=4), x="b", c="x")
        .concat("d", "a", "b", "c", "x")
        .layer("e", shelf.get("small-units", n_in=14, n_out=1), "d")
        .output("e")
    )


def test_boxes_show_key_sizes_and_form(net):
    words = [text.get_text() for text in figure_of(net, {"b": "passed"}).axes[0].texts]
    for word in (
        "a",
        "small-units",
        "d = 30, p = 8",
        "form: nqf",
        "form: original",
        "form: follow",
        "+ x (residual)",
        "passed",
    ):
        assert word in words
    assert "concat (n, 14)" in words and "input (n, 4)" in words and "output (n, 1)" in words
    assert words.count("c") == 2  # the node, and the port of that name where its edge arrives


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_files_are_the_same_each_time(net, tmp_path, ending):
    files = [draw(net, tmp_path / f"{name}{ending}") for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 1000


def test_svg_holds_no_date_and_no_path(net, tmp_path):
    text = draw(net, tmp_path / "net.svg").read_text()
    assert text.startswith("<?xml") and not re.search(r"20\d\d-\d\d-\d\d", text) and str(tmp_path) not in text


def test_wrong_files_are_told(net, tmp_path):
    with pytest.raises(nqf.InvalidInput, match=r"ends in .svg, .png, .pdf; got .*net.gif"):
        draw(net, tmp_path / "net.gif")
    with pytest.raises(nqf.StorageError, match="No such file or directory"):
        draw(net, tmp_path / "nowhere" / "net.svg")


def assert_clear(layout):
    """No two boxes overlap, all lie in the picture, and no route runs through a box that it does not end at."""
    boxes = list(layout.boxes.items())
    for (_, a), (_, b) in itertools.combinations(boxes, 2):
        assert abs(a.x - b.x) >= (a.width + b.width) / 2 - 1e-9 or abs(a.y - b.y) >= (a.height + b.height) / 2 - 1e-9
    for _, box in boxes:
        assert box.width / 2 - 1e-9 <= box.x <= layout.width - box.width / 2 + 1e-9
        assert box.height / 2 - 1e-9 <= box.y <= layout.height - box.height / 2 + 1e-9
    for edge, points in layout.routes.items():
        for (x0, y0), (x1, y1) in zip(points[1:-1:2], points[2:-1:2], strict=True):  # the stretches through ranks
            assert x0 == x1
            for node, box in boxes:
                if node not in edge:
                    outside = (
                        abs(box.x - x0) >= box.width / 2
                        or max(y0, y1) <= box.y - box.height / 2
                        or min(y0, y1) >= box.y + box.height / 2
                    )
                    assert outside, (edge, node)
        assert all(y0 > y1 for (_, y0), (_, y1) in itertools.pairwise(points))


@given(
    st.integers(2, 12).flatmap(
        lambda n: st.lists(
            st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] < e[1]), min_size=1, max_size=20
        )
    )
)
def test_nothing_overlaps(edges):
    graph = nx.DiGraph(edges)
    layout = lay_out(graph, {node: (1.0 + 0.1 * node, 0.5 + 0.05 * node) for node in graph})
    assert set(layout.boxes) == set(graph) and set(layout.routes) == set(graph.edges)
    assert_clear(layout)


def test_a_chain_is_a_straight_line():
    graph = nx.path_graph(5, nx.DiGraph)
    layout = lay_out(graph, dict.fromkeys(graph, (1.0, 0.5)))
    assert {box.x for box in layout.boxes.values()} == {0.5}
    assert_clear(layout)


def test_edges_cross_only_where_they_must():
    """Two parallel chains whose nodes are named crosswise."""
    graph = nx.DiGraph([("a", "z"), ("b", "y"), ("z", "c"), ("y", "d")])
    layout = lay_out(graph, dict.fromkeys(graph, (1.0, 0.5)))
    x = {node: box.x for node, box in layout.boxes.items()}
    assert x["a"] == x["z"] == x["c"] and x["b"] == x["y"] == x["d"] and x["a"] != x["b"]
