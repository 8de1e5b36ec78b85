"""Gradients from statistics of the samples, and fused steps, against the gradient by sample."""

import dataclasses

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.fused import fused_steps
from nqf_registry.train.gradients import Product, formed
from nqf_registry.train.losses import LOSSES
from nqf_registry.train.optimizers import OPTIMIZERS
from nqf_registry.train.small_steps import are_small, small_steps
from nqf_registry.train.statistics import LARGEST, statistics

F64 = torch.float64
REGISTRY = nqf.default_registry()
WITHOUT = {"matrix-completion", "word-context-embedding"}


def setting(layer, n=7, replicas=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(n, generator).items()}
    W = {name: torch.randn(replicas, *s, layer.width, generator=generator, dtype=F64) for name, s in layer.blocks().items()}
    form = nqf.quadratic_form(layer, x, F64)
    y = torch.randn(form.evaluate(W).shape[1:], generator=generator, dtype=F64)
    return form, W, y


def made(layer, **more):
    form, W, y = setting(layer, **more)
    return form, W, y, statistics(form.structure, form.offset, y, dict(layer.blocks()))


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("layer", REGISTRY.layers(), ids=lambda layer: layer.key)
def test_the_gradient_is_the_one_by_sample(layer, replicas):
    form, W, y, found = made(layer, replicas=replicas)
    if layer.key in WITHOUT:
        assert found is None
        return
    expected = form.pullback(W, (form.evaluate(W) - y) * (2 / len(y)))
    gradient = found.gradient(W)
    for name, value in expected.items():
        if name in gradient:
            torch.testing.assert_close(formed(gradient[name]), value, rtol=1e-11, atol=1e-12 * float(value.abs().max() + 1))
        else:
            assert not value.any()  # an inert block


def swapped(layer):
    """The same layer, its coupling written from right to left, with the axes of both blocks and of the output the other way."""

    @dataclasses.dataclass(frozen=True)
    class Swapped(nqf.Layer):
        key = "test-swapped"
        width: int = 5

        def blocks(self):
            return {"a": (2, 3), "b": (4, 2)}

        def sample(self, n, generator):
            return {"x": torch.randn(n, 3, generator=generator)}

        def structure(self, x):
            return nqf.quadratic(layer, "b", x["x"], "a")

        def forward(self, W, x):
            return self.structure(x).evaluate(W)

    return Swapped()


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("spec", ["oj,ni,ji->no", "oj,ni,ji->nji", "oj,ni,ji->njo", "oj,ni,ji->noj", "oj,ni,ji->nij"])
def test_every_order_of_the_axes(spec, replicas):
    form, W, y, found = made(swapped(spec), replicas=replicas)
    expected = form.pullback(W, (form.evaluate(W) - y) * (2 / len(y)))
    if "i" in spec.split("->")[1]:
        assert found is None  # x carries an output's letter, so that the map differs by output
        return
    for name, value in found.gradient(W).items():
        torch.testing.assert_close(formed(value), expected[name], rtol=1e-11, atol=1e-12)


def test_two_couplings_share_their_statistics():
    layer = swapped("oj,ni,ji->no")
    form, W, y, _ = made(layer)
    double = form.structure + nqf.quadratic("oj,ni,oj->no", "b", form.x["x"], "b").bind(layer.blocks())
    found = statistics(double, 0.0, y, dict(layer.blocks()))
    value = double.evaluate(W)
    expected = double.pullback(W, (value - y) * (2 / len(y)))
    for name, gradient in found.gradient(W).items():
        torch.testing.assert_close(formed(gradient), expected[name], rtol=1e-11, atol=1e-12)


def test_statistics_that_would_be_too_large_are_not_made():
    n_in = 6000
    assert n_in**2 > LARGEST
    layer = REGISTRY.get("two-layer-mlp", n_in=n_in, width=2, n_out=1)
    form = nqf.quadratic_form(layer, layer.sample(3, torch.Generator().manual_seed(0)))
    assert statistics(form.structure, 0.0, torch.zeros(3, 1), dict(layer.blocks())) is None
    model = nqf.NQF(layer)
    with pytest.raises(InvalidInput, match="cannot be computed by way 'statistics': they would be too large"):
        model.objective(form.x, torch.zeros(3, 1), LOSSES["squared"], "statistics")


