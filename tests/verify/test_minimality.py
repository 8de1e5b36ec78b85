"""Neurons that are stacks of smaller units, however these lie in their blocks, and neurons that are not."""

import importlib

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.residuals.minimality import minimality
from nqf_registry.verify.splits import counts, primes, splits


def tanh_units(x, u, v):
    """Σ v tanh(u·x) over the last axes: u (n_in, …), v (…)."""
    return (torch.tanh(torch.tensordot(x, u, ([1], [0]))) * v).flatten(1).sum(1, keepdim=True)


def stacked(W, x):  # u: (heads, n_in), v: (heads,)
    return tanh_units(x, W["u"].movedim(1, 0), W["v"])


def side_by_side(W, x):
    return tanh_units(x, W["u1"], W["v1"][0]) + tanh_units(x, W["u2"], W["v2"][0])


def three_copies(W, x):
    return sum(tanh_units(x, W[f"u{i}"], W[f"v{i}"][0]) for i in (1, 2, 3))


def both_ways(W, x):  # the incoming weights are two blocks, the outgoing ones the axis of one
    return tanh_units(x, W["u1"], W["v"][0]) + tanh_units(x, W["u2"], W["v"][1])


def flat_in_turn(W, x):  # u: (2 n_in,), one entry of each unit after another
    return tanh_units(x, W["u"].unflatten(0, (3, 2)), W["v"])


def packed(W, x):  # like a packed projection: first all rows a of two heads, then all rows b
    rows = W["ab"].unflatten(0, (2, 2, 1))  # (a or b, head, row, n_in, d)
    a, b = torch.einsum("ni,khrid->knhrd", x, rows)
    return (torch.sin(a * b) * W["v"][:, None]).flatten(1).sum(1, keepdim=True)


def one_flat_block(W, x):  # u1, u2, v1, v2 in one block
    u, v = W["w"][:6].unflatten(0, (2, 3)), W["w"][6:]
    return tanh_units(x, u.movedim(1, 0), v)


def six_heads(W, x):
    return stacked(W, x)


SPLIT = {  # forward, blocks, parts, unit
    "stacked": (stacked, {"u": (2, 3), "v": (2,)}, 2, {"u": (3,), "v": (1,)}),
    "side-by-side": (side_by_side, {"u1": (3,), "v1": (1,), "u2": (3,), "v2": (1,)}, 2, {"u": (3,), "v": (1,)}),
    "sorted": (side_by_side, {"u1": (3,), "u2": (3,), "v1": (1,), "v2": (1,)}, 2, {"u": (3,), "v": (1,)}),
    "crossed": (side_by_side, {"u1": (3,), "u2": (3,), "v2": (1,), "v1": (1,)}, 2, {"u": (3,), "v": (1,)}),
    "three": (three_copies, {f"{n}{i}": (k,) for n, k in (("u", 3), ("v", 1)) for i in (1, 2, 3)}, 3, {"u": (3,), "v": (1,)}),
    "both-ways": (both_ways, {"u1": (3,), "u2": (3,), "v": (2,)}, 2, {"u": (3,), "v": (1,)}),
    "the-other-way": (both_ways, {"u2": (3,), "u1": (3,), "v": (2,)}, 2, {"u": (3,), "v": (1,)}),
    "in-turn": (flat_in_turn, {"u": (6,), "v": (2,)}, 2, {"u": (3,), "v": (1,)}),
    "packed": (packed, {"ab": (4, 3), "v": (2,)}, 2, {"ab": (2, 3), "v": (1,)}),
    "one-flat-block": (one_flat_block, {"w": (8,)}, 2, {"w": (4,)}),
    "six-heads": (six_heads, {"u": (6, 3), "v": (6,)}, 6, {"u": (3,), "v": (1,)}),
    "four-heads": (six_heads, {"u": (4, 3), "v": (4,)}, 4, {"u": (3,), "v": (1,)}),
}  # fmt: skip


def seen(at, normal, seed=0):
    return minimality(at, normal(at, at.scale, seed), normal(at, at.scale, seed + 1))


@pytest.mark.parametrize("name", SPLIT)
def test_a_stack_of_units_is_found_and_its_declaration_given(layer, setting, normal, name):
    forward, blocks, parts, unit = SPLIT[name]
    found = seen(setting(layer(name, forward=forward, blocks=blocks)), normal)
    assert found.change <= 1e-12 and found.split.parts == parts and found.split.unit == unit, found
    members = found.split.members
    assert members.shape[0] == parts and members.unique().numel() == members.numel()


@pytest.mark.parametrize("name", ["side-by-side", "both-ways", "three"])
def test_what_the_message_says_to_declare_is_minimal(layer, name):
    forward, blocks, parts, unit = SPLIT[name]
    report = nqf.verify(layer(name, forward=forward, blocks=blocks, width=3))
    check = report["minimality"]
    assert check.status == "fail" and [c.name for c in report.failures] == ["minimality"], str(report)
    assert check.details["unit"] == unit and check.details["parts"] == parts
    assert f"blocks: dict(u=(3,), v=(1,)), width {parts}·d" in check.message

    def declared(W, x):
        return tanh_units(x, W["u"], W["v"][0])

    assert nqf.verify(layer("declared", forward=declared, blocks=check.details["unit"], width=parts * 3)).passed


def product(W, x):
    return ((x @ W["a"]) * (x @ W["b"])).sum(-1, keepdim=True)


