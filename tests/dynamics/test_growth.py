from dataclasses import dataclass

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.dynamics.eigenpairs import top_eigenpairs
from nqf_registry.dynamics.growth import GrowthOperator
from nqf_registry.errors import InvalidInput
from nqf_registry.train.losses import LOSSES

REGISTRY = nqf.default_registry()


def dense(layer, data):
    """Y = (4/m) Σ (y − f(0)) A, formed."""
    x = {name: t.double() if t.is_floating_point() else t for name, t in data.x.items()}
    residual = data.y.double() - layer(layer.zeros(torch.float64), x)
    return 4 / data.n * layer.structure(x).weighted(residual)


def some(layer, n=40):
    generator = torch.Generator().manual_seed(4)
    return nqf.Data(layer.sample(n, generator), torch.randn(n, layer.n_outputs(), generator=generator))


@pytest.mark.parametrize("key", REGISTRY.keys())
def test_rates_are_the_eigenvalues_of_y(key):
    layer = REGISTRY.get(key)
    data = some(layer)
    k = min(3, layer.n_params)
    found, expected = nqf.growth_rates(layer, data, k), torch.linalg.eigvalsh(dense(layer, data)).flip(0)[:k]
    scale = float(torch.linalg.eigvalsh(dense(layer, data)).abs().max())
    np.testing.assert_allclose(found.rates, expected, atol=1e-9 * scale)
    for i in range(k):
        e = torch.cat([found.modes[name][i].reshape(-1) for name in layer.blocks()])
        assert float(e.norm()) == pytest.approx(1, rel=1e-9)
        torch.testing.assert_close(dense(layer, data) @ e, expected[i] * e, rtol=0, atol=1e-7 * scale)


def test_chunks_and_lanczos_change_nothing():
    layer = REGISTRY.get("two-layer-mlp", n_in=50, n_out=3)  # p = 53: by Lanczos
    data = some(layer, 90)
    whole, parts = nqf.growth_rates(layer, data, 3), nqf.growth_rates(layer, data, 3, chunk=17)
    expected = torch.linalg.eigvalsh(dense(layer, data)).flip(0)[:3]
    np.testing.assert_allclose(whole.rates, expected, rtol=1e-9)
    np.testing.assert_allclose(parts.rates, expected, rtol=1e-9)


def test_logistic_rates_are_those_of_a_short_training():
    """W grows as e^{λt}: measured on the loss that the trainer minimises."""
    layer = REGISTRY.get("two-layer-mlp", n_in=4, n_out=1)
    data = some(layer, 60)
    data = nqf.Data(data.x, data.y.sign())
    rate = float(nqf.growth_rates(layer, data, 1, LOSSES["logistic"].cotangent).rates[0])
    run = nqf.train(
        nqf.NQF(layer),
        data,
        loss="logistic",
        lr=1e-3 / rate,
        steps=2000,
        scale=1e-6,
        dtype="float64",
        verify=False,
        probes="top-mode",
    )
    z = run.data["top-mode"].values[0, 0]
    assert np.log(z[-1] / z[0]) == pytest.approx(2 * 2000 * 1e-3, rel=2e-3)