def perceptron(replicas=1, width=9):
    return setting(REGISTRY.get("two-layer-mlp", n_in=4, n_out=3, width=width), replicas=replicas, n=20)


@pytest.mark.parametrize(
    ("loss", "way", "whole", "reason"),
    [
        ("logistic", "statistics", True, "the logistic loss is not quadratic"),
        ("squared", "statistics", False, "every step sees other samples"),
        ("squared", "sideways", True, "way must be auto or one of autograd, closed-form, statistics"),
    ],
)
def test_a_way_that_is_none_is_refused_with_the_reason(loss, way, whole, reason):
    form, _, y = perceptron()
    with pytest.raises(InvalidInput, match=reason):
        nqf.NQF(form.layer).objective(form.x, y, LOSSES[loss], way, whole)


def test_picked_rows_have_no_statistics_and_the_message_says_so():
    layer = REGISTRY.get("matrix-completion")
    form, _, y = setting(layer)
    with pytest.raises(InvalidInput, match="its couplings pick rows"):
        nqf.NQF(layer).objective(form.x, y, LOSSES["squared"], "statistics")


def test_the_way_is_chosen_from_the_sizes():
    few = nqf.NQF(REGISTRY.get("two-layer-mlp", n_in=500, n_out=1, width=4))
    many = nqf.NQF(REGISTRY.get("two-layer-mlp", n_in=5, n_out=1, width=4))
    for model, n, way in ((few, 4, "closed-form"), (many, 100, "statistics")):
        x = model.subject.sample(n, torch.Generator().manual_seed(0))
        assert model.objective(x, torch.zeros(n, 1), LOSSES["squared"]).way == way


@pytest.mark.parametrize("beta", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("lead", [1, 4])
def test_a_product_is_added_without_being_formed(lead, beta):
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.randn(lead, *s, generator=generator, dtype=F64) for s in ((6, 2), (2, 5)))
    product = Product(left, right, torch.Size((lead, 2, 3, 5)))
    target = torch.randn(lead, 2, 3, 5, generator=generator, dtype=F64)
    expected = beta * target - 0.3 * (left @ right).view(lead, 2, 3, 5)
    product.add_to(target, -0.3, beta)
    torch.testing.assert_close(target, expected, rtol=1e-13, atol=1e-14)
    factors = torch.rand(lead, generator=generator, dtype=F64)
    torch.testing.assert_close(
        product.scaled(factors).formed(), product.formed() * factors[:, None, None, None], rtol=1e-13, atol=1e-14
    )


def stepped_by_sample(form, W, y, optimizer):
    """What seven steps of a rule make of W with the gradient by sample, and what the rule then remembers."""
    expected, slots = {name: block.clone() for name, block in W.items()}, optimizer.slots(W)
    for count in range(1, 8):
        gradient = form.pullback(expected, (form.evaluate(expected) - y) * (2 / len(y)))
        optimizer.step(expected, gradient, slots, count)
    return expected, slots


def step_in_blocks(step_and_finish, found, optimizer, state, slots):
    """The same seven steps by other means, in blocks of an odd and an even number."""
    for steps in ((1,), (2, 3, 4), (5, 6), (7,)):
        step, finish = step_and_finish(found, optimizer, state, slots)
        for count in steps:
            step(count)
        finish()


