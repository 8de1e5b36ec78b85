"""Every known model, found through the registry, against what autodiff, differences and its own claims say."""

import dataclasses
import math

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.expansion import length_scale
from nqf_registry.layer import is_looped

EXACT = {
    "psd-matrix-sensing",
    "rectangular-matrix-sensing",
    "matrix-completion",
    "word-context-embedding",
    "quadratic-network",
    "phase-retrieval",
    "diagonal-linear-square",
    "diagonal-linear-two-factor",
    "tied-query-key-attention",
    "bilinear-sequence-regression",
    "linear-ssl",
}
APPROXIMATE = {
    "two-layer-mlp",
    "single-layer-cnn",
    "mixture-of-experts",
    "multi-head-attention",
    "query-key-attention",
    "single-head-attention",
}

_registry = nqf.Registry.load()
LAYERS = [_registry.get(entry.key) for entry in _registry.entries() if entry.distribution.replace("_", "-") == "nqf-registry"]
entries = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.key)


def inputs(layer, n=4, seed=0):
    x = layer.sample(n, torch.Generator().manual_seed(seed))
    return {name: t.double() if t.is_floating_point() else t for name, t in x.items()}


def weights(layer, seed=1, scale=1.0):
    return layer.random(torch.Generator().manual_seed(seed), scale, dtype=torch.float64)


def neuron(W, i, change):
    """W with one neuron changed."""
    changed = {name: block.clone() for name, block in W.items()}
    for block in changed.values():
        block[..., i] = change(block[..., i])
    return changed


def test_the_catalogue_holds_the_seventeen():
    assert {layer.key for layer in LAYERS} == EXACT | APPROXIMATE
    assert {layer.key for layer in LAYERS if layer.claims.exact} == EXACT
    assert not [f for f in _registry.failures if f.distribution.replace("_", "-") == "nqf-registry"]


@entries
def test_the_catalogue_finds_what_it_prints(layer):
    for text in (layer.title, layer.formula, layer.structure_formula, layer.convention, layer.notes):
        assert isinstance(text, str) and text.strip() == text and text
    assert layer.references and all(isinstance(r, nqf.Reference) and 1950 < r.year < 2100 for r in layer.references)
    assert layer.formula.count("{") == layer.formula.count("}")
    assert layer.structure_formula.count("{") == layer.structure_formula.count("}")


@entries
def test_default_sizes_are_small(layer):
    assert layer.n_params <= 40 and layer.n_outputs() <= 2 and layer.width <= 16


@entries
@pytest.mark.parametrize(
    "method, tolerance", [("forward-over-reverse", 1e-10), ("reverse-over-reverse", 1e-10), ("finite-difference", 2e-6)]
)
def test_the_declared_structure_is_half_the_hessian(layer, method, tolerance):
    x = inputs(layer)
    A, found = layer.structure(x).dense(torch.float64), nqf.expand(layer, x, method)
    size = float(A.abs().max())
    assert size > 0
    for gap in (found.diagonal - A, found.cross, found.linear):
        assert float(gap.abs().max()) <= tolerance * size
    assert float((found.offset - layer.offset(x)).abs().max()) <= 1e-12


@entries
def test_the_remainder_has_the_claimed_order(layer):
    """f − NQF along random rays: nothing at all, ε⁴ where the neurons' signs do not matter, ε³ otherwise."""
    x = inputs(layer)
    form, ray = nqf.quadratic_form(layer, x), weights(layer)
    if layer.claims.exact:
        value = layer(ray, x)
        torch.testing.assert_close(form.evaluate(ray), value, rtol=1e-12, atol=1e-12)
        return
    scale = length_scale(layer, x)
    points = []
    for octave in range(2, 9):
        W = {name: scale * 2.0**-octave * block for name, block in ray.items()}
        value = layer(W, x)
        gap = float((value - form.evaluate(W)).abs().max())
        if gap > 1e-12 * float(value.abs().max()):
            points.append((math.log(2.0**-octave), math.log(gap)))
    assert len(points) >= 4
    slope = float(
        torch.linalg.lstsq(torch.tensor([[a, 1.0] for a, _ in points]), torch.tensor([[b] for _, b in points])).solution[0]
    )
    assert slope >= (3.9 if layer.claims.sign_symmetric else 2.95)


