"""The whole leading term: against nested Jacobians summed neuron by neuron, closed forms, and what autodiff misreads."""

from dataclasses import dataclass
from itertools import permutations, product
from math import factorial

import pytest
import torch
import torch.nn.functional as F

import nqf_registry as nqf
from nqf_registry.directional import fit
from nqf_registry.partitions import label, partitions, symmetry_factor


def make(key, forward, blocks, width=3):
    """A layer of three inputs."""
    body = {
        "__annotations__": {"width": int},
        "__module__": __name__,
        "width": width,
        "key": key,
        "blocks": lambda self: dict(blocks),
        "sample": lambda self, n, generator: {"x": torch.randn(n, 3, generator=generator)},
        "forward": lambda self, W, x: forward(W, x["x"]),
    }
    return dataclass(frozen=True)(type(key.title(), (nqf.Layer,), body))()


def inputs(layer, n=2, seed=0):
    return {"x": layer.sample(n, torch.Generator().manual_seed(seed))["x"].double()}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def reference(layer, x, order):
    """D^k f(0), (n, outputs, p, d, …, p, d), by k nested Jacobians."""
    nested = lambda stacked: layer(layer.unstack(stacked), x)  # noqa: E731
    for _ in range(order):
        nested = torch.func.jacfwd(nested)
    return nested(torch.zeros(layer.n_params, layer.width, dtype=torch.float64))


def tensor_of(derivative, partition):
    """T_λ read off D^k f(0): the first neuron c1 times, the second c2 times, …"""
    order = sum(partition)
    neurons = [neuron for neuron, count in enumerate(partition) for _ in range(count)]
    index = (slice(None), slice(None), *(item for neuron in neurons for item in (slice(None), neuron)))
    assert derivative.ndim == 2 + 2 * order
    return derivative[index] / symmetry_factor(partition)


def summed(tensors, W):
    """Σ_λ Σ over ordered tuples of distinct neurons of T_λ[w_{i1}^{⊗c1}, …], by explicit loops."""
    total = 0
    for partition, tensor in tensors.items():
        for neurons in permutations(range(W.shape[-1]), len(partition)):
            value = tensor
            for neuron, count in reversed(list(zip(neurons, partition, strict=True))):
                for _ in range(count):
                    value = value @ W[:, neuron]
            total = total + value
    return total


def swiglu(W, x):
    return (F.silu(x @ W["a"]) * (x @ W["b"])) @ W["v"].mT


SWIGLU = {"a": (3,), "b": (3,), "v": (2,)}


def mixed(W, x):
    """Cubic and quartic terms within one neuron and between several, and a linear part that is not there."""
    a, s = x @ W["u"], W["v"][0]
    first = a.sum(-1) ** 3 + (a**2 * s).sum(-1) + (a**2).sum(-1) * s.sum(-1)
    second = torch.sin(a.sum(-1)) * (s**2).sum() + (s**3 * torch.cos(a)).sum(-1)
    return torch.stack([first, second], -1) + 5


MIXED = {"u": (3,), "v": (1,)}


def test_partitions():
    assert list(partitions(4)) == [(4,), (3, 1), (2, 2), (2, 1, 1), (1, 1, 1, 1)]
    assert [len(list(partitions(k))) for k in range(1, 7)] == [1, 2, 3, 5, 7, 11]
    assert list(partitions(4, 1)) == [(4,)]
    assert label((2, 1)) == "2+1"


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
def test_the_convention_counts_every_derivative_once(order):
    """With every w_i = 1 the sum over ordered tuples and partitions is d^k / k!, as Σ_j D^k / k! is for D^k = 1."""
    d = 5
    total = sum(
        len(list(permutations(range(d), len(partition)))) / symmetry_factor(partition) for partition in partitions(order, d)
    )
    assert total == pytest.approx(d**order / factorial(order), rel=1e-12)


