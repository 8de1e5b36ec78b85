"""Models with integer inputs: rows are picked, no one-hot is formed, and an index that is not there is named."""

import pytest
import torch

import nqf_registry as nqf

REGISTRY = nqf.Registry.load()
MODELS = {"matrix-completion": ("i", "j"), "word-context-embedding": ("word", "context")}
models = pytest.mark.parametrize("key", MODELS)


@models
def test_inputs_are_integers(key):
    layer = REGISTRY.get(key)
    assert {name: port.integer for name, port in layer.ports().items()} == dict.fromkeys(MODELS[key], True)
    x = layer.sample(1000, torch.Generator().manual_seed(0))
    for name, size in zip(MODELS[key], (shape[0] for shape in layer.blocks().values()), strict=True):
        assert set(x[name].tolist()) == set(range(size))


@models
@pytest.mark.parametrize("index", [99, -1])
def test_an_index_that_is_not_there_is_named(key, index):
    layer = REGISTRY.get(key)
    x = {name: torch.tensor([0, index]) for name in MODELS[key]}
    with pytest.raises(nqf.InvalidInput, match=" or ".join(MODELS[key])):
        layer(layer.zeros(), x)
    with pytest.raises(nqf.InvalidInput, match="rows count from 0"):
        nqf.quadratic_form(layer, x).evaluate(layer.zeros())


def test_a_large_matrix_is_completed_without_a_one_hot():
    """10,000 × 5,000 at rank 16 in minibatches of 50,000: a one-hot of one minibatch would take 2 GB."""
    layer, g = REGISTRY.get("matrix-completion", rows=10_000, columns=5_000, width=16), torch.Generator().manual_seed(0)
    x, W = layer.sample(50_000, g), layer.random(g, 0.1)
    form = nqf.quadratic_form(layer, x)
    torch.testing.assert_close(form.evaluate(W), layer(W, x))
    leaves = {name: block.requires_grad_() for name, block in W.items()}
    cotangent = torch.randn(50_000, 1, generator=g)
    grads = torch.autograd.grad(layer(leaves, x), list(leaves.values()), cotangent)
    with torch.no_grad():
        pulled = form.pullback(W, cotangent)
    for name, grad in zip(W, grads, strict=True):
        torch.testing.assert_close(pulled[name], grad, rtol=1e-4, atol=1e-5)


@models
def test_a_feature_table_is_refused(key):
    with pytest.raises(nqf.InvalidInput, match="define encode"):
        REGISTRY.get(key).encode(torch.zeros(2, 2))


@models
@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.int32])
def test_indices_of_any_width_train_alike(key, kind):
    layer, g = REGISTRY.get(key), torch.Generator().manual_seed(0)
    x = layer.sample(9, g)
    narrow = {name: t.to(kind) for name, t in x.items()}
    W, cotangent = nqf.Original(layer).init([0, 1], scale=0.5), torch.ones(2, 9, 1)
    assert torch.equal(layer(W, narrow), layer(W, x))
    for model in (nqf.Original(layer), nqf.NQF(layer)):
        one, two = model.bind(narrow).pullback(W, cotangent), model.bind(x).pullback(W, cotangent)
        assert all(torch.equal(one[name], two[name]) and two[name].any() for name in W)
