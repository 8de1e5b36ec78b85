"""Theorem 3 against the layer itself: the space that the data span, and the neurons that stand for all."""

import dataclasses

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.dynamics.compression import compression
from nqf_registry.dynamics.order_parameters import declared
from nqf_registry.errors import InvalidInput

F64 = torch.float64


def perceptron(activation="tanh", width=200, rank=6):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=20, width=width, n_out=3, activation=activation)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(50, rank, generator=generator, dtype=F64) @ torch.randn(rank, 20, generator=generator, dtype=F64)
    return layer, {"x": x / 3}


def dense_span(layer, x):
    """The slow obvious way: all columns of all A, B and g side by side."""
    form = declared(nqf.quadratic_form(layer, x, F64))
    parts = [form.structure.dense(F64).movedim(-2, 0).flatten(1)]
    if form.cross is not None:
        parts.append(form.cross.dense(F64).movedim(-2, 0).flatten(1))
    for name, g in form.linear.items():
        where = list(layer.blocks()).index(name)
        sizes = [int(torch.Size(shape).numel()) for shape in layer.blocks().values()]
        rows = torch.zeros(sum(sizes), g.shape[0] * g.shape[1], dtype=F64)
        start = sum(sizes[:where])
        rows[start : start + sizes[where]] = g.flatten(2).flatten(0, 1).mT
        parts.append(rows)
    return torch.cat(parts, 1)


CASES = [(layer, layer.sample(4, torch.Generator().manual_seed(1))) for layer in nqf.default_registry().layers()]
CASES += [perceptron(), perceptron("sigmoid"), perceptron("gelu", rank=20)]


@pytest.mark.parametrize(("layer", "x"), CASES, ids=lambda value: getattr(value, "key", ""))
def test_the_basis_spans_every_column_and_no_more(layer, x):
    x = {name: t.double() if t.is_floating_point() else t for name, t in x.items()}
    columns, V = dense_span(layer, x), compression(layer, x).basis
    torch.testing.assert_close(V.mT @ V, torch.eye(V.shape[1], dtype=F64), rtol=0, atol=1e-12)
    torch.testing.assert_close(V @ (V.mT @ columns), columns, rtol=0, atol=1e-10 * float(columns.abs().max()))
    assert V.shape[1] == int(torch.linalg.matrix_rank(columns, rtol=1e-10))


@pytest.mark.parametrize(("activation", "extra"), [("tanh", 0), ("sigmoid", 1)])
def test_new_neurons_have_the_moments_that_the_theorem_asks_for(activation, extra):
    layer, x = perceptron(activation)
    found = compression(layer, x)
    k = found.basis.shape[1]
    assert found.width == k + extra and found.general is bool(extra)
    W = {
        n: torch.randn(2, *s, layer.width, generator=torch.Generator().manual_seed(2), dtype=F64)
        for n, s in layer.blocks().items()
    }
    S, small = (torch.cat(list(weights.values()), -2) for weights in (W, found.start(W)))
    V = found.basis
    P = V @ V.mT
    if not extra:
        torch.testing.assert_close(small @ small.mT, found.factor * P @ S @ S.mT @ P, rtol=1e-9, atol=1e-9)
    else:
        mu = S.sum(-1)
        torch.testing.assert_close(small.sum(-1), mu @ P, rtol=1e-10, atol=1e-10)
        spread = S @ S.mT - mu[:, :, None] * mu[:, None] / layer.width
        own = small @ small.mT - small.sum(-1)[:, :, None] * small.sum(-1)[:, None] / found.width
        torch.testing.assert_close(own, found.factor * P @ spread @ P, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_outputs_at_the_start_are_equal(activation):
    layer, x = perceptron(activation)
    found, form = compression(layer, x), declared(nqf.quadratic_form(layer, x, F64))
    W = {
        n: torch.randn(1, *s, layer.width, generator=torch.Generator().manual_seed(2), dtype=F64)
        for n, s in layer.blocks().items()
    }
    torch.testing.assert_close(found.form(form).evaluate(found.start(W)), form.evaluate(W), rtol=1e-10, atol=1e-10)


def test_a_layer_that_is_narrow_already_keeps_its_width():
    layer, x = perceptron(width=4)
    found = compression(layer, x)
    assert found.width == 4 and found.factor == 1.0


def test_rank_ten_in_single_precision_is_still_rank_ten():
    layer, x = perceptron(rank=10)
    assert compression(layer, {"x": x["x"].float()}).basis.shape[1] == 13
    assert compression(layer, {"x": x["x"].float()}, tolerance=1e-13).basis.shape[1] > 13


@pytest.mark.parametrize("tolerance", [0, 1, -1, 2.0])
def test_a_wrong_tolerance_is_refused(tolerance):
    layer, x = perceptron()
    with pytest.raises(InvalidInput, match="tolerance must lie between 0 and 1"):
        compression(layer, x, tolerance)


def test_data_must_be_data():
    layer, _ = perceptron()
    with pytest.raises(InvalidInput, match=r"takes a layer and the nqf\.Data"):
        nqf.Compressed(layer)


def test_a_width_in_the_structure_is_the_layer_s_own():
    """A of single-head attention has 1/√d: at the new width it would be another one."""
    layer = dataclasses.replace(nqf.default_registry().get("single-head-attention"), width=60)
    x = {n: t.double() if t.is_floating_point() else t for n, t in layer.sample(4, torch.Generator().manual_seed(0)).items()}
    found, form = compression(layer, x), declared(nqf.quadratic_form(layer, x, F64))
    W = {n: torch.randn(1, *s, 60, generator=torch.Generator().manual_seed(2), dtype=F64) for n, s in layer.blocks().items()}
    torch.testing.assert_close(found.form(form).evaluate(found.start(W)), form.evaluate(W), rtol=1e-10, atol=1e-10)