@pytest.mark.parametrize(
    ("forward", "blocks", "order"), [(swiglu, SWIGLU, 3), (mixed, MIXED, 3), (mixed, MIXED, 4), (mixed, MIXED, 5)]
)
def test_tensors_and_values_are_those_of_nested_jacobians(forward, blocks, order):
    layer = make("nested", forward, blocks, 2 if order == 5 else 3)
    x = inputs(layer)
    form = nqf.leading_form(layer, x, None if order == 3 else order)
    assert form.order == order and form.leading == (order == 3) and form.source == "autodiff" and form.error < 1e-6
    derivative = reference(layer, x, order)
    exact = {partition: tensor_of(derivative, partition) for partition in partitions(order, layer.width)}
    assert set(form.partitions) == {partition for partition, tensor in exact.items() if tensor.abs().max() > 1e-12}
    for partition in form.partitions:
        torch.testing.assert_close(form.tensors[partition], exact[partition], rtol=1e-10, atol=1e-12)
        torch.testing.assert_close(form.norms[partition], exact[partition].flatten(2).norm(dim=-1))
    W = normal(layer.n_params, layer.width)
    value = form.evaluate(W)
    torch.testing.assert_close(value, summed(exact, W), rtol=1e-10, atol=1e-10)
    flat = derivative
    for _ in range(order):
        flat = torch.einsum("no...ab,ab->no...", flat, W)
    torch.testing.assert_close(value, flat / factorial(order), rtol=1e-10, atol=1e-10)


def test_order_two_is_the_general_form():
    """T_(2) = Ā = ½ H_ii and T_(1,1) = B = ½ H_ij; order one is g."""
    layer = make(
        "general",
        lambda W, x: torch.exp(x @ W["u"]).sum(-1, keepdim=True) * (1 + x @ W["u"].sum(-1, keepdim=True)),
        {"u": (3,)},
    )
    x = inputs(layer)
    exact = nqf.expand(layer, x)
    second, first = nqf.leading_form(layer, x, order=2), nqf.leading_form(layer, x)
    torch.testing.assert_close(second.tensors[(2,)], exact.diagonal)
    torch.testing.assert_close(second.tensors[(1, 1)], exact.cross)
    assert first.order == 1
    torch.testing.assert_close(first.tensors[(1,)], exact.linear)
    W = normal(3, 3)
    whole = layer(1e-3 * W, x) - exact.offset - first.evaluate(1e-3 * W) - second.evaluate(1e-3 * W)
    assert float(whole.abs().max()) < 1e-6


def test_a_gated_unit_in_closed_form():
    """v·silu(a·x)(b·x) = ½ v (a·x)(b·x) + O(4): T_(3) is ½ of the symmetrised v ⊗ ax ⊗ bx, an entry of ½ x_i x_j / 6."""
    layer = make("swiglu", swiglu, SWIGLU)
    x = inputs(layer)
    form = nqf.leading_form(layer, x)
    assert form.order == 3 and form.partitions == ((3,),)
    exact = torch.zeros(2, 2, 8, 8, 8, dtype=torch.float64)
    for o, (i, j) in product(range(2), product(range(3), range(3))):
        for axes in permutations((i, 3 + j, 6 + o)):
            exact[(slice(None), o, *axes)] = x["x"][:, i] * x["x"][:, j] / 12
    torch.testing.assert_close(form.tensors[(3,)], exact)
    W = {name: normal(*shape, 3, seed=n) for n, (name, shape) in enumerate(SWIGLU.items())}
    closed = 0.5 * ((x["x"] @ W["a"]) * (x["x"] @ W["b"])) @ W["v"].mT
    torch.testing.assert_close(form.evaluate(W), closed)
    assert form.summary().startswith("leading order 3: partition (3), |T| = ")


def test_the_cube_of_a_sum_has_every_partition():
    """(Σ_i u_i·x)³: T_(3) = xxx, T_(2,1) = 3 xxx, T_(1,1,1) = xxx, and with two neurons no three are distinct."""
    cube = lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 3  # noqa: E731
    for width, expected in ((1, {(3,): 1}), (2, {(3,): 1, (2, 1): 3}), (3, {(3,): 1, (2, 1): 3, (1, 1, 1): 1})):
        layer = make("cube", cube, {"u": (3,)}, width)
        x = inputs(layer)
        form = nqf.leading_form(layer, x)
        assert set(form.partitions) == set(expected)
        outer = torch.einsum("na,nb,nc->nabc", x["x"], x["x"], x["x"])[:, None]
        for partition, factor in expected.items():
            torch.testing.assert_close(form.tensors[partition], factor * outer)


