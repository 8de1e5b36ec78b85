"""The choices of the models: every activation, gate and expert keeps what it declares and claims."""

import pytest
import torch

import nqf_registry as nqf

REGISTRY = nqf.Registry.load()
SMOOTH = [name for name in nqf.activations() if nqf.activation(name).smooth]
GATES = ["tanh", "silu", "sigmoid", "softplus"]  # odd; φ(0) = 0; φ(0) ≠ 0; φ(0) ≠ 0 with curvature
INNER = ["identity", "sin", "gelu", "softplus"]

CASES = [
    *[("two-layer-mlp", {"n_in": 3, "width": 3, "activation": name}) for name in SMOOTH],
    *[("single-layer-cnn", {"channels": 1, "rows": 3, "columns": 4, "width": 3, "activation": name}) for name in SMOOTH],
    ("single-layer-cnn", {"stride": 2, "n_out": 3, "activation": "softplus"}),
    *[
        ("mixture-of-experts", {"n_in": 2, "width": 3, "gate": gate, "expert": expert, "expert_activation": inner})
        for gate in GATES
        for expert in ("linear", "affine", "quadratic")
        for inner in INNER
    ],
    *[("two-layer-mlp", {"n_in": 3, "n_out": n_out}) for n_out in (1, 5)],
]
cases = pytest.mark.parametrize("key, sizes", CASES, ids=[f"{key} {' '.join(map(str, s.values()))}" for key, s in CASES])


def prepared(key, sizes):
    layer, g = REGISTRY.get(key, **sizes), torch.Generator().manual_seed(0)
    return layer, {name: t.double() for name, t in layer.sample(3, g).items()}, layer.random(g, dtype=torch.float64)


@cases
def test_the_declared_expansion_is_the_measured_one(key, sizes):
    layer, x, _ = prepared(key, sizes)
    found = nqf.expand(layer, x)
    torch.testing.assert_close(layer.structure(x).dense(), found.diagonal, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer.cross(x).dense(), found.cross, rtol=1e-10, atol=1e-12)
    zero = torch.zeros(*found.offset.shape, dtype=torch.float64)
    torch.testing.assert_close(layer.offset(x) + zero, found.offset, rtol=1e-12, atol=1e-12)
    linear = {name: torch.zeros(*found.offset.shape, *shape, dtype=torch.float64) for name, shape in layer.blocks().items()}
    flat = torch.cat([(layer.linear(x).get(name, part) + part).flatten(2) for name, part in linear.items()], -1)
    torch.testing.assert_close(flat, found.linear, rtol=1e-10, atol=1e-12)


@cases
def test_the_claims_follow_the_choice(key, sizes):
    layer, x, W = prepared(key, sizes)
    found = nqf.expand(layer, x)
    assert layer.claims.zgz == (float(found.linear.abs().max()) < 1e-12)
    flipped = {name: torch.cat([-block[..., :1], block[..., 1:]], -1) for name, block in W.items()}
    assert layer.claims.sign_symmetric == torch.allclose(layer(flipped, x), layer(W, x), rtol=0, atol=1e-9)
    gap = float((nqf.quadratic_form(layer, x).evaluate(W) - layer(W, x)).abs().max())
    assert layer.claims.exact == (gap < 1e-10)


@cases
def test_the_form_has_the_layers_first_two_orders(key, sizes):
    """At 1e-4 times a unit draw the remainder, cubic at least, is a small part of what a wrong quadratic term would leave."""
    layer, x, ray = prepared(key, sizes)
    W = {name: 1e-4 * block for name, block in ray.items()}
    form = nqf.quadratic_form(layer, x)
    assert not form.derived
    assert float((form.evaluate(W) - layer(W, x)).abs().max()) < 1e-9


@pytest.mark.parametrize("name", [name for name in nqf.activations() if not nqf.activation(name).smooth])
def test_a_kink_at_zero_leaves_a_remainder_of_order_two_or_three(name):
    """Such a layer can be made, so that one can see it fail; softsign is odd, and its remainder is of order three yet."""
    layer, x, ray = prepared("two-layer-mlp", {"activation": name})
    form = nqf.quadratic_form(layer, x)
    gaps = []
    for size in (1e-3, 1e-4):
        W = {block: size * values for block, values in ray.items()}
        gaps.append(float((form.evaluate(W) - layer(W, x)).abs().max()))
    slope = torch.log10(torch.tensor(gaps[0] / gaps[1]))
    assert slope < 3.1


@pytest.mark.parametrize("activation, exact", [("identity", True), ("tanh", False)])
def test_a_linear_activation_makes_the_layer_its_form(activation, exact):
    assert REGISTRY.get("two-layer-mlp", activation=activation).claims.exact == exact
    assert REGISTRY.get("single-layer-cnn", activation=activation).claims.exact == exact
    assert REGISTRY.get("mixture-of-experts", gate=activation).claims.exact == exact


def test_a_kernel_larger_than_the_image_is_refused():
    with pytest.raises(nqf.InvalidInput, match=r"kernel \(6 × 2\) must fit into the image \(5 × 6\)"):
        REGISTRY.get("single-layer-cnn", kernel_rows=6)


def test_images_come_from_flat_tables():
    layer = REGISTRY.get("single-layer-cnn", channels=1, rows=8, columns=8)
    features = torch.arange(128.0).reshape(2, 64)
    assert torch.equal(layer.encode(features)["x"][1, 0, 2], features[1, 16:24])
    with pytest.raises(nqf.InvalidInput, match="60 features a sample"):
        layer.encode(features[:, :60])


@pytest.mark.parametrize("key", ["diagonal-linear-square", "diagonal-linear-two-factor"])
def test_the_width_of_a_diagonal_network_is_fixed(key):
    layer = REGISTRY.get(key)
    assert layer.width == 1 and layer.resized(5) is layer
    with pytest.raises(nqf.InvalidInput, match="width is fixed at 1"):
        REGISTRY.get(key, width=2)
