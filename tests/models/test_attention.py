"""What attention models promise beyond the table: a fixed readout, inert queries and keys, small intermediates."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nqf_registry as nqf

REGISTRY = nqf.Registry.load()
FIXED = pytest.mark.parametrize("key", ["query-key-attention", "single-head-attention"])
ENCODERS = ["multi-head-attention", "query-key-attention", "single-head-attention"]


class Largest(TorchDispatchMode):
    """The number of entries of the largest tensor that is formed."""

    size = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.size = max(self.size, out.numel())
        return out


def test_queries_and_keys_are_inert_at_quadratic_order():
    layer = REGISTRY.get("multi-head-attention")
    graph = layer.structure(layer.sample(3, torch.Generator().manual_seed(0))).coupling_graph()
    assert [set(edge) for edge in graph.edges] == [{"V", "v"}]
    assert {"K", "Q"} <= set(graph)


def test_the_form_of_attention_never_forms_anything_of_size_p():
    layer = REGISTRY.get("multi-head-attention", dim=64, tokens=16, d_k=32, d_v=32, n_out=1, width=4)
    g = torch.Generator().manual_seed(0)
    x, W = layer.sample(64, g), layer.random(g)
    form = nqf.quadratic_form(layer, x)
    with Largest() as seen:
        form.evaluate(W)
        form.pullback(W, torch.ones(64, 1))
    assert seen.size <= max(block.numel() for block in W.values())  # p² is 39 million
    assert layer.n_params == 6176


def test_the_forward_forms_no_keys_or_values_of_single_tokens():
    layer = REGISTRY.get("multi-head-attention", dim=16, tokens=100, d_k=16, d_v=16, n_out=1, width=4)
    g = torch.Generator().manual_seed(0)
    x, W = layer.sample(50, g), layer.random(g)
    with Largest() as seen:
        layer(W, x)
    assert seen.size <= x["X"].numel()  # one copy of the context; keys and values of single tokens are four times that


@FIXED
def test_the_readout_belongs_to_the_layer(key):
    like = torch.zeros(1, dtype=torch.float64)
    one, same, other = (REGISTRY.get(key, dim=400, n_out=3, readout_seed=seed).readout(like) for seed in (5, 5, 6))
    assert one.shape == (400, 3) and one.dtype == torch.float64
    assert torch.equal(one, same) and not torch.equal(one, other)
    assert float(one.std()) == pytest.approx(1 / 20, rel=0.1)
    assert abs(float(one.mean())) < 0.01
    single = REGISTRY.get(key, dim=400, n_out=3, readout_seed=5).readout(like.float())
    assert torch.equal(single, one.float())


@FIXED
def test_the_readout_may_be_made_inside_inference_and_used_in_training(key):
    layer, g = REGISTRY.get(key, readout_seed=987), torch.Generator().manual_seed(0)
    x = layer.sample(2, g)
    with torch.inference_mode():
        layer(layer.random(g), {name: t.clone() for name, t in x.items()})
    W = {name: block.requires_grad_() for name, block in layer.random(g).items()}
    layer(W, x).sum().backward()
    assert all(block.grad.abs().max() > 0 for block in W.values())


@FIXED
@pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
def test_a_seed_is_checked(key, seed):
    with pytest.raises(nqf.InvalidInput, match="readout_seed"):
        REGISTRY.get(key, readout_seed=seed)


@pytest.mark.parametrize("key", ENCODERS)
def test_images_become_tokens_by_rows_with_their_mean_as_query(key):
    layer = REGISTRY.get(key, dim=8, tokens=8)
    features = torch.arange(128.0).reshape(2, 64)
    x = layer.encode(features)
    assert torch.equal(x["X"][1, 3], features[1, 24:32])
    assert torch.equal(x["x"][0], features[0].reshape(8, 8).mean(0))
    with pytest.raises(nqf.InvalidInput, match="8 · 8 features as tokens; the data has 63"):
        layer.encode(features[:, :63])


def test_the_mean_of_the_heads_is_what_attention_starts_from():
    layer, g = REGISTRY.get("query-key-attention", width=3), torch.Generator().manual_seed(0)
    x = {name: t.double() for name, t in layer.sample(4, g).items()}
    expected = 3 * x["X"].mean(1) @ layer.readout(x["X"])
    torch.testing.assert_close(layer(layer.zeros(torch.float64), x), expected)
    torch.testing.assert_close(nqf.quadratic_form(layer, x).evaluate(layer.zeros(torch.float64)), expected)
