"""A module as a layer: declared or found neurons, verdicts, and the module left as it was."""

import copy

import pytest
import torch
from torch import nn

import nqf_registry as nqf


def perceptron(activation=nn.Tanh, bias=True):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6, bias=bias), activation(), nn.Linear(6, 2))


def rows(n=4):
    return torch.randn(5, n, generator=torch.Generator().manual_seed(0))


def attention():
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, batch_first=True)


def tokens():
    return (torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0)),) * 3


@pytest.mark.parametrize(
    ("module", "example", "kind"),
    [
        (perceptron(), rows(), "nqf"),
        (perceptron(bias=False), rows(), "nqf"),
        (perceptron(nn.Identity), rows(), "exact-nqf"),
        (perceptron(nn.ReLU), rows(), "not-smooth"),
        (attention(), tokens(), "nqf"),
        (nn.Sequential(nn.Linear(4, 12), nn.GLU(), nn.Linear(6, 2)), rows(), "nqf"),
    ],
    ids=["tanh", "no-bias", "linear", "relu", "attention", "glu"],
)
def test_the_verdict_is_that_of_the_layer(module, example, kind):
    before = {name: t.clone() for name, t in module.state_dict().items()}
    layer = nqf.from_module(module, example)
    report = nqf.verify(layer)
    assert report.classification == kind and report.passed == (kind != "not-smooth"), str(report)
    after = module.state_dict()
    assert after.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    assert all(p.grad is None for p in module.parameters())


def test_declared_and_found_are_one_layer():
    module, x = perceptron(), rows()
    patterns = {"0.weight": "d i -> d i", "0.bias": "d -> d", "2.weight": "o d -> d o"}
    found, declared = nqf.from_module(module, x), nqf.from_module(module, x, patterns)
    assert found.blocks() == declared.blocks() == {"0.weight": (4,), "0.bias": (), "2.weight": (2,)}
    W = declared.random(torch.Generator().manual_seed(1), 0.3, torch.float64)
    inputs = declared.sample(3, torch.Generator().manual_seed(2))
    torch.testing.assert_close(found(W, inputs), declared(W, inputs))


def test_its_own_weights_give_its_own_outputs():
    for module, x in ((perceptron(), rows()), (attention(), tokens())):
        layer = nqf.from_module(module, x)
        named = dict(zip("012", x, strict=False)) if isinstance(x, tuple) else {"0": x}
        out = module(*x)[0] if isinstance(x, tuple) else module(x)
        torch.testing.assert_close(layer(layer.state(), named), out.flatten(1))


def test_attention_has_the_structure_of_the_paper():
    """At quadratic order queries and keys are inert, and values couple to the readout by the mean of the tokens."""
    module = attention()
    patterns = {
        "in_proj_weight": "(t h k) m -> h t k m",
        "out_proj.weight": "m (h k) -> h m k",
    }
    layer = nqf.from_module(module, tokens(), patterns, sizes={"t": 3, "h": 2}, held={"in_proj_bias": 0.0})
    x = {name: t.double() for name, t in layer.sample(2, torch.Generator().manual_seed(0)).items()}
    A = nqf.expand(layer, x).diagonal  # (n, outputs, p, p), of p = 3 · 4 · 8 + 8 · 4
    assert A.shape == (2, 40, 128, 128)
    assert float(A[..., :64, :].abs().max()) < 1e-14  # queries and keys
    mean = x["2"].mean(1)  # of the values' tokens
    wanted = torch.einsum("nm,kl,op->nokmpl", mean, torch.eye(4).double(), torch.eye(8).double()) / 2
    for position in range(5):  # the same for every query
        block = A[:, 8 * position : 8 * position + 8, 64:96, 96:].reshape(2, 8, 4, 8, 8, 4)
        torch.testing.assert_close(block, wanted, rtol=1e-10, atol=1e-12)


def test_a_module_is_trained_like_any_layer():
    layer = nqf.from_module(perceptron(bias=False), rows(), held={"2.bias": 0.0})
    data = nqf.teacher(layer, n=50)
    run = nqf.compare(layer, data, steps=300, lr="auto", scale=0.01, verify=False)
    losses = run.data["train_loss"]
    original = losses.sel(model="original").isel(replica=0).values
    assert original[-1] < 0.5 * original[0]


