"""A gradient that a layer writes itself is held against the shapes of its weights where it is used."""

import dataclasses

import pytest
import torch

import nqf_registry as nqf


@dataclasses.dataclass(frozen=True)
class Written(nqf.Layer):
    """f = Σ_i v_i (u_i · x) with a gradient of its own."""

    key = "written"
    width: int = 4

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return (x["x"] @ W["u"]) @ W["v"].mT

    def pullback(self, W, x, cotangent):
        return {"u": x["x"].mT @ (cotangent @ W["v"]), "v": cotangent.mT @ (x["x"] @ W["u"])}


def changed(change, batched=False):
    def pullback(self, W, x, cotangent):
        return change(Written.pullback(self, W, x, cotangent))

    return type("Changed", (Written,), {"key": "changed", "batched": batched, "pullback": pullback})()


FAULTS = pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda g: {"u": g["u"]}, "a dict of the blocks u, v; got u"),
        (lambda g: g | {"w": g["u"]}, "got u, v, w"),
        (lambda g: g | {"u": g["u"][..., :1, :]}, r"block 'u' in the shape of W, \((\d, )?3, 4\); got the shape"),
        (lambda g: g | {"v": g["v"].sum(-1, keepdim=True)}, "block 'v' in the shape of W"),
        (lambda g: g | {"v": None}, "got NoneType"),
        (lambda g: list(g.values()), "got list"),
    ],
)


@FAULTS
@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("batched", [False, True])
def test_a_gradient_of_another_shape_is_the_layers_fault(change, words, replicas, batched):
    layer = changed(change, batched)
    x, W = layer.sample(5, torch.Generator().manual_seed(0)), nqf.Original(layer).init(range(replicas))
    with pytest.raises(nqf.LayerError, match=words):
        nqf.Original(layer).bind(x).pullback(W, torch.ones(replicas, 5, 2))


@pytest.mark.parametrize("replicas", [1, 3])
def test_a_right_gradient_goes_through(replicas):
    layer = Written()
    x, W = layer.sample(5, torch.Generator().manual_seed(0)), nqf.Original(layer).init(range(replicas))
    pulled = nqf.Original(layer).bind(x).pullback(W, torch.ones(replicas, 5, 2))
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    expected = torch.autograd.grad(layer(leaves, x).sum(), list(leaves.values()))
    for name, grad in zip(leaves, expected, strict=True):
        torch.testing.assert_close(pulled[name], grad)
