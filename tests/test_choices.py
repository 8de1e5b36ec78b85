"""The checks that a layer makes of its own sizes."""

from dataclasses import dataclass

import pytest

import nqf_registry as nqf


@dataclass
class Sized:
    n_in: int = 2
    width: int = 3
    scale: float = -1.0
    kind: str = "plain"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None])
def test_a_size_is_a_positive_integer(value):
    with pytest.raises(nqf.InvalidInput, match=f"n_in must be a positive integer, got {value!r}"):
        nqf.require_positive(Sized(n_in=value))


def test_only_integer_fields_or_the_named_ones_are_sizes():
    nqf.require_positive(Sized())
    nqf.require_positive(Sized(width=0), "n_in")
    with pytest.raises(nqf.InvalidInput, match="width"):
        nqf.require_positive(Sized(width=0))


@pytest.mark.parametrize("value", ["Plain", None, 1])
def test_a_choice_is_one_of_the_allowed_words(value):
    nqf.require_choice(Sized(), "kind", ("plain", "odd"))
    with pytest.raises(nqf.InvalidInput, match="kind must be one of plain, odd; got"):
        nqf.require_choice(Sized(kind=value), "kind", ("plain", "odd"))


def test_a_near_miss_gets_a_suggestion():
    with pytest.raises(nqf.InvalidInput, match="Did you mean 'plain'"):
        nqf.require_choice(Sized(kind="plan"), "kind", ("plain", "odd"))