def test_fewer_neurons_are_zero_and_more_are_refused():
    layer, x = nqf.from_module(attention(), tokens()), dict(zip("012", tokens(), strict=True))
    W = layer.state()
    one = {name: block[..., :1] for name, block in W.items()}
    padded = {name: torch.cat([block[..., :1], torch.zeros_like(block[..., 1:])], -1) for name, block in W.items()}
    torch.testing.assert_close(layer(one, x), layer(padded, x))
    with pytest.raises(nqf.InvalidInput, match="has 2 neurons"):
        layer({name: torch.cat([block, block], -1) for name, block in W.items()}, x)


def test_two_modules_of_one_class_share_no_verdict(tmp_path, monkeypatch):
    from nqf_registry.verify import verdict

    monkeypatch.setenv("NQF_CACHE_DIR", str(tmp_path))
    good, bad = (nqf.from_module(perceptron(a), rows()) for a in (nn.Tanh, nn.ReLU))
    assert verdict(good).passed and not verdict(bad).passed


def test_tied_parameters_and_compiled_modules():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.again = nn.Linear(4, 6, bias=False), nn.Linear(4, 6, bias=False)
            self.again.weight = self.up.weight

        def forward(self, x):
            return (self.up(x) * self.again(x)).sum(-1, keepdim=True)

    layer = nqf.from_module(torch.compile(Tied()), rows())
    assert layer.blocks() == {"up.weight": (4,)} and nqf.verify(layer).classification == "exact-nqf"


def several():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: nqf.from_module(nn.Linear, rows()), "make an instance"),
        (lambda: nqf.from_module("model", rows()), "got str"),
        (lambda: nqf.from_module(nn.Tanh(), rows()), "has no parameters"),
        (lambda: nqf.from_module(nn.Linear(4, 3), rows()), "is no-neurons"),
        (lambda: nqf.from_module(perceptron(), 3.0), "example must be"),
        (lambda: nqf.from_module(perceptron(), (rows(), rows()[:2])), "one leading sample axis"),
        (lambda: nqf.from_module(perceptron(), rows()[:0]), "one leading sample axis"),
        (lambda: nqf.from_module(nn.LazyLinear(3), rows()), "call the module once"),
        (lambda: nqf.from_module(perceptron(), rows(), {"5.weight": "d i -> d i"}), "no parameter '5.weight'"),
        (lambda: nqf.from_module(perceptron(), rows(), {"0.weight": "d i"}), "after an arrow the neuron first"),
        (lambda: nqf.from_module(perceptron(), rows(), {"0.weight": "d i j -> d i j"}), "does not fit 0.weight"),
        (lambda: nqf.from_module(perceptron(), rows(), {"0.weight": "(t d) i -> d t i"}), "sizes="),
        (
            lambda: nqf.from_module(perceptron(), rows(), {"0.weight": "d i -> d i", "2.weight": "d o -> d o"}),
            "one number of neurons",
        ),
        (lambda: nqf.from_module(perceptron(), rows(), held={"0.weight": 0.0}), "belongs to the neurons"),
        (lambda: nqf.from_module(perceptron(), rows(), held={"9": 0.0}), "is no parameter"),
        (lambda: nqf.from_module(perceptron(), rows(), held={"2.bias": "x"}), "held must give"),
        (lambda: nqf.from_module(perceptron(), rows(), output=lambda y: y.T), "leading sample axis"),
        (lambda: nqf.from_module(several(), tokens()[0]), "several independent groups"),
    ],
)
def test_wrong_use_says_what_to_do(call, said):
    with pytest.raises(nqf.InvalidInput, match=said.replace("(", r"\(")):
        call()


def test_one_of_several_groups():
    module, x = several(), tokens()[0]
    groups = nqf.find_neurons(module, x).groups
    mlp = next(group for group in groups if "linear1.weight" in group.partition.patterns)
    layer = nqf.from_module(module, x, mlp)
    assert layer.width == 16 and copy.copy(layer).blocks() == {
        "linear1.weight": (8,),
        "linear1.bias": (),
        "linear2.weight": (8,),
    }
