"""A module from Python and from the shell: what it is, in a few lines."""

import json

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import nqf_registry as nqf
from nqf_registry.cli.analyze import command
from nqf_registry.errors import InvalidInput


def run(*words):
    return CliRunner().invoke(command, words)


def test_attention_is_what_the_paper_says():
    torch.manual_seed(0)
    tokens = (torch.randn(3, 3, 4),) * 3
    seen = nqf.analyze(nn.MultiheadAttention(4, 2, batch_first=True), tokens)
    heads = seen.groups[0]
    assert seen.classification == "nqf" and heads.neurons.width == 2
    assert heads.structure["couplings"] == ["in_proj_weight-out_proj.weight", "in_proj_bias-out_proj.weight"]
    assert heads.structure["inert_parameters"] == 2 * (2 * 4 + 2)  # queries and keys, with their biases
    assert heads.structure["kronecker"]["size"] == 2
    assert "inert at quadratic order: in_proj_weight[0:2], in_proj_bias[0:2]" in str(seen) and json.dumps(seen.to_dict())
    assert heads.form.complete and "A[in_proj_weight[2], out_proj.weight] = 1/2 mean(x2) ⊗ I" in str(seen)
    assert "A[in_proj_bias[2], out_proj.weight] = 1/2 I" in str(seen)
    assert heads.growth.identity == 2 and all(m % 2 == 0 for m in heads.growth.multiplicities) and "│" in heads.picture


def test_no_neurons_and_what_cannot_be_followed():
    assert nqf.analyze(nn.Linear(3, 2), torch.randn(4, 3)).classification == "no-neurons"

    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 2)

        def forward(self, x):
            return self.up(x) if x.sum() > 0 else -self.up(x)

    assert nqf.analyze(Branching(), torch.randn(4, 3)).classification == "undecided"


def test_the_growth_rate_is_that_of_the_targets():
    """Inputs e_i and targets 1 give Y = (4/3) · ½ · (1, 1, 1), of norm 2/√3."""
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.Tanh(), nn.Linear(4, 1, bias=False))
    seen = nqf.analyze(module, torch.eye(3), targets=torch.ones(3)).groups[0]
    assert seen.growth.rates == (pytest.approx(2 / 3**0.5),) and seen.growth.complete
    with pytest.raises(InvalidInput, match="targets must be 1 numbers for each of the 3 samples"):
        nqf.analyze(module, torch.eye(3), targets=torch.ones(4))


def test_from_the_shell():
    words = ["torch.nn:MultiheadAttention", "--args", "4", "--args", "2", "--args", "batch_first=True"]
    shown = run(*words, "--input", "3,3,4", "--input", "=0", "--input", "=0")
    assert shown.exit_code == 0 and "MultiheadAttention: nqf" in shown.output and "2 units" in shown.output
    data = json.loads(
        run("torch.nn:GRUCell", "--args", "3", "--args", "4", "--input", "5,3", "--input", "5,4", "--json").output
    )
    assert data["classification"] == "no-neurons" and data["groups"] == []
    assert run("torch.nn:Linear", "--args", "3", "--args", "4", "--input", "5,3").exit_code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["torch.nn", "--input", "3,3"], "PACKAGE.MODULE:CLASS"),
        (["torch.nn:Nothing", "--input", "3,3"], "cannot be imported"),
        (["no_such_package:Layer", "--input", "3,3"], "cannot be imported"),
        (["os:path", "--input", "3,3"], "must be a class of torch.nn.Module"),
        (["torch.nn:Linear", "--args", "x", "--input", "3,3"], "cannot be made"),
        (["torch.nn:Linear", "--args", "3", "--args", "4", "--input", "3,0"], "an input is a shape"),
        (["torch.nn:Linear", "--args", "3", "--args", "4", "--input", "=0"], "an input is a shape"),
        (["torch.nn:Linear", "--args", "3", "--args", "4", "--input", "3,5<0"], "an input is a shape"),
    ],
)
def test_wrong_words_say_what_was_expected(words, said):
    shown = run(*words)
    assert isinstance(shown.exception, InvalidInput) and said in str(shown.exception)