@pytest.mark.parametrize("decay", [0.0, 0.02])
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("rule", ["gd", "momentum", "nesterov"])
@pytest.mark.parametrize("key", ["two-layer-mlp", "single-layer-cnn", "query-key-attention", "diagonal-linear-two-factor"])
def test_fused_steps_do_what_the_rule_does(key, rule, replicas, decay):
    layer = REGISTRY.get(key)
    form, W, y, found = made(layer, replicas=replicas, n=30)
    W = {name: 0.1 * block for name, block in W.items()}
    optimizer = OPTIMIZERS[rule]((0.01,), (decay,), 0.0 if rule == "gd" else 0.8)
    expected, slots = stepped_by_sample(form, W, y, optimizer)
    state, own = {name: block.clone() for name, block in W.items()}, optimizer.slots(W)
    step_in_blocks(fused_steps, found, optimizer, state, own)
    for name in W:
        torch.testing.assert_close(state[name], expected[name], rtol=1e-11, atol=1e-13)
        for slot in slots:
            torch.testing.assert_close(own[slot][name], slots[slot][name], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("decay", [0.0, 0.02])
@pytest.mark.parametrize("rule", ["gd", "momentum", "nesterov"])
@pytest.mark.parametrize("key", ["two-layer-mlp", "single-layer-cnn", "single-head-attention", "phase-retrieval", "linear-ssl"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_small_steps_do_what_the_rule_does(key, rule, decay, dtype):
    layer = REGISTRY.get(key)
    form, W, y, found = made(layer, n=30)
    W = {name: 0.1 * block for name, block in W.items()}
    optimizer = OPTIMIZERS[rule]((0.01,), (decay,), 0.0 if rule == "gd" else 0.8)
    expected, slots = stepped_by_sample(form, W, y, optimizer)
    found = dataclasses.replace(found, square=found.square.to(dtype), target=found.target.to(dtype))
    state = {name: block.to(dtype).clone() for name, block in W.items()}
    own = optimizer.slots(state)
    assert are_small(found, optimizer, {name: tuple(block.shape) for name, block in state.items()}, torch.device("cpu"))
    step_in_blocks(small_steps, found, optimizer, state, own)
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    for name in W:
        torch.testing.assert_close(state[name].double(), expected[name], **tolerance)
        for slot in slots:
            torch.testing.assert_close(own[slot][name].double(), slots[slot][name], **tolerance)


def test_only_small_steps_of_one_replica_go_to_blas():
    layer = REGISTRY.get("two-layer-mlp", n_in=100, n_out=8, width=1000)
    _, W, _, found = made(layer, n=20)
    rule, device = OPTIMIZERS["gd"]((0.01,)), torch.device("cpu")
    shapes = {name: tuple(block.shape) for name, block in W.items()}
    assert not are_small(found, rule, shapes, device)
    narrow = {name: (1, *shape[1:-1], 20) for name, shape in shapes.items()}
    assert are_small(found, rule, narrow, device)
    assert not are_small(found, rule, {name: (2, *shape[1:]) for name, shape in narrow.items()}, device)
    assert not are_small(found, rule, narrow, torch.device("meta"))
    assert not are_small(found, OPTIMIZERS["adam"]((0.01,)), narrow, device)
    assert not are_small(found, rule, {**narrow, "inert": (1, 2, 20)}, device)


@pytest.mark.parametrize("rule", ["gd", "momentum", "nesterov"])
@pytest.mark.parametrize("way", [fused_steps, small_steps])
def test_where_blocks_end_changes_no_bit(way, rule):
    form, W, _ = perceptron()
    found = made(form.layer, n=20)[3]
    ends = []
    for blocks in ((12,), (5, 7), (1,) * 12):
        optimizer = OPTIMIZERS[rule]((0.01,), (0.0,), 0.0 if rule == "gd" else 0.8)
        state = {name: block.clone() for name, block in W.items()}
        slots = optimizer.slots(state)
        for length in blocks:
            step, finish = way(found, optimizer, state, slots)
            for count in range(length):
                step(count + 1)
            finish()
        ends.append(state)
    assert all(torch.equal(ends[0][name], other[name]) for other in ends[1:] for name in W)


def test_rules_and_forms_that_are_not_fused_say_so():
    form, W, _ = perceptron(replicas=2)
    found = made(form.layer, replicas=2, n=20)[3]
    adam = OPTIMIZERS["adam"]((0.01,))
    assert fused_steps(found, adam, W, adam.slots(W)) is None
    assert fused_steps(found, OPTIMIZERS["gd"]((0.01, 0.02)), W, {}) is None
    one_block = REGISTRY.get("phase-retrieval")
    _, W, _, found = made(one_block)
    assert fused_steps(found, OPTIMIZERS["gd"]((0.01,)), W, {}) is None
