"""A sketch keeps what a layer is, and what is wrong with it."""

import pytest
import torch
from torch import nn

import nqf_registry as nqf


def perceptron(middle, bias=False):
    return nn.Sequential(nn.Linear(12, 20, bias=bias), middle, nn.Linear(20, 9, bias=False))


@pytest.mark.parametrize(
    ("middle", "bias", "classification"),
    [
        (nn.Tanh(), False, "nqf"),
        (nn.Identity(), True, "exact-nqf"),
        (nn.Sigmoid(), False, "general-nqf"),
        (nn.ReLU(), False, "not-smooth"),
    ],
)
def test_the_class_is_that_of_the_layer(middle, bias, classification):
    layer = nqf.from_module(perceptron(middle, bias), torch.randn(4, 12))
    small = nqf.sketch(layer)
    assert (small.n_params, small.width, small.n_outputs()) == (6 + bias, 4, 6)
    assert nqf.verify(layer).classification == nqf.verify(small, "brief").classification == classification


def test_it_is_the_layer_at_weights_along_its_directions():
    layer = nqf.from_module(perceptron(nn.GELU(), True), torch.randn(4, 12))
    small = nqf.sketch(layer, outputs=100)  # more than there are: they are seen as they are
    x = small.sample(5, torch.Generator().manual_seed(0))
    W = small.random(torch.Generator().manual_seed(1), dtype=torch.float64)
    whole = {name: torch.einsum("j...,jd->...d", small.directions[name], c) for name, c in W.items()}
    expected = layer(whole, {name: t.double() for name, t in x.items()})
    for _ in range(2):  # a call leaves nothing behind
        torch.testing.assert_close(small(W, x), expected, rtol=1e-12, atol=1e-12)
    replicas = small({name: torch.stack([c, 2 * c]) for name, c in W.items()}, x)
    torch.testing.assert_close(replicas[0], expected, rtol=1e-12, atol=1e-12)
    leaf = {name: c.clone().requires_grad_() for name, c in W.items()}
    torch.testing.assert_close(small(leaf, x).detach(), expected, rtol=1e-12, atol=1e-12)


def test_units_that_differ_are_seen_to():
    module = perceptron(nn.Tanh(), True)
    held = {"0.bias": torch.arange(20.0)}
    layer = nqf.from_module(module, torch.randn(4, 12), {"0.weight": "d i -> d i", "2.weight": "o d -> d o"}, held=held)
    report = nqf.verify(nqf.sketch(layer), "brief")
    assert not report.passed and report["permutation-symmetry"].status == "fail"


def test_sequences_are_cut_where_the_module_takes_shorter_ones():
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    tokens = torch.randn(2, 30, 8)
    layer = nqf.from_module(attention, (tokens, tokens, tokens))
    assert nqf.sketch(layer).cut == (30, 4)
    assert nqf.sketch(layer, positions=None).cut is None
    flat = nqf.from_module(nn.Sequential(nn.Flatten(), perceptron(nn.Tanh())), torch.randn(2, 6, 2))
    assert nqf.sketch(flat).cut is None


def test_a_layer_over_the_budget_is_analysed_through_a_sketch():
    module = nn.Sequential(nn.Linear(1100, 1000, bias=False), nn.Tanh(), nn.Linear(1000, 3, bias=False))
    group = nqf.analyze(module, torch.randn(6, 1100), targets=torch.eye(6)[:, :3]).groups[0]
    assert group.through.startswith("measured through a sketch: each block in 3 random directions, 4 neurons")
    assert group.report.passed and group.report.classification == "nqf"
    assert len(group.growth.rates) == 3 and group.through in str(group)


@pytest.mark.parametrize("wrong", [{"directions": 0}, {"width": True}, {"outputs": 1.5}, {"positions": -1}])
def test_numbers_that_are_none_are_refused(wrong):
    with pytest.raises(nqf.InvalidInput, match="positive number"):
        nqf.sketch(nqf.default_registry().get("quadratic-network"), **wrong)


def test_only_layers_are_sketched():
    with pytest.raises(nqf.InvalidInput, match=r"sketch takes an nqf\.Layer, got Linear"):
        nqf.sketch(nn.Linear(2, 2))
