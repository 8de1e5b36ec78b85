"""Each of the seventeen as one writes it by hand in eager PyTorch: a function of its weights, autograd and torch.optim.

The weights have the shapes of the registered layers, so that both start from the same numbers.
"""

from math import sqrt

import torch
from torch.nn.functional import conv2d

import nqf_registry as nqf


def query_key(W, x, c, d_k):
    """One query a sample, folded as one would: keys of tokens are not formed."""
    Q, K = W["Q"].movedim(-1, 0), W["K"].movedim(-1, 0)
    logits = torch.einsum("nte,hke,hkd,nd->nht", x["X"], K, Q, x["x"]) / sqrt(d_k)
    return torch.einsum("nht,nte->ne", torch.softmax(logits, -1), x["X"]) @ c


def heads(W, x, d_k):
    """Multi-head attention."""
    K, Q, V = (W[name].movedim(-1, 0) for name in "KQV")
    queries = torch.einsum("hkd,nd->nhk", Q, x["x"])
    logits = torch.einsum("nhk,hkd,ntd->nht", queries, K, x["X"]) / sqrt(d_k)
    seen = torch.einsum("nht,ntd->nhd", torch.softmax(logits, -1), x["X"])
    return torch.einsum("nhd,hvd,voh->no", seen, V, W["v"])


def single_head(W, x, c, d_k):
    """One head whose neurons are the rows of its projections."""
    queries = x["x"] @ W["q"]
    logits = torch.einsum("nk,ntk->nt", queries, x["X"] @ W["k"]) / sqrt(d_k)
    return torch.einsum("nt,ntd->nd", torch.softmax(logits, -1), x["X"]) @ c


PREDICT = {
    "psd-matrix-sensing": lambda W, x, _: torch.einsum("nij,ij->n", x["S"], W["w"] @ W["w"].T)[:, None],
    "rectangular-matrix-sensing": lambda W, x, _: torch.einsum("nij,ij->n", x["S"], W["u"] @ W["v"].T)[:, None],
    "matrix-completion": lambda W, x, _: (W["u"][x["i"]] * W["v"][x["j"]]).sum(-1, keepdim=True),
    "word-context-embedding": lambda W, x, _: (W["u"][x["word"]] * W["v"][x["context"]]).sum(-1, keepdim=True),
    "quadratic-network": lambda W, x, _: ((x["x"] @ W["w"]) ** 2).sum(-1, keepdim=True),
    "phase-retrieval": lambda W, x, _: ((x["a"] @ W["w"]) ** 2).sum(-1, keepdim=True),
    "diagonal-linear-square": lambda W, x, _: x["x"] @ W["u"] ** 2 / 4,
    "diagonal-linear-two-factor": lambda W, x, _: x["x"] @ (W["u"] * W["v"]),
    "two-layer-mlp": lambda W, x, _: torch.tanh(x["x"] @ W["u"]) @ W["v"].T,
    "single-layer-cnn": lambda W, x, _: torch.tanh(conv2d(x["x"], W["k"].movedim(-1, 0))).sum((2, 3)) @ W["v"].T,
    "mixture-of-experts": lambda W, x, _: torch.einsum("nd,ni,iod->no", torch.tanh(x["x"] @ W["r"]), x["x"], W["Theta"]),
    "multi-head-attention": lambda W, x, layer: heads(W, x, layer.d_k),
    "query-key-attention": lambda W, x, layer: query_key(W, x, layer.readout(x["X"]), layer.d_k),
    "tied-query-key-attention": lambda W, x, layer: (
        ((x["u"] @ W["w"]) * (x["x"] @ W["w"])).sum(-1, keepdim=True) / sqrt(layer.width)
    ),
    "bilinear-sequence-regression": lambda W, x, _: ((x["x_s"] @ W["u"]) * (x["x_t"] @ W["v"])).sum(-1, keepdim=True),
    "linear-ssl": lambda W, x, _: (((x["x"] - x["chi"]) @ W["w"]) ** 2).sum(-1, keepdim=True),
    "single-head-attention": lambda W, x, layer: single_head(W, x, layer.readout(x["X"]), layer.width),
}


def make(layer, data, lr=1e-4, optimizer=torch.optim.SGD):
    """A function that takes one full-batch step and gives the loss before it, and the weights that it trains."""
    W = {name: block[0].clone().requires_grad_() for name, block in nqf.Original(layer).init([0]).items()}
    x = {name: t.float() if t.is_floating_point() else t for name, t in data.x.items()}
    y, predict, rule = data.y.float(), PREDICT[layer.key], optimizer(list(W.values()), lr=lr)

    def step():
        loss = ((predict(W, x, layer) - y) ** 2).sum() / len(y)
        rule.zero_grad()
        loss.backward()
        rule.step()
        return loss

    return step, W