def test_zero_gradient_at_zero_kills_every_part_of_one():
    """Σ_{i≠j} (u_i·x)²(u_j·x)² and units (u_i·x)⁴ have (2,2) and (4) only, as Σ_i ∂/∂w_i at w_i = 0 demands."""
    forward = lambda W, x: ((x @ W["u"]) ** 2).sum(-1, keepdim=True) ** 2  # noqa: E731
    form = nqf.leading_form(layer := make("zgz", forward, {"u": (3,)}), inputs(layer))
    assert form.order == 4 and form.partitions == ((4,), (2, 2))
    outer = torch.einsum("na,nb,nc,nd->nabcd", *[inputs(layer)["x"]] * 4)[:, None]
    torch.testing.assert_close(form.tensors[(4,)], outer)
    torch.testing.assert_close(form.tensors[(2, 2)], outer)


@pytest.mark.parametrize("stacked", [True, False])
def test_weights_are_taken_in_every_form(stacked):
    layer = make("swiglu", swiglu, SWIGLU)
    form = nqf.leading_form(layer, inputs(layer))
    W = normal(4, layer.n_params, layer.width)
    given = W if stacked else layer.unstack(W)
    together = form.evaluate(given)
    assert together.shape == (4, 2, 2)
    for one, value in zip(W, together, strict=True):
        torch.testing.assert_close(form.evaluate(one), value)
    single = form.evaluate(W[0].float())
    assert single.dtype == torch.float32 and form.evaluate(0 * W).abs().max() == 0
    with pytest.raises(nqf.InvalidInput, match="p = 8"):
        form.evaluate(torch.zeros(7, 3))


def test_it_can_be_differentiated():
    layer = make("cube", lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 3, {"u": (3,)})
    x = inputs(layer, 1)
    W = normal(3, 3).requires_grad_()
    (gradient,) = torch.autograd.grad(nqf.leading_form(layer, x).evaluate(W).sum(), W)
    exact = 3 * (x["x"] @ W).sum() ** 2 * x["x"].mT.expand(3, 3)
    torch.testing.assert_close(gradient, exact)


def fourth_power_of_modulus(W, x):
    return (x @ W["u"]).abs() ** 4 @ W["v"].mT


def fourth_power_of_norm(W, x):
    return ((x[:, :, None] * W["u"]).norm(dim=1) ** 4).sum(-1, keepdim=True)


@pytest.mark.parametrize(
    ("misread", "plain", "blocks", "order"),
    [
        (fourth_power_of_modulus, lambda W, x: (x @ W["u"]) ** 4 @ W["v"].mT, {"u": (3,), "v": (1,)}, 5),
        (
            fourth_power_of_norm,
            lambda W, x: (((x[:, :, None] * W["u"]) ** 2).sum(1) ** 2).sum(-1, keepdim=True),
            {"u": (3,)},
            4,
        ),
    ],
)
def test_differences_are_taken_where_autodiff_does_not_follow_f(misread, plain, blocks, order):
    layer, right = make("misread", misread, blocks, 2), make("plain", plain, blocks, 2)
    x = inputs(layer)
    form, exact = nqf.leading_form(layer, x), nqf.leading_form(right, x)
    assert form.source == "differences" and exact.source == "autodiff"
    assert form.order == order and form.partitions == exact.partitions == ((order,),)
    torch.testing.assert_close(form.tensors[(order,)], exact.tensors[(order,)], rtol=1e-6, atol=1e-8)
    W = normal(layer.n_params, 2, seed=1)
    torch.testing.assert_close(form.evaluate(W), exact.evaluate(W), rtol=1e-7, atol=1e-8)


class Square(torch.autograd.Function):
    """A legacy function: no forward mode, no vmap."""

    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a**2

    @staticmethod
    def backward(ctx, cotangent):
        return 2 * ctx.saved_tensors[0] * cotangent


