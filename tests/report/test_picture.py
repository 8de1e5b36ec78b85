"""Pictures of A(x)."""

from dataclasses import dataclass
from xml.etree import ElementTree

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.report.picture import CELLS, picture_of, svg, write_picture


def test_cells_are_the_entries_divided_by_the_largest(layers):
    layer = layers.Plain()
    picture = picture_of(layer)
    A = layer.structure({"x": layer.sample(2, torch.Generator().manual_seed(0))["x"].double()}).dense()[0, 0]
    torch.testing.assert_close(picture.values * picture.scale, A)
    assert picture.blocks == (("u", 0, 3), ("v", 3, 4)) and not picture.pooled


def test_svg_is_xml_with_one_square_for_each_entry_that_is_not_zero(layers):
    picture = picture_of(layers.Plain())
    tree = ElementTree.fromstring(svg(picture, "a < b & c", standalone=True))
    drawn = "".join(element.get("d") for element in tree.iter() if element.get("fill-opacity"))
    assert drawn.count("z") == int((picture.values != 0).sum()) == 6
    assert next(tree.iter("{http://www.w3.org/2000/svg}title")).text == "a < b & c"


def test_svg_is_the_same_bytes_again(layers):
    assert svg(picture_of(layers.Plain()), "t") == svg(picture_of(layers.Plain()), "t")


def test_a_large_matrix_is_pooled_without_losing_a_single_entry():
    @dataclass(frozen=True)
    class OneHot(nqf.Layer):
        key = "one-hot"
        width: int = 1

        def blocks(self):
            return {"u": (400,), "tiny": (2,)}

        def sample(self, n, generator):
            return {"i": torch.full((n,), 399)}

        def unit(self, w, x):
            return w["u"][x["i"]][:, None] * w["tiny"].sum()

        def structure(self, x):
            return nqf.quadratic("n,a->n", nqf.rows("u", x["i"]), "tiny")

    picture = picture_of(OneHot())
    assert picture.pooled and len(picture.values) <= CELLS + 3
    (name, _, last), tiny = picture.blocks
    assert name == "u" and tiny[2] - tiny[1] == 2
    assert picture.values[last - 1, tiny[1] :].tolist() == [1.0, 1.0]
    assert int((picture.values != 0).sum()) == 4


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_files_are_written(layers, tmp_path, ending):
    path = write_picture(layers.Plain(), tmp_path / "deep" / f"a{ending}")
    first = path.read_bytes()
    assert first.startswith(b"\x89PNG" if ending == ".png" else b"<svg")
    assert write_picture(layers.Plain(), path).read_bytes() == first


def test_another_ending_is_refused(layers, tmp_path):
    with pytest.raises(nqf.InvalidInput, match=r"\.png or \.svg"):
        write_picture(layers.Plain(), tmp_path / "a.pdf")
