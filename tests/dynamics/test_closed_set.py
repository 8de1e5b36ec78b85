"""Which order parameters a quadratic form needs, read off its couplings."""

from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.dynamics.closed_set import components, count
from nqf_registry.dynamics.order_parameters import closed_set, declared, reduce
from nqf_registry.dynamics.rotation import rotated

F64 = torch.float64
x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
ones = torch.ones(5, dtype=F64)


def closed(structure, blocks, general=False, linear=()):
    return components([structure.bind(blocks)], dict.fromkeys(linear), blocks, general)


def test_blocks_that_nothing_reaches_are_inert():
    [part], inert = closed(nqf.quadratic("i,ni,o->no", "u", x, "v"), {"k": (4,), "u": (3,), "v": (2,)})
    assert part.blocks == ("u", "v") and inert == ("k",)
    assert count([part], {"k": (4,), "u": (3,), "v": (2,)}) == 25


def test_a_kronecker_identity_is_folded():
    [part], _ = closed(nqf.quadratic("ad,nd,ao->no", "V", x, "v"), {"V": (4, 3), "v": (4, 2)})
    assert part.folded == {"V": (0,), "v": (0,)} and part.batched == {"V": (), "v": ()}
    assert count([part], {"V": (4, 3), "v": (4, 2)}) == 25  # (D + o)², not (d_v (D + o))²


def test_an_axis_whose_letter_a_coefficient_carries_is_batched():
    [part], _ = closed(nqf.quadratic("k,nk,k->n", "u", x, "v"), {"u": (3,), "v": (3,)})
    assert part.batched == {"u": (0,), "v": (0,)} and part.folded == {"u": (), "v": ()}
    assert count([part], {"u": (3,), "v": (3,)}) == 3 * 4


def test_what_one_term_repeats_and_another_does_not_is_neither():
    repeats = nqf.quadratic("ad,nd,a->n", "V", x, "v")
    other = nqf.quadratic("a,n,b->n", "v", ones, "v")
    [part], _ = closed(repeats + other, {"V": (4, 3), "v": (4,)})
    assert part.folded == part.batched == {"V": (), "v": ()}


def test_a_transposed_repetition_within_one_block_is_neither():
    [part], _ = closed(nqf.quadratic("ab,n,ba->n", "S", ones, "S"), {"S": (3, 3)})
    assert part.folded == part.batched == {"S": ()}


def test_parts_that_no_coupling_links_are_apart():
    both = nqf.quadratic("i,ni,o->no", "a", x, "b") + nqf.quadratic("i,ni,o->no", "c", x, "d")
    parts, _ = closed(both, {"a": (3,), "c": (3,), "b": (2,), "d": (2,)})
    assert [part.blocks for part in parts] == [("a", "b"), ("c", "d")]


def test_with_a_mean_nothing_is_folded():
    [part], _ = closed(nqf.quadratic("ad,nd,ao->no", "V", x, "v"), {"V": (4, 3), "v": (4, 2)}, general=True)
    assert part.folded == {"V": (), "v": ()}


def test_an_explicit_matrix_couples_everything():
    [part], inert = closed(nqf.dense(torch.eye(5, dtype=F64).expand(5, 5, 5)), {"u": (3,), "v": (2,)})
    assert part.blocks == ("u", "v") and inert == ()


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("d", [1, 2, 5, 6, 7, 40])
def test_rotated_weights_have_the_same_order_parameters(d, mean):
    S = torch.randn(2, 3, 5, d, generator=torch.Generator().manual_seed(d), dtype=F64)
    Z = rotated(S, mean)
    assert Z.shape == (2, 3, 5, min(d, 5 + mean))
    torch.testing.assert_close(Z @ Z.mT, S @ S.mT, rtol=1e-12, atol=1e-13)
    if mean:
        torch.testing.assert_close(d**0.5 * Z[..., 0], S.sum(-1), rtol=1e-12, atol=1e-13)


def test_rotation_keeps_what_is_tiny():
    """Through M = W Wᵀ a row of size 1e-12 beside one of size 1 would lose half its digits."""
    S = torch.randn(1, 2, 50, generator=torch.Generator().manual_seed(0), dtype=F64)
    S[:, 1] *= 1e-12
    Z = rotated(S, False)
    torch.testing.assert_close(Z[0, 1] @ Z[0, 1], S[0, 1] @ S[0, 1], rtol=1e-14, atol=0)