def test_a_layer_that_refuses_forward_mode_is_fitted():
    layer = make("legacy", lambda W, x: Square.apply(x @ W["u"]) @ W["v"].mT, {"u": (3,), "v": (1,)}, 2)
    plain = make("plain", lambda W, x: (x @ W["u"]) ** 2 @ W["v"].mT, {"u": (3,), "v": (1,)}, 2)
    form, exact = nqf.leading_form(layer, inputs(layer)), nqf.leading_form(plain, inputs(plain))
    assert form.source == "differences" and form.order == 3
    torch.testing.assert_close(form.tensors[(3,)], exact.tensors[(3,)], rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize(
    "forward",
    [
        lambda W, x: (x @ W["u"]).abs() ** 3 @ W["v"].mT,  # of order four and odd
        lambda W, x: ((x @ W["u"]) ** 4).amax(-1, keepdim=True) * W["v"].sum() ** 2,  # even, and no form
        lambda W, x: (x @ W["u"]).abs() ** 2.5 @ W["v"].mT,
    ],
)
def test_a_kink_has_no_leading_form(forward):
    layer = make("kinked", forward, {"u": (3,), "v": (1,)}, 2)
    with pytest.raises(nqf.InvalidInput, match=r"kink|fractional"):
        nqf.leading_form(layer, inputs(layer))


def test_what_cannot_be_asked_is_refused():
    constant = make("constant", lambda W, x: x[:, :1] + 0 * W["u"].sum(), {"u": (3,)})
    with pytest.raises(nqf.InvalidInput, match="constant"):
        nqf.leading_form(constant, inputs(constant))
    eighth = make("eighth", lambda W, x: (x @ W["u"]) ** 7 @ W["v"].mT, {"u": (3,), "v": (1,)})
    with pytest.raises(nqf.InvalidInput, match="leading order is 8"):
        nqf.leading_form(eighth, inputs(eighth))
    for order in (0, 7, 2.0, True):
        with pytest.raises(nqf.InvalidInput, match="from 1 to 6"):
            nqf.leading_form(constant, inputs(constant), order)
    assert nqf.leading_form(constant, inputs(constant), 2).partitions == ()


def test_a_tensor_over_the_budget_is_left_out_and_its_norm_estimated():
    """p = 300: 300³ entries by sample and output are over the budget; the norm of ½ sym(v ⊗ ax ⊗ bx) is ½ |x|² / √6."""
    blocks = {"a": (149,), "b": (149,), "v": (2,)}
    layer = make("large", lambda W, x: swiglu({**W, "a": W["a"][:3], "b": W["b"][:3]}, x), blocks, 4)
    x = inputs(layer)
    form = nqf.leading_form(layer, x)
    assert form.tensors[(3,)] is None and form.estimated == {(3,)} and "about" in form.summary()
    exact = 0.5 * (x["x"] ** 2).sum(-1) / 6**0.5
    assert torch.all((form.norms[(3,)] / exact[:, None] - 1).abs() < 0.5)
    W = layer.unstack(normal(300, 4))
    closed = 0.5 * ((x["x"] @ W["a"][:3]) * (x["x"] @ W["b"][:3])) @ W["v"].mT
    torch.testing.assert_close(form.evaluate(W), closed)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5, 6])
def test_a_fit_gives_the_taylor_coefficient_and_the_jump(order):
    """Σ_i exp(u_i·x) has the coefficient Σ_i (r_i·x)^k / k!; |t|^k / k! added to it jumps, unless k is even."""
    layer = make("exp", lambda W, x: torch.exp(x @ W["u"]).sum(-1, keepdim=True), {"u": (3,)})
    x, rays = inputs(layer), normal(2, 3, 3)
    seen = fit(layer, x, rays, order, 0.5)
    exact = ((torch.einsum("ni,rid->rnd", x["x"], rays) ** order).sum(-1, keepdim=True)) / factorial(order)
    # the fit is good to what rounding leaves of so high an order at so small a step
    size = seen.size.max()
    assert float((seen.value - exact).abs().max() / size) < 1e-8 and float(seen.jump.abs().max() / size) < 1e-7
    kinked = make("kinked", lambda W, x: ((x @ W["u"]).abs() ** order).sum(-1, keepdim=True), {"u": (3,)})
    jump = fit(kinked, x, rays, order, 0.5).jump
    exact = (torch.einsum("ni,rid->rnd", x["x"], rays).abs() ** order).sum(-1, keepdim=True)
    torch.testing.assert_close(jump, exact if order % 2 else 0 * exact, rtol=1e-6, atol=1e-6)