@dataclass(frozen=True)
class General(nqf.Layer):
    """f = a . mu + (mu . x)^2 + sum_i (w_i . b)^2: neither flat at zero nor a sum over neurons; B = x x^T, A = b b^T."""

    key = "test-general"
    claims = nqf.Claims(zgz=False)
    width: int = 3

    def blocks(self):
        return {"w": (3,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        mu = W["w"].sum(-1)
        b = x["x"].flip(-1) + 1
        return (x["x"].sum(-1) * mu[0] + (x["x"] @ mu) ** 2 + ((b @ W["w"]) ** 2).sum(-1))[:, None]


def test_without_zgz_the_matrix_of_the_dynamics_is_left():
    layer = General()
    data = some(layer)
    b = data.x["x"].double().flip(-1) + 1
    expected = 4 / data.n * torch.einsum("n,np,nq->pq", data.y[:, 0].double(), b, b)
    np.testing.assert_allclose(nqf.growth_rates(layer, data, 3).rates, torch.linalg.eigvalsh(expected).flip(0), atol=1e-8)


def test_a_chain_of_layers_has_no_rate():
    from nqf_registry.compose.spec import from_yaml

    text = """
inputs: {x: [3]}
nodes:
  a: {layer: two-layer-mlp, sizes: {n_in: 3, n_out: 2, width: 4}, from: {x: x}}
  b: {layer: two-layer-mlp, sizes: {n_in: 2, n_out: 1, width: 5}, from: {x: a}}
output: b
"""
    chain = from_yaml(text)
    data = nqf.Data(chain.sample(30, torch.Generator().manual_seed(0)), torch.ones(30, 1))
    assert nqf.growth_rates(chain, data).rates.tolist() == [0.0]


def test_no_coupling_no_growth():
    layer = REGISTRY.get("two-layer-mlp", n_in=60, n_out=1)
    data = some(layer)
    assert nqf.growth_rates(layer, nqf.Data(data.x, torch.zeros_like(data.y))).rates.tolist() == [0.0]


def test_the_order_parameter_is_the_projection_of_m():
    layer = REGISTRY.get("two-layer-mlp", n_in=4, n_out=2)
    growth = nqf.growth_rates(layer, some(layer), 2)
    W = {
        name: torch.stack([block, 2 * block])
        for name, block in layer.random(torch.Generator().manual_seed(0), dtype=torch.float64).items()
    }
    for mode in (0, 1):
        e = torch.cat([growth.modes[name][mode].reshape(-1) for name in layer.blocks()])
        S = layer.stack({name: block[0] for name, block in W.items()})
        z = float(e @ S @ S.mT @ e)
        assert growth.order_parameter(W, mode).tolist() == pytest.approx([z, 4 * z], rel=1e-12)


def test_weights_without_replicas_have_one_order_parameter():
    layer = REGISTRY.get("two-layer-mlp", n_in=4, n_out=2)
    growth = nqf.growth_rates(layer, some(layer), 2)
    W = layer.random(torch.Generator().manual_seed(0), dtype=torch.float64)
    alone, among = growth.order_parameter(W), growth.order_parameter({name: block[None] for name, block in W.items()})
    assert alone.shape == () and float(alone) == pytest.approx(float(among[0]), rel=1e-12)
    for wrong, message in (
        ({"u": W["u"]}, "the weights have u"),
        ({**W, "v": W["v"][:1]}, "block 'v' must be"),
        ({**W, "v": W["v"][None]}, "some blocks have a leading replica axis"),
    ):
        with pytest.raises(InvalidInput, match=message):
            growth.order_parameter(wrong)
    with pytest.raises(InvalidInput, match="mode must be one of the 2 modes"):
        growth.order_parameter(W, 2)


def test_the_operator_is_symmetric():
    layer = REGISTRY.get("multi-head-attention")
    data = some(layer)
    operator = GrowthOperator(layer, data.x, data.y)
    u, v = np.random.default_rng(0).standard_normal((2, operator.size))
    assert u @ operator.matvec(v) == pytest.approx(v @ operator.matvec(u), rel=1e-9)


def test_eigenpairs_against_dense():
    matrix = np.random.default_rng(1).standard_normal((80, 80))
    matrix = matrix + matrix.T
    values, vectors = top_eigenpairs(lambda v: matrix @ v, 80, 4)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1][:4], rtol=1e-10)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-9)


@pytest.mark.parametrize("seed", range(12))
def test_every_copy_of_a_repeated_eigenvalue_is_found(seed):
    """Spectra with multiplicities of every kind, against what they were made of."""
    random = np.random.default_rng(seed)
    size = int(random.integers(150, 300))
    spectra = [
        np.repeat(random.standard_normal(size), random.integers(1, 12, size))[:size],
        np.concatenate([np.full(9, 2.0), np.full(7, 2 - 1e-4), -random.random(size - 16)]),
        np.concatenate([np.ones(5), np.zeros(size - 5)]),  # low rank
        -np.repeat(random.random(size), 8)[:size] - 1,  # nothing grows
    ]
    values = spectra[seed % 4]
    q = np.linalg.qr(random.standard_normal((size, size)))[0]
    matrix = q * values @ q.T
    for k in (2, 8, 14):
        found, vectors = top_eigenpairs(lambda v: matrix @ v, size, k)
        np.testing.assert_allclose(found, np.sort(values)[::-1][:k], atol=1e-9)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=1e-8)
        np.testing.assert_allclose(matrix @ vectors, vectors * found, atol=1e-7)


@pytest.mark.parametrize(
    ("key", "sizes"),
    [
        ("multi-head-attention", {"dim": 6, "d_v": 8, "d_k": 3, "n_out": 2, "width": 3}),
        ("multi-head-attention", {"dim": 9, "d_v": 10, "d_k": 4, "n_out": 1, "width": 2}),
        ("query-key-attention", {"dim": 12, "d_k": 5, "n_out": 1}),
    ],
)
def test_the_multiplicities_of_attention_are_all_there(key, sizes):
    layer = REGISTRY.get(key, **sizes)
    data = some(layer, 60)
    data = nqf.Data(data.x, data.y.sign())
    expected = torch.linalg.eigvalsh(dense(layer, data)).flip(0)
    for k in (2, 5, 8):
        np.testing.assert_allclose(
            nqf.growth_rates(layer, data, k).rates, expected[:k], atol=1e-9 * float(expected.abs().max())
        )


def test_half_saturation_is_the_first_record_at_half():
    z = np.array([[0.0, 0.2, 0.6, 1.0], [1e-3, 1e-3, 1e-3, 1.0]])
    assert nqf.half_saturation(z).tolist() == [2, 3]
    assert nqf.half_saturation(z, [4.0, 0.001]).tolist() == [-1, 0]


@pytest.mark.parametrize("k", [0, -1, 1.5])
def test_a_number_of_modes_is_asked_for(k):
    layer = REGISTRY.get("two-layer-mlp")
    with pytest.raises(InvalidInput, match="k must be a positive number"):
        nqf.growth_rates(layer, some(layer), k)