@dataclass(frozen=True)
class Undeclared(nqf.Layer):
    """f = (Σ_i x·u_i)² + Σ (tanh(u_i·x) + 0.3) v_i: everything that a general form has, and nothing declared."""

    key = "test-undeclared"
    claims = nqf.Claims(zgz=False)
    width: int = 30

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        h = x["x"] @ W["u"]
        return (torch.tanh(h) + 0.3) @ W["v"].mT + h.sum(-1, keepdim=True) ** 2


@dataclass(frozen=True)
class Coupled(Undeclared):
    """The same, declared."""

    key = "test-coupled"

    def structure(self, x):
        x, one = x["x"], torch.ones(2, dtype=x["x"].dtype)
        return nqf.quadratic("i,ni,o->no", "u", x, "v") + nqf.quadratic("i,ni,nj,o,j->no", "u", x, x, one, "u")

    def linear(self, x):
        return {"v": 0.3 * torch.eye(2, dtype=x["x"].dtype).expand(len(x["x"]), 2, 2)}

    def cross(self, x):
        return nqf.quadratic("i,ni,nj,o,j->no", "u", x["x"], x["x"], torch.ones(2, dtype=x["x"].dtype), "u")


def forms(layer, n=6, replicas=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(n, generator).items()}
    form = declared(nqf.quadratic_form(layer, inputs, F64))
    shapes = layer.blocks().items()
    W = {name: torch.randn(replicas, *shape, layer.width, generator=generator, dtype=F64) for name, shape in shapes}
    return form, closed_set(form), W


LAYERS = [layer.resized(40) for layer in nqf.default_registry().layers()] + [Coupled(), Undeclared()]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.key)
def test_the_reduced_form_and_its_gradient_are_those_of_the_form(layer):
    form, chosen, W = forms(layer)
    small, Z = reduce(form, chosen), chosen.start(W)
    value = form.evaluate(W)
    torch.testing.assert_close(small.evaluate(Z), value, rtol=1e-11, atol=1e-11)
    cotangent = torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=F64)
    after = {name: block - 0.1 * form.pullback(W, cotangent)[name] for name, block in W.items()}
    reduced_after = {name: block - 0.1 * small.pullback(Z, cotangent)[name] for name, block in Z.items()}
    expected, found = chosen.moments(chosen.start(after)), chosen.moments(reduced_after)
    for blocks in expected:
        torch.testing.assert_close(found[blocks], expected[blocks], rtol=1e-9, atol=1e-9)


def test_the_general_form_of_a_layer_that_declares_nothing_is_the_declared_one():
    declared_form, chosen, W = forms(Coupled())
    derived, other, _ = forms(Undeclared())
    assert chosen.general and other.general
    torch.testing.assert_close(
        reduce(derived, other).evaluate(other.start(W)), declared_form.evaluate(W), rtol=1e-11, atol=1e-11
    )


def test_attention_keeps_what_it_needs():
    _, chosen, W = forms(nqf.default_registry().get("multi-head-attention", width=50, d_v=6))
    assert chosen.inert == ("K", "Q")
    assert {name: tuple(block.shape) for name, block in chosen.start(W).items()} == {"V": (2, 4, 6), "v": (2, 2, 6)}


def test_the_order_parameters_of_a_million_neurons():
    layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=1, width=10**6)
    model = nqf.OrderParameters(layer)
    state = model.init([0], 1e-3)
    assert state["u"].shape == (1, 3, 4)
    M = model.moments(state)[("u", "v")][0, 0]
    torch.testing.assert_close(M.diagonal(), torch.ones(4), rtol=0.01, atol=0)


def test_a_composition_is_refused_with_the_reason():
    layer = nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=3)
    graph = nqf.Graph("two").input("x", 3).layer("first", layer, "x").layer("second", layer, "first").output("second")
    with pytest.raises(nqf.InvalidInput, match="order-parameters takes one layer; two is a composition"):
        nqf.OrderParameters(graph)
