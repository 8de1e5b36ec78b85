"""Sizes as texts and as values, read by the type of their field."""

import typing
from dataclasses import dataclass, field

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.sizes import make_layer, parse_sizes


@dataclass(frozen=True)
class Sized(nqf.Layer):
    key = "sized"
    width: int = 2
    scale: float = 1.0
    bias: bool = False
    activation: str = "tanh"
    gate: typing.Literal["silu", "gelu"] = "silu"
    shape: tuple[int, ...] = (3, 4)
    temperature: float | None = None
    name: str | None = None
    heads: int = field(default=1, init=False)

    def blocks(self):
        return {"w": self.shape}

    def sample(self, n, generator):
        return {"x": torch.randn(n, *self.shape, generator=generator)}

    def unit(self, w, x):
        return (x["x"] * w["w"]).flatten(1).sum(1, keepdim=True) ** 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("width=7", {"width": 7}),
        (" width = 7 ", {"width": 7}),
        ("scale=1e-3", {"scale": 1e-3}),
        ("bias=true", {"bias": True}),
        ("bias=No", {"bias": False}),
        ("activation=erf", {"activation": "erf"}),
        ("activation=a=b", {"activation": "a=b"}),
        ("gate=gelu", {"gate": "gelu"}),
        ("shape=5,6,7", {"shape": (5, 6, 7)}),
        ("shape=(5, 6)", {"shape": (5, 6)}),
        ("temperature=none", {"temperature": None}),
        ("temperature=0.5", {"temperature": 0.5}),
        ("name=none", {"name": None}),
        ("name=x", {"name": "x"}),
    ],
)
def test_a_text_is_read_by_the_type_of_its_field(text, value):
    sizes = parse_sizes(Sized, [text])
    assert sizes == value
    assert [type(size) for size in sizes.values()] == [type(size) for size in value.values()]
    assert make_layer(Sized, sizes) == Sized(**value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width", "NAME=VALUE"),
        ("=3", "NAME=VALUE"),
        ("width=abc", "width expects an integer, got 'abc'"),
        ("width=2.0", "width expects an integer"),
        ("scale=big", "scale expects a number"),
        ("bias=maybe", "bias expects true or false"),
        ("gate=relu", "gate expects one of silu, gelu"),
        ("shape=5,x", "shape expects"),
        ("temperature=hot", "temperature expects a number or none"),
        ("widht=3", "Did you mean 'width'"),
        ("heads=2", "heads is fixed at 1"),
    ],
)
def test_a_wrong_text_says_what_was_expected(text, message):
    with pytest.raises(nqf.InvalidInput, match=message):
        parse_sizes(Sized, [text])


def test_a_size_given_twice():
    with pytest.raises(nqf.InvalidInput, match="given twice"):
        parse_sizes(Sized, ["width=1", "width=2"])


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"gate": "relu"}, "gate expects one of"),
        ({"bias": 1}, "bias expects true or false"),
        ({"scale": "1"}, "scale expects a number"),
        ({"activation": 1}, "activation expects a word"),
        ({"shape": 3}, "shape expects"),
        ({"temperature": "hot"}, "temperature expects"),
    ],
)
def test_a_wrong_value_says_what_was_expected(sizes, message):
    with pytest.raises(nqf.InvalidInput, match=message):
        make_layer(Sized, sizes)


def test_values_that_come_from_yaml_fit():
    layer = make_layer(Sized, {"shape": [2, 3], "scale": 2})
    assert layer.shape == (2, 3)
    assert isinstance(layer.scale, float)


def test_what_the_layer_itself_refuses_is_told_with_the_sizes():
    @dataclass(frozen=True)
    class Picky(Sized):
        key = "picky"

        def __post_init__(self):
            if self.activation not in ("tanh", "erf"):
                raise ValueError("activation must be tanh or erf")

    with pytest.raises(nqf.InvalidInput, match="picky cannot be made with activation='sin': activation must be tanh or erf"):
        make_layer(Picky, {"activation": "sin"})


@pytest.mark.parametrize("digits", [20, 1000, 4000])
def test_a_layer_of_too_many_weights_is_refused_by_its_figure(digits):
    with pytest.raises(nqf.InvalidInput, match="weights, more than the 68,719,476,736") as caught:
        make_layer(Sized, {"width": 10**digits})
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300


def test_what_torch_says_is_cut_to_one_line():
    @dataclass(frozen=True)
    class Raising(Sized):
        def __post_init__(self):
            if self.width > 5:
                raise RuntimeError("no storage\nException raised from alloc at x.cpp:1 (most recent call first):\nframe #0")

    with pytest.raises(nqf.InvalidInput, match=r"no storage$"):
        make_layer(Raising, {"width": 7})
