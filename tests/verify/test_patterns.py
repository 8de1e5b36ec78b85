"""What the errors of a declared tensor have in common is said in words, and nothing where they have nothing."""

import pytest
import torch

from nqf_registry.verify.patterns import pattern

A = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SIZE = torch.ones(4, 2, dtype=torch.float64)


def changed(place, by=0.1):
    B = A.clone()
    B[place] += by
    return B


@pytest.mark.parametrize(
    ("declared", "words"),
    [
        (A, ""),
        (A + 1e-12, ""),
        (-A, "Every entry is -1 times"),
        (1.01 * A, "Every entry is 1.01 times"),
        (A.mT, "the transpose of what it should be"),
        (changed((slice(3, 4),)), "Only sample 3 is off"),
        (changed((slice(None), 1)), "Only output 1 is off"),
        (changed((slice(None), slice(None), 0, 2)), "1 of 9 entries is off"),
        (changed((slice(None), slice(None), 0, slice(1, 3))), "2 of 9 entries are off"),
        (A + 0.1 * A**2, ""),
        (A * float("nan"), ""),
    ],
)
def test_patterns(declared, words):
    said = pattern(declared, A, SIZE, 1e-9)
    assert words in said and (said == "") == (words == "")


def test_parts_of_other_shapes():
    g, f0 = A[..., 0], A[..., 0, 0]
    assert "0.5 times" in pattern(g / 2, g, SIZE, 1e-9)
    assert "Only sample 2" in pattern(torch.where(torch.arange(4)[:, None] == 2, f0 + 1, f0), f0, SIZE, 1e-9)
    assert pattern(f0 + 1, f0, SIZE, 1e-9) == ""
    assert pattern(A, torch.zeros_like(A), SIZE, 1e-9) == ""
