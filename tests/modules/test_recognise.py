"""Closed forms: recognised ones are A(x) on other inputs too, what has none says so, and the printed code runs."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nqf_registry as nqf
from nqf_registry.modules.recognise import recognise
from nqf_registry.reached import inert_parts
from nqf_registry.report.structure_facts import samples_of, structure_of


class Pair(nn.Module):
    """Two embeddings, multiplied."""

    def __init__(self):
        super().__init__()
        self.word, self.context = nn.Embedding(7, 4), nn.Embedding(5, 4)

    def forward(self, i, j):
        return (self.word(i) * self.context(j)).sum(-1, keepdim=True)


class Residual(nn.Module):
    """A perceptron behind a layer norm."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def tokens(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def integers(n, high, seed):
    return torch.randint(0, high, (n,), generator=torch.Generator().manual_seed(seed))


CASES = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)), lambda: tokens(4, 3), "1/2 x"),
    "attention": (
        lambda: nn.MultiheadAttention(4, 2, batch_first=True),
        lambda: (tokens(3, 3, 4),) * 3,
        "A[in_proj_weight[2], out_proj.weight] = 1/2 mean(x2) ⊗ I",
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv1d(2, 4, 3), nn.GELU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)),
        lambda: tokens(4, 2, 8),
        "1/4 mean(windows(x, 3), 2)",
    ),
    "gated": (lambda: nn.Sequential(nn.Linear(3, 8), nn.GLU(), nn.Linear(4, 2)), lambda: tokens(4, 3), "0.weight[0]"),
    "embeddings": (Pair, lambda: (integers(40, 7, 0), integers(40, 5, 1)), "1/2 onehot(x0)·onehot(x1)"),
    "residual": (Residual, lambda: tokens(3, 2, 4), "1/4 layernorm(x)"),
}


def made(name, seed=0):
    """A layer of the outermost group, its inputs, A(x) on them, and the shape of its outputs."""
    torch.manual_seed(seed)
    module, example = CASES[name][0](), CASES[name][1]()
    layer = nqf.from_module(module, example, nqf.find_neurons(module, example).groups[0])
    x = samples_of(layer, 4)
    with torch.no_grad():
        outputs = tuple(layer.call.shaped({n: p.double() for n, p in layer.call.parameters.items()}, x).shape[1:])
    return layer, x, structure_of(layer, x).dense(torch.float64), outputs


@pytest.mark.parametrize("name", CASES)
def test_the_closed_form_is_found_and_holds_on_inputs_it_was_not_found_on(name):
    layer, x, A, outputs = made(name)
    found = recognise(layer, x, A, outputs)
    assert found.complete and CASES[name][2] in str(found), str(found)
    other = {
        n: t.double() if t.is_floating_point() else t for n, t in layer.sample(5, torch.Generator().manual_seed(9)).items()
    }
    scope = {"torch": torch, "F": F, "nqf": nqf, "x": other, "like": next(iter(other.values()))}
    structure = sum((eval(term.code(), scope) for term in found.terms[1:]), eval(found.terms[0].code(), scope))
    expected = nqf.expand(layer, other).structure
    torch.testing.assert_close(structure.bind(layer.blocks()).dense(torch.float64), expected, rtol=0.0, atol=1e-12)


def test_what_has_no_closed_form_here_says_so_and_is_not_complete():
    layer, x, A, outputs = made("perceptron")
    wrong = A * (1 + x["0"].square().sum(-1)[:, None, None, None])
    found = recognise(layer, x, wrong, outputs)
    assert not found.complete and "no closed form is known here" in str(found)


def test_a_form_that_is_off_by_a_part_in_a_million_is_not_taken():
    layer, x, A, outputs = made("perceptron")
    A = A.clone()
    A[1, 0, 0, -2:] *= 1 + 1e-6
    assert not recognise(layer, x, (A + A.mT) / 2, outputs).complete


def test_inert_slices_are_named_along_the_axis_that_says_most():
    reached = torch.zeros(4, 9, dtype=torch.bool)
    reached[:, 3] = True
    assert inert_parts({"w": reached}) == ("w[:, 0:3, 4:9]",)
    reached = torch.zeros(2, 9, dtype=torch.bool)
    reached[:, 1::2] = True
    assert inert_parts({"w": reached}) == ("w: 5 of 9 along axis 1",)
    assert inert_parts({"w": torch.ones(3, dtype=torch.bool), "b": torch.tensor(False)}) == ("b",)
