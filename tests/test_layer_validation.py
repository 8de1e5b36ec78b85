"""What a class must be to be registered as a layer."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.layer_validation import validate_layer_class


@dataclass(frozen=True)
class Good(nqf.Layer):
    key = "good-layer-2"
    claims = nqf.Claims(exact=True)
    width: int = 2

    def blocks(self):
        return {"w": (3,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def unit(self, w, x):
        return (x["x"] @ w["w"])[:, None] ** 2


def variant(**attributes):
    return type("Variant", (Good,), attributes)


def blocks(value):
    return {"blocks": lambda self: value}


def test_a_good_layer_passes():
    validate_layer_class(Good)
    validate_layer_class(variant(key="another"))
    validate_layer_class(variant(title="Annotated class attributes", __annotations__={"title": "str", "table": ClassVar[dict]}))


def test_a_layer_with_forward_alone_passes():
    @dataclass(frozen=True)
    class Forward(nqf.Layer):
        key = "forward-only"
        width: int = 1

        def blocks(self):
            return {"w": (3,)}

        def sample(self, n, generator):
            return {}

        def forward(self, W, x):
            return W["w"]

    validate_layer_class(Forward)


@pytest.mark.parametrize("key", [None, "", 3, "Upper", "two words", "under_score", "-lead", "trail-", "a--b", "1st", "a\n"])
def test_a_malformed_key(key):
    with pytest.raises(nqf.LayerError, match=r"Variant\.key must be lower-case words joined by hyphens"):
        validate_layer_class(variant(key=key))


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        [],
        [("w", (3,))],
        {"w": [3]},
        {"w": 3},
        {"w": (0,)},
        {"w": (-1,)},
        {"w": (2.0,)},
        {"w": (True,)},
        {"w": ("3",)},
    ],
)
def test_malformed_blocks(value):
    with pytest.raises(nqf.LayerError, match=r"Variant\.blocks\(\)"):
        validate_layer_class(variant(**blocks(value)))


@pytest.mark.parametrize("name", ["a b", "1", "", "class", 3, "w.x"])
def test_a_block_name_that_is_no_identifier(name):
    with pytest.raises(nqf.LayerError, match="Python identifiers"):
        validate_layer_class(variant(**blocks({name: (3,)})))


def test_blocks_that_raise():
    def fail(self):
        raise KeyError("n")

    with pytest.raises(nqf.LayerError, match=r"blocks\(\) raised KeyError"):
        validate_layer_class(variant(blocks=fail))


@pytest.mark.parametrize("width", [0, -1, 2.0, True, None, "2"])
def test_a_width_that_is_no_positive_integer(width):
    cls = dataclass(frozen=True)(type("Wide", (Good,), {"__annotations__": {"width": int}, "width": width}))
    with pytest.raises(nqf.LayerError, match=r"Wide\.width must be a positive integer"):
        validate_layer_class(cls)


def test_a_title_that_is_no_text():
    with pytest.raises(nqf.LayerError, match=r"Variant\.title must be a text"):
        validate_layer_class(variant(title=3))


def test_claims_that_are_none():
    with pytest.raises(nqf.LayerError, match=r"claims must be nqf\.Claims"):
        validate_layer_class(variant(claims={"exact": True}))


@pytest.mark.parametrize("method", ["blocks", "sample"])
def test_a_method_that_is_missing(method):
    members = {name: Good.__dict__[name] for name in ("blocks", "sample", "unit") if name != method}
    cls = dataclass(frozen=True)(
        type("Partial", (nqf.Layer,), {"key": "partial", "__annotations__": {"width": int}, "width": 2, **members})
    )
    with pytest.raises(nqf.LayerError, match=rf"Partial has no {method}\(\)"):
        validate_layer_class(cls)


def test_neither_unit_nor_forward():
    members = {name: Good.__dict__[name] for name in ("blocks", "sample")}
    cls = dataclass(frozen=True)(
        type("Partial", (nqf.Layer,), {"key": "partial", "__annotations__": {"width": int}, "width": 2, **members})
    )
    with pytest.raises(nqf.LayerError, match=r"neither unit\(\) nor forward\(\)"):
        validate_layer_class(cls)


def test_the_decorator_that_was_forgotten():
    members = {name: Good.__dict__[name] for name in ("blocks", "sample", "unit")}
    plain = type("Plain", (nqf.Layer,), {"key": "plain", "width": 2, **members})
    with pytest.raises(nqf.LayerError, match=r"write @dataclass\(frozen=True\) above class Plain"):
        validate_layer_class(plain)
    derived = variant(__annotations__={"n_in": int}, n_in=3)
    with pytest.raises(nqf.LayerError, match=r"Variant\.n_in is annotated as a size but is no dataclass field"):
        validate_layer_class(derived)


def test_a_size_without_a_default():
    @dataclass(frozen=True)
    class NoDefault(nqf.Layer):
        n_in: int
        width: int = 2
        key = "no-default"
        blocks, sample, unit = Good.blocks, Good.sample, Good.unit

    with pytest.raises(nqf.LayerError, match=r"NoDefault\(\) cannot be made with no arguments"):
        validate_layer_class(NoDefault)


@pytest.mark.parametrize(
    ("thing", "hint"), [(Good(), r"register\(Good\)"), (int, "derive it"), (nqf.Layer, "derive it"), (None, "a class")]
)
def test_what_is_no_layer_class(thing, hint):
    with pytest.raises(nqf.LayerError, match=rf"expected a subclass of nqf\.Layer.*{hint}"):
        validate_layer_class(thing)


@pytest.mark.parametrize(
    ("attributes", "word"),
    [
        ({"title": "two\nlines"}, "U+000A"),
        ({"title": "half \ud800"}, "U+D800"),
        ({"notes": "bell \a"}, "U+0007"),
        ({"notes": 5}, "notes must be a text"),
        ({"formula": None}, "formula must be LaTeX"),
        ({"convention": object()}, "convention must be a text"),
        ({"references": None}, "references must be a tuple"),
        ({"references": ("a book",)}, "references must be a tuple"),
        ({"claims": nqf.Claims(smooth=5)}, "claims.smooth must be True or False"),
        ({"claims": property(lambda self: None)}, "claims must be nqf.Claims"),
    ],
)
def test_what_a_layer_says_of_itself_can_be_shown(attributes, word):
    with pytest.raises(nqf.LayerError, match=word.replace("+", "\\+")):
        validate_layer_class(variant(**attributes))


def test_a_default_without_a_stable_repr_is_refused():
    @dataclass(frozen=True)
    class Opaque(Good):
        key = "opaque"
        options: object = object()

    with pytest.raises(nqf.LayerError, match="plain data"):
        validate_layer_class(Opaque)

    @dataclass(frozen=True)
    class Plain(Good):
        key = "plain"
        options: tuple = ((1, 2.0), "a", None, torch.float64)

    validate_layer_class(Plain)


@pytest.mark.parametrize("value", [None, {}, [1], {"x": 3}, {"x": torch.tensor(1.0)}])
def test_a_sample_that_is_no_dict_of_tensors_is_named(value):
    with pytest.raises(nqf.LayerError, match=r"good-layer-2: sample\(n, generator\) must return"):
        variant(sample=lambda self, n, generator: value)().n_outputs()


def test_outputs_are_learnt_from_few_neurons():
    import dataclasses

    assert dataclasses.replace(Good(), width=10**9).n_outputs() == 1


def test_a_dataclass_that_is_not_frozen_is_refused_and_a_size_of_the_class_is_not():
    from dataclasses import dataclass

    body = {
        "__annotations__": {"width": int},
        "width": 3,
        "key": "thawed",
        "n_in": 4,
        "blocks": lambda self: {"u": (self.n_in,)},
        "sample": lambda self, n, generator: {"x": torch.randn(n, self.n_in, generator=generator)},
        "unit": lambda self, w, x: (x["x"] @ w["u"])[:, None],
    }
    with pytest.raises(nqf.LayerError, match=r"Thawed is a dataclass that is not frozen; write @dataclass\(frozen=True\)"):
        validate_layer_class(dataclass(type("Thawed", (nqf.Layer,), dict(body))))
    validate_layer_class(dataclass(frozen=True)(type("Frozen", (nqf.Layer,), dict(body))))
