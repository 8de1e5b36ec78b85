"""Distinct growth rates with multiplicities: equal to the dense spectrum of Y, also where an identity is factored out."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry.dynamics.growth import GrowthOperator
from nqf_registry.dynamics.spectrum import growth_spectrum
from nqf_registry.errors import InvalidInput

KEYS = (
    "multi-head-attention",
    "two-layer-mlp",
    "quadratic-network",
    "phase-retrieval",
    "single-layer-cnn",
    "query-key-attention",
)


def data_of(layer, seed, n=6):
    generator = torch.Generator().manual_seed(seed)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(n, generator).items()}
    return nqf.Data(x, torch.randn(n, layer.n_outputs(), generator=generator, dtype=torch.float64))


def dense_spectrum(layer, data):
    """Every eigenvalue of Y, from its matrix."""
    operator = GrowthOperator(layer, data.x, data.y)
    matrix = np.stack([operator.matvec(e) for e in np.eye(operator.size)], 1)
    assert np.abs(matrix - matrix.T).max() <= 1e-10 * np.abs(matrix).max()
    return np.linalg.eigvalsh(matrix)[::-1]


@pytest.mark.parametrize("key", KEYS)
@given(seed=st.integers(0, 99))
def test_every_positive_eigenvalue_is_there_as_often_as_it_occurs(key, seed):
    layer = nqf.default_registry().get(key)
    data = data_of(layer, seed)
    values = dense_spectrum(layer, data)
    found = growth_spectrum(layer, data, count=63)
    assert found.complete
    expanded = np.repeat(found.rates, found.multiplicities)
    positive = values[values > 1e-9 * np.abs(values).max()]
    assert len(expanded) == len(positive)
    np.testing.assert_allclose(expanded, positive, rtol=1e-7, atol=1e-8 * np.abs(values).max())


def test_the_identity_of_attention_is_found_and_its_rates_are_counted_d_v_times():
    layer = nqf.default_registry().get("multi-head-attention", dim=3, d_v=4, n_out=2, width=2)
    found = growth_spectrum(layer, data_of(layer, 0), count=1)
    assert found.identity == 4 and found.axes == {"V": 0, "v": 0}
    assert found.multiplicities == (4,) and not found.complete
    assert found.inert == ("K", "Q") and found.couplings == ("V-v",)
    assert str(found).endswith("(×4), …")


def test_nothing_grows_where_the_targets_are_what_zero_weights_give():
    layer = nqf.default_registry().get("two-layer-mlp")
    data = data_of(layer, 0)
    found = growth_spectrum(layer, nqf.Data(data.x, torch.zeros_like(data.y)))
    assert found.rates == () and found.complete and str(found) == "no mode grows"


@pytest.mark.parametrize("count", [0, -1, True, 1.5, 64, "8"])
def test_a_count_that_is_none_is_refused(count):
    layer = nqf.default_registry().get("two-layer-mlp")
    with pytest.raises(InvalidInput, match="how many distinct rates"):
        growth_spectrum(layer, data_of(layer, 0), count=count)


def test_several_vectors_are_mapped_at_once():
    module = torch.nn.Sequential(torch.nn.Linear(4, 7), torch.nn.Sigmoid(), torch.nn.Linear(7, 2, bias=False))
    module_layer = nqf.from_module(module, torch.randn(3, 4))
    for layer in (
        module_layer,
        nqf.default_registry().get("two-layer-mlp", width=9),
        nqf.default_registry().get("linear-ssl", width=1),
    ):
        data = data_of(layer, 3)
        operator = GrowthOperator(layer, data.x, data.y)
        vectors = np.random.default_rng(0).standard_normal((operator.size, 8))
        single = np.stack([operator.matvec(v) for v in vectors.T], 1)
        np.testing.assert_allclose(operator.matmat(vectors), single, rtol=1e-10, atol=1e-12 * np.abs(single).max())


def test_the_matrix_of_a_factor_and_lanczos_agree(monkeypatch):
    from nqf_registry.dynamics import spectrum

    layer = nqf.default_registry().get("multi-head-attention", dim=20, d_v=3, n_out=2, width=5)
    data = data_of(layer, 1, 12)
    formed = growth_spectrum(layer, data)
    monkeypatch.setattr(spectrum, "DENSE", 0)
    searched = growth_spectrum(layer, data)
    assert formed.identity == 3 and formed.multiplicities == searched.multiplicities
    np.testing.assert_allclose(formed.rates, searched.rates, rtol=1e-9)