def product_of_rows(W, x):
    return torch.einsum("ni,hid->nhd", x, W["u"]).prod(1).sum(-1, keepdim=True)


def two_kinds(W, x):
    return (torch.tanh(x @ W["a"]) ** 2 + torch.sin(x @ W["b"])).sum(-1, keepdim=True)


def gated(W, x):  # the gate of a neuron goes with its two units, which can be exchanged inside it only
    inner = torch.tanh(torch.einsum("ni,hid->nhd", x, W["u"])) * W["v"]
    return (W["g"][0] * inner.sum(1)).sum(-1, keepdim=True)


def nearly(W, x):
    return tanh_units(x, W["u1"], W["v1"][0]) + 1.0001 * tanh_units(x, W["u2"], W["v2"][0])


def query_and_key(W, x):
    return torch.sigmoid(torch.einsum("ni,hid,hjd,nj->nd", x, W["Q"], W["K"], x)).sum(-1, keepdim=True)


INSIDE = {
    "product": (product, {"a": (3,), "b": (3,)}, True),
    "product-of-rows": (product_of_rows, {"u": (2, 3)}, True),
    "gated": (gated, {"u": (2, 3), "v": (2,), "g": (1,)}, True),
    "query-and-key": (query_and_key, {"Q": (2, 3), "K": (2, 3)}, True),
    "two-kinds": (two_kinds, {"a": (3,), "b": (3,)}, False),
    "nearly": (nearly, {"u1": (3,), "v1": (1,), "u2": (3,), "v2": (1,)}, False),
}


@pytest.mark.parametrize("name", INSIDE)
def test_what_is_symmetric_inside_a_neuron_only_is_minimal(layer, setting, normal, name):
    forward, blocks, inside = INSIDE[name]
    found = seen(setting(layer(name, forward=forward, blocks=blocks)), normal)
    assert found.change > 1e-6 and found.nested is None
    assert (found.inside is not None) == inside, found


def test_units_beside_something_else_are_noted_and_no_failure(layer):
    """Two tanh units and one of another kind: no single width fits both, so the neuron is not wrong."""

    def forward(W, x):
        return side_by_side(W, x) + ((x @ W["c"]) ** 2).sum(-1, keepdim=True)

    blocks = {"u1": (3,), "v1": (1,), "u2": (3,), "v2": (1,), "c": (3,)}
    report = nqf.verify(layer("beside", forward=forward, blocks=blocks))
    assert report["minimality"].status == "pass", str(report)
    assert any("c in no part" in note and "width 2·d" in note for note in report.notes)


def test_what_f_does_not_depend_on_hides_no_units(layer):
    """With a block that does nothing the parts are still all there is."""

    def forward(W, x):
        return side_by_side(W, x) + 0 * W["c"].sum()

    report = nqf.verify(layer("inert", forward=forward, blocks={"u1": (3,), "v1": (1,), "u2": (3,), "v2": (1,), "c": (3,)}))
    assert report["minimality"].status == "fail" and "c in no part" in report["minimality"].message


def test_an_exchange_of_what_does_nothing_says_nothing(layer, setting, normal):
    at = setting(
        layer("one-entry", forward=lambda W, x: W["u"][0] * W["v"][0] * x[:, :1], blocks={"u": (4,), "v": (2,)}, width=2)
    )
    assert seen(at, normal).change == float("inf")


def test_the_cap_is_told_with_its_figure(layer, monkeypatch):
    monkeypatch.setattr(importlib.import_module("nqf_registry.verify.residuals.minimality"), "MOST", 8)
    blocks = {name: (4, 4) for name in "abcd"}

    def forward(W, x):
        total = sum((i + 1) * torch.tensordot(x, W[name][:3], ([1], [0])).tanh() for i, name in enumerate("abcd"))
        return (torch.arange(1, 5.0)[:, None] * total).flatten(1).sum(1, keepdim=True)

    report = nqf.verify(layer("many", forward=forward, blocks=blocks))
    assert any("8 ways to cut a neuron of p = 64 were tried" in note for note in report.notes), str(report)


def test_ways_to_cut_come_in_order_and_once():
    blocks = {"K": (4, 6), "v": (4,)}
    found = [str(split) for split in splits(blocks, 2)]
    assert found[0] == "2 parts: K along axis 0, v along axis 0"
    assert len(found) == len(set(found)) == 4 * 2  # axis 0: blocks or in turn; axis 1: the same; v: the same two
    shared = {"a": (2,), "b": (2,), "c": (2,), "d": (2,)}
    found = [str(split) for split in splits(shared, 2)]
    assert found[0] == "2 parts: a along axis 0, b along axis 0, c along axis 0, d along axis 0" or "|" in found[0]
    assert len(found) == len(set(found)) == 1 + 6 * 2 + 3 * 2  # all cut; one pair shared out, in two senses; two pairs likewise
    assert all(split.members.unique().numel() == 8 for split in splits(shared, 2))
    partial = [str(split) for split in splits({"u": (3,), "v": (2,)}, 2, whole=False)]
    assert partial == ["2 parts: v along axis 0; u in no part"]


def test_the_numbers_of_parts_that_can_be():
    assert primes({"u": (22, 3), "v": (22,)}) == [2, 3, 11]
    assert primes({"u1": (5,), "u2": (5,)}) == [2, 5]
    assert primes({"u": (3,), "v": ()}) == [3] and primes({"u": (1,)}) == []
    assert counts({"u": (12, 5)}, 2) == [12, 6, 4]
