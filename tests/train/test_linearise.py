"""A layer's outputs and gradient in one pass, and the loss in pieces, against autograd over everything at once."""

import dataclasses

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.activations import activation, activations
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import declares
from nqf_registry.train.losses import LOSSES
from nqf_registry.train.models import initial_weights
from nqf_registry.train.models.pieces import Pieces

REGISTRY = nqf.default_registry()
CHOICES = [
    ("two-layer-mlp", {}),
    ("two-layer-mlp", {"activation": "gelu"}),
    ("single-layer-cnn", {}),
    ("single-layer-cnn", {"activation": "sigmoid", "stride": 2, "kernel_rows": 2}),
    ("query-key-attention", {}),
    ("query-key-attention", {"d_k": 1, "dim": 5, "queries": "all"}),
    ("query-key-attention", {"d_k": 3, "n_out": 1, "queries": "all"}),
]
WRITTEN = pytest.mark.parametrize("layer", [REGISTRY.get(key, **sizes) for key, sizes in CHOICES], ids=str)


def setting(layer, n, replicas):
    generator = torch.Generator().manual_seed(1)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(n, generator).items()}
    y = torch.randn(n, layer.n_outputs(), generator=generator, dtype=torch.float64).sign()
    return x, initial_weights(layer, range(replicas), 0.7, torch.float64), y


def expected(layer, x, W, y, loss):
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    return dict(zip(W, torch.autograd.grad(loss.value(layer(leaves, x), y).sum(), list(leaves.values())), strict=True))


@pytest.mark.parametrize("name", activations())
def test_the_derivative_of_an_activation_is_autograds(name):
    z = torch.linspace(-3, 3, 40, dtype=torch.float64).requires_grad_()
    cotangent = torch.linspace(1, 2, 40, dtype=torch.float64)
    value, pullback = activation(name).linearise(z.detach())
    out = activation(name)(z)
    assert torch.equal(value, out.detach())
    torch.testing.assert_close(pullback(cotangent), torch.autograd.grad(out, z, cotangent)[0], rtol=1e-12, atol=1e-15)


@WRITTEN
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_layer_in_one_pass_is_the_layer_and_its_gradient(layer, replicas):
    assert declares(layer, "linearise")
    x, W, y = setting(layer, 7, replicas)
    loss = LOSSES["squared"]
    objective = nqf.Original(layer).objective(x, y, loss)
    assert objective.way == "closed-form"
    found = objective.gradient(W)
    for name, grad in expected(layer, x, W, y, loss).items():
        torch.testing.assert_close(found[name], grad, rtol=1e-11, atol=1e-13)
    alone = {name: block[0] for name, block in W.items()}
    torch.testing.assert_close(layer.linearise(alone, x)[0], layer(alone, x), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("way", ["auto", "autograd"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize(("samples", "replicas"), [(None, None), (4, None), (1, 2), (11, 1), (5, 3)])
def test_pieces_add_up_to_the_whole(way, loss, samples, replicas):
    layer = REGISTRY.get("two-layer-mlp")
    x, W, y = setting(layer, 11, 3)
    objective = nqf.Original(layer, samples=samples, replicas=replicas).objective(x, y, loss, way)
    found = objective.gradient(W)
    for name, grad in expected(layer, x, W, y, loss).items():
        assert grad.abs().max() > 0
        torch.testing.assert_close(found[name], grad, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(objective.value(W), loss.value(layer(W, x), y), rtol=1e-12, atol=1e-14)
    outputs = objective.bound.evaluate(W)
    pulled = objective.bound.differentiate(W, lambda out: loss.cotangent(out, y))
    torch.testing.assert_close(outputs, layer(W, x), rtol=1e-12, atol=1e-14)
    for name, grad in expected(layer, x, W, y, loss).items():
        torch.testing.assert_close(pulled[name], grad, rtol=1e-11, atol=1e-13)


def test_all_entries_train_in_pieces():
    for layer in REGISTRY.layers():
        x, W, y = setting(layer, 6, 2)
        loss = LOSSES["squared"]
        found = nqf.Original(layer, samples=4).objective(x, y, loss).gradient(W)
        for name, grad in expected(layer, x, W, y, loss).items():
            torch.testing.assert_close(found[name], grad, rtol=1e-10, atol=1e-12)


def test_the_size_of_a_piece_follows_from_sizes_and_is_told():
    layer = REGISTRY.get("two-layer-mlp", n_in=20, n_out=8, width=1000)
    data = nqf.teacher(layer, n=900)
    ways = [nqf.train(nqf.Original(layer), data, lr=1e-3, steps=1, verify=False).manifest["ways"]["original"] for _ in range(2)]
    assert ways[0] == ways[1] and ways[0].startswith("closed-form, in pieces of ") and "of 900 samples" in ways[0]
    small = REGISTRY.get("two-layer-mlp")
    settings = {"lr": 1e-3, "steps": 1, "verify": False}
    assert nqf.train(nqf.Original(small), nqf.teacher(small), **settings).manifest["ways"] == {"original": "closed-form"}
    run = nqf.train(nqf.Original(small, samples=100, replicas=2), nqf.teacher(small), replicas=3, **settings)
    assert run.manifest["ways"] == {"original": "closed-form, in pieces of 86 of 256 samples and 2 of 3 replicas"}


def test_a_run_does_not_depend_on_its_pieces_of_replicas():
    layer = REGISTRY.get("two-layer-mlp")
    data = nqf.teacher(layer, n=64)
    runs = [
        nqf.train(nqf.Original(layer, replicas=count), data, lr=0.05, steps=40, replicas=6, verify=False).weights["original"]
        for count in (2, 3, 6)
    ]
    for other in runs[1:]:
        assert all(torch.equal(runs[0][name], other[name]) for name in other)


@pytest.mark.parametrize("batch", [None, 8])
def test_pieces_are_counted_once(batch, monkeypatch):
    from nqf_registry.train.models import pieces

    calls = []
    true = pieces.made_by_one
    monkeypatch.setattr(pieces, "made_by_one", lambda *given: calls.append(1) or true(*given))
    layer = REGISTRY.get("two-layer-mlp")
    nqf.train(nqf.Original(layer), nqf.teacher(layer, n=32), lr=1e-3, steps=9, batch=batch, verify=False)
    assert len(calls) == 1


@pytest.mark.parametrize("what", ["samples", "replicas"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "all"])
def test_a_piece_has_a_whole_size(what, value):
    with pytest.raises(InvalidInput, match=f"{what} of a piece"):
        nqf.Original(REGISTRY.get("two-layer-mlp"), **{what: value})


def test_a_gradient_of_another_shape_is_the_layers_fault():
    @dataclasses.dataclass(frozen=True)
    class Wrong(type(REGISTRY.get("two-layer-mlp"))):
        key = "test-wrong"

        def linearise(self, W, x):
            return self.forward(W, x), lambda cotangent: {"u": cotangent}

    layer = Wrong()
    x, W, y = setting(layer, 5, 1)
    with pytest.raises(nqf.LayerError, match="the pullback of linearise must return a dict of the blocks u, v; got u"):
        nqf.Original(layer, samples=5, replicas=1).objective(x, y, LOSSES["squared"]).gradient(W)
    assert isinstance(nqf.Original(layer, samples=2, replicas=1).objective(x, y, LOSSES["squared"]), Pieces)
