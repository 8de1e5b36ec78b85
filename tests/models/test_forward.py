"""The fast forward of every model against a slow, obvious one: loops over samples and neurons, straight from the formula."""

import math

import pytest
import torch

import nqf_registry as nqf

SLOW = {}


def reference(key, **sizes):
    """Registers one slow forward, f(layer, w, x): w(i) gives the blocks of neuron i, x is one sample."""

    def keep(function):
        SLOW.setdefault(key, []).append((sizes, function))
        return function

    return keep


def neurons(W):
    width = next(iter(W.values())).shape[-1]
    return [{name: block[..., i] for name, block in W.items()} for i in range(width)]


@reference("psd-matrix-sensing")
def psd(layer, ws, x):
    factor = torch.stack([w["w"] for w in ws], 1)
    return torch.trace(x["S"].T @ factor @ factor.T)


@reference("rectangular-matrix-sensing")
def rectangular(layer, ws, x):
    U, V = (torch.stack([w[name] for w in ws], 1) for name in "uv")
    return torch.trace(U.T @ x["S"] @ V)


@reference("matrix-completion")
def completion(layer, ws, x):
    U, V = (torch.stack([w[name] for w in ws], 1) for name in "uv")
    return (U @ V.T)[x["i"], x["j"]]


@reference("word-context-embedding")
def embedding(layer, ws, x):
    return sum(w["u"][x["word"]] * w["v"][x["context"]] for w in ws)


@reference("quadratic-network")
def quadratic(layer, ws, x):
    return sum(torch.dot(w["w"], x["x"]) ** 2 for w in ws)


@reference("phase-retrieval")
def phase(layer, ws, x):
    return sum(x["a"] @ torch.outer(w["w"], w["w"]) @ x["a"] for w in ws)


@reference("diagonal-linear-square")
def square(layer, ws, x):
    return sum(x["x"][k] * ws[0]["u"][k] ** 2 for k in range(layer.n_in)) / 4


@reference("diagonal-linear-two-factor")
def factors(layer, ws, x):
    return ws[0]["u"] @ torch.diag(x["x"]) @ ws[0]["v"]


@reference("two-layer-mlp")
@reference("two-layer-mlp", activation="gelu", n_out=3)
@reference("two-layer-mlp", activation="sigmoid", n_out=1)
def mlp(layer, ws, x):
    return sum(w["v"] * nqf.activation(layer.activation)(torch.dot(w["u"], x["x"])) for w in ws)


@reference("single-layer-cnn")
@reference("single-layer-cnn", stride=2, activation="silu")
@reference("single-layer-cnn", rows=7, columns=6, kernel_rows=3, kernel_columns=3, stride=3, channels=1)
@reference("single-layer-cnn", kernel_rows=5, kernel_columns=6, n_out=3)
@reference("single-layer-cnn", kernel_rows=1, kernel_columns=1)
def cnn(layer, ws, x):
    total, phi = 0.0, nqf.activation(layer.activation)
    for w in ws:
        for top in range(0, layer.rows - layer.kernel_rows + 1, layer.stride):
            for left in range(0, layer.columns - layer.kernel_columns + 1, layer.stride):
                patch = x["x"][:, top : top + layer.kernel_rows, left : left + layer.kernel_columns]
                total = total + w["v"] * phi((w["k"] * patch).sum())
    return total


@reference("mixture-of-experts")
@reference("mixture-of-experts", gate="sigmoid")
@reference("mixture-of-experts", expert="affine", expert_activation="tanh")
@reference("mixture-of-experts", expert="quadratic", expert_activation="gelu", gate="silu", n_out=3)
def experts(layer, ws, x):
    extra = {"linear": x["x"][:0], "affine": x["x"].new_ones(1), "quadratic": x["x"] * x["x"]}[layer.expert]
    seen = torch.cat([x["x"], extra])
    psi, phi = nqf.activation(layer.gate), nqf.activation(layer.expert_activation)
    return sum(psi(torch.dot(w["r"], x["x"])) * phi(w["Theta"].T @ seen) for w in ws)


def attention(logits, X):
    weights = torch.exp(logits - logits.max())
    return X.T @ (weights / weights.sum())


@reference("multi-head-attention")
@reference("multi-head-attention", dim=3, tokens=1, d_k=4, d_v=5, n_out=1, width=2)
def heads(layer, ws, x):
    X = x["X"]
    return sum(w["v"].T @ w["V"] @ attention(X @ w["K"].T @ w["Q"] @ x["x"] / math.sqrt(layer.d_k), X) for w in ws)


@reference("query-key-attention")
@reference("query-key-attention", n_out=3, d_k=1, width=5, readout_seed=7)
def query_key(layer, ws, x):
    X = x["X"]
    return sum(layer.readout(X).T @ attention(X @ w["K"].T @ w["Q"] @ x["x"] / math.sqrt(layer.d_k), X) for w in ws)


@reference("single-head-attention")
@reference("single-head-attention", n_out=1, width=3)
def single_head(layer, ws, x):
    X, W_Q, W_K = x["X"], torch.stack([w["q"] for w in ws]), torch.stack([w["k"] for w in ws])
    return layer.readout(X).T @ attention(X @ W_K.T @ W_Q @ x["x"] / math.sqrt(len(ws)), X)


@reference("tied-query-key-attention")
def tied(layer, ws, x):
    W = torch.stack([w["w"] for w in ws])
    return x["u"] @ W.T @ W @ x["x"] / math.sqrt(len(ws))


@reference("bilinear-sequence-regression")
def bilinear(layer, ws, x):
    U, V = (torch.stack([w[name] for w in ws], 1) for name in "uv")
    return x["x_s"] @ (U @ V.T) @ x["x_t"]


@reference("linear-ssl")
def ssl(layer, ws, x):
    W = torch.stack([w["w"] for w in ws])
    return torch.linalg.norm(W @ x["x"] - W @ x["chi"]) ** 2


REGISTRY = nqf.Registry.load()
CASES = [(key, sizes, slow) for key, cases in SLOW.items() for sizes, slow in cases]


def test_every_model_has_a_slow_reference():
    known = {entry.key for entry in REGISTRY.entries() if entry.distribution.replace("_", "-") == "nqf-registry"}
    assert set(SLOW) == known


@pytest.mark.parametrize("key, sizes, slow", CASES, ids=[f"{key} {sizes}" for key, sizes, _ in CASES])
def test_the_fast_forward_is_the_formula(key, sizes, slow):
    layer, g = REGISTRY.get(key, **sizes), torch.Generator().manual_seed(0)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(3, g).items()}
    W = layer.random(g, dtype=torch.float64)
    expected = torch.stack([slow(layer, neurons(W), {name: t[n] for name, t in x.items()}).reshape(-1) for n in range(3)])
    torch.testing.assert_close(layer(W, x), expected, rtol=1e-12, atol=1e-12)