@entries
def test_the_neurons_are_interchangeable(layer):
    x, W = inputs(layer), weights(layer)
    order = torch.randperm(layer.width, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(
        layer({name: block[..., order] for name, block in W.items()}, x), layer(W, x), rtol=1e-10, atol=1e-10
    )


@entries
def test_signs_matter_exactly_where_no_claim_is_made(layer):
    x, W = inputs(layer), weights(layer)
    gap = float((layer(neuron(W, 0, torch.neg), x) - layer(W, x)).abs().max())
    assert (gap < 1e-10) == layer.claims.sign_symmetric


@entries
def test_the_gradient_vanishes_where_a_neuron_does(layer):
    x, W = inputs(layer), neuron(weights(layer), 0, torch.zeros_like)
    leaves = {name: block.requires_grad_() for name, block in W.items()}
    grads = torch.autograd.grad(layer(leaves, x).sum(), list(leaves.values()))
    assert all(float(grad[..., 0].abs().max()) < 1e-12 for grad in grads)


@entries
def test_replicas_are_mapped_and_never_looped_over(layer):
    x = inputs(layer)
    draws = [weights(layer, seed) for seed in range(3)]
    together = {name: torch.stack([W[name] for W in draws]) for name in draws[0]}
    torch.testing.assert_close(layer(together, x), torch.stack([layer(W, x) for W in draws]), rtol=1e-10, atol=1e-10)
    assert not is_looped(layer)


@entries
def test_the_pullback_of_the_form_is_its_gradient(layer):
    x, W = inputs(layer), {name: block.requires_grad_() for name, block in weights(layer).items()}
    form = nqf.quadratic_form(layer, x)
    value = form.evaluate(W)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    grads = torch.autograd.grad(value, list(W.values()), cotangent, allow_unused=True)
    pulled = form.pullback({name: block.detach() for name, block in W.items()}, cotangent)
    for name, grad in zip(W, grads, strict=True):
        expected = torch.zeros_like(W[name]) if grad is None else grad
        torch.testing.assert_close(pulled[name], expected, rtol=1e-10, atol=1e-10)


@entries
def test_single_precision_stays_single(layer):
    x = layer.sample(3, torch.Generator().manual_seed(0))
    W = layer.random(torch.Generator().manual_seed(1))
    assert layer(W, x).dtype == nqf.quadratic_form(layer, x).evaluate(W).dtype == torch.float32


@entries
def test_the_width_enters_the_structure_by_its_root_or_not_at_all(layer):
    wide, x = layer.resized(2 * layer.width), inputs(layer)
    assert wide.blocks() == layer.blocks()
    A, twice = layer.structure(x).dense(torch.float64), wide.structure(x).dense(torch.float64)
    assert any(torch.allclose(twice, ratio * A, rtol=1e-12) for ratio in (1.0, 0.5**0.5))
    torch.testing.assert_close(twice, nqf.expand(wide, x).diagonal, rtol=1e-10, atol=1e-12)


@entries
def test_no_sample_is_no_mistake(layer):
    x = {name: t[:0] for name, t in inputs(layer).items()}
    assert layer(weights(layer), x).shape == (0, layer.n_outputs())


@entries
def test_every_size_is_checked(layer):
    sizes = [f.name for f in dataclasses.fields(layer) if f.init and isinstance(f.default, int)]
    assert sizes
    for name in sizes:
        for value in (-1, 1.5):
            with pytest.raises(nqf.InvalidInput, match=f"{name} must be"):
                dataclasses.replace(layer, **{name: value})


@entries
def test_every_choice_is_checked(layer):
    for name in [f.name for f in dataclasses.fields(layer) if f.init and isinstance(f.default, str)]:
        with pytest.raises(nqf.InvalidInput, match=r"one of .*; got 'none-such'"):
            dataclasses.replace(layer, **{name: "none-such"})


@entries
def test_features_are_encoded_or_refused(layer):
    """A table with as many columns as the floating inputs of a sample hold is read, or the error says what is missing."""
    ports = layer.ports()
    counts = {math.prod(port.shape) for port in ports.values()} | {sum(math.prod(port.shape) for port in ports.values())}
    for m in counts | {7919}:
        features = torch.randn(3, m, generator=torch.Generator().manual_seed(0))
        try:
            x = layer.encode(features)
        except nqf.InvalidInput as error:
            assert str(m) in str(error)
            continue
        assert m != 7919
        assert {name: tuple(t.shape[1:]) for name, t in x.items()} == {name: port.shape for name, port in ports.items()}
        assert layer(layer.zeros(), x).shape[0] == 3
