"""The base class of layers: the checked call, weights in and out, vmap and its fallback."""

from dataclasses import dataclass, field

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.layer import Layer, cast, declares, is_looped


@dataclass(frozen=True)
class Units(nqf.Layer):
    """Σ_i tanh(u_i · x) v_i + b_i."""

    key = "units"
    n_in: int = 3
    width: int = 4

    def blocks(self):
        return {"u": (self.n_in,), "v": (2,), "b": ()}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def unit(self, w, x):
        return torch.tanh(x["x"] @ w["u"])[:, None] * w["v"] + w["b"]


@dataclass(frozen=True)
class Picky(Units):
    """The same unit, written in a way that vmap refuses: it decides on a value."""

    key = "picky"

    def unit(self, w, x):
        if w["b"] > 1e9:
            return x["x"][:, :2]
        return super().unit(w, x)


@dataclass(frozen=True)
class Broken(Units):
    key = "broken"

    def unit(self, w, x):
        raise ValueError("the layer's own mistake")


@dataclass(frozen=True)
class Lookup(nqf.Layer):
    """Σ_i table_i[token] · x, an integer and a floating input."""

    key = "lookup"
    tokens: int = 5
    width: int = 2

    def blocks(self):
        return {"table": (self.tokens,)}

    def sample(self, n, generator):
        return {"token": torch.randint(self.tokens, (n,), generator=generator), "x": torch.randn(n, generator=generator)}

    def forward(self, W, x):
        assert x["token"].dtype == torch.int64
        return (W["table"].index_select(0, x["token"]).sum(-1) * x["x"])[:, None]


@dataclass(frozen=True)
class Single(Units):
    """A layer of fixed width."""

    key = "single"
    width: int = field(default=1, init=False)


@dataclass(frozen=True)
class Batched(Units):
    """Takes the replica axis itself."""

    key = "batched"
    batched = True

    def forward(self, W, x):
        pre = torch.tanh(x["x"] @ W["u"])  # (..., n, d)
        return pre @ W["v"].mT + W["b"].sum(-1)[..., None, None]


def draw(layer, seed=0, n=6):
    g = torch.Generator().manual_seed(seed)
    return layer.random(g, dtype=torch.float64), layer.sample(n, g)


def slow(layer, W, x):
    x = cast(x, torch.float64)
    return sum(layer.unit({name: block[..., i] for name, block in W.items()}, x) for i in range(layer.width))


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", [Units(), Picky(), Batched()], ids=lambda layer: layer.key)
def test_the_layer_is_the_sum_of_its_units(layer):
    W, x = draw(layer)
    close(layer(W, x), slow(Units(), W, x))


@pytest.mark.parametrize("layer", [Units(), Picky(), Batched()], ids=lambda layer: layer.key)
def test_a_replica_axis_is_as_many_separate_calls(layer):
    g = torch.Generator().manual_seed(0)
    draws, x = [layer.random(g, dtype=torch.float64) for _ in range(3)], layer.sample(6, g)
    together = layer({name: torch.stack([W[name] for W in draws]) for name in draws[0]}, x)
    assert together.shape == (3, 6, 2)
    close(together, torch.stack([layer(W, x) for W in draws]))


def test_where_vmap_refuses_the_neurons_are_looped_over_and_it_is_known():
    W, x = draw(Picky())
    Picky()(W, x)
    Units()(W, x)
    assert is_looped(Picky()) and not is_looped(Units())


def test_a_looped_layer_has_gradients():
    W, x = draw(Picky())
    leaves = [block.requires_grad_() for block in W.values()]
    grads = torch.autograd.grad(Picky()(W, x).sum(), leaves)
    for grad, expected in zip(grads, torch.autograd.grad(Units()(W, x).sum(), leaves), strict=True):
        close(grad, expected)


def test_the_layers_own_mistake_reaches_the_caller():
    W, x = draw(Broken())
    with pytest.raises(ValueError, match="the layer's own mistake"):
        Broken()(W, x)
    assert not is_looped(Broken())


def test_stacked_weights_are_taken_too():
    layer = Units()
    W, x = draw(layer)
    stacked = layer.stack(W)
    assert stacked.shape == (layer.n_params, layer.width) == (6, 4)
    close(layer(stacked, x), layer(W, x))
    assert all(torch.equal(block, W[name]) for name, block in layer.unstack(stacked).items())


def test_weights_decide_the_dtype_and_integers_stay():
    layer = Lookup()
    for dtype in (torch.float32, torch.float64):
        W = layer.random(torch.Generator().manual_seed(0), dtype=dtype)
        assert layer(W, layer.sample(3, torch.Generator().manual_seed(1))).dtype == dtype


def test_one_seed_gives_one_draw_in_every_dtype():
    layer = Units()
    low, high = (layer.random(torch.Generator().manual_seed(0), 0.1, dtype) for dtype in (torch.float32, torch.float64))
    assert all(torch.equal(low[name], high[name].float()) for name in low)
    big = layer.random(torch.Generator().manual_seed(0), dtype=torch.float64)
    close(high["u"], 0.1 * big["u"])


def test_what_a_layer_says_of_itself():
    layer = Units()
    assert layer.n_params == 6
    assert layer.n_outputs() == 2
    assert str(layer.ports()["x"]) == "(n, 3)"
    assert str(Lookup().ports()["token"]) == "(n) integer"
    assert {name: tuple(block.shape) for name, block in layer.zeros().items()} == {"u": (3, 4), "v": (2, 4), "b": (4,)}
    assert not any(block.any() for block in layer.zeros().values())


def test_resizing_changes_the_width_alone_and_never_a_fixed_one():
    assert Units(n_in=5).resized(9) == Units(n_in=5, width=9)
    assert Single().resized(9) is not None and Single().resized(9).width == 1


def test_what_a_class_declares_itself():
    assert declares(Units(), "unit") and not declares(Units(), "forward") and not declares(Units(), "structure")
    assert not declares(Units(), "pullback") and not declares(Units(), "offset")
    assert declares(Lookup(), "forward")


def test_features_become_the_only_floating_input():
    features = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(Units().encode(features)["x"], features)
    for layer in (Units(n_in=4), Lookup()):
        with pytest.raises(nqf.InvalidInput, match="3 features a sample"):
            layer.encode(features)


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda W: {"u": W["u"]}, "dict of the blocks u, v, b; got u"),
        (lambda W: W | {"q": W["u"]}, "got u, v, b, q"),
        (lambda W: W | {"u": W["u"][:2]}, r"block 'u' must be \(3, 'd'\)"),
        (lambda W: W | {"u": W["u"][0]}, r"block 'u' must be \(3, 'd'\)"),
        (lambda W: W | {"u": W["u"][None, None]}, r"block 'u' must be"),
        (lambda W: W | {"u": W["u"][:, :2]}, "share one width and one replica axis"),
        (lambda W: W | {"u": W["u"][None]}, "share one width and one replica axis"),
        (lambda W: [W["u"]], "dict of the blocks u, v, b; got list"),
        (lambda W: torch.zeros(5, 4), r"\(p, d\) with p = 6, got \(5, 4\)"),
        (lambda W: torch.zeros(6), "stacked W"),
    ],
)
def test_wrong_weights_are_named(change, words):
    W, x = draw(Units())
    with pytest.raises(nqf.InvalidInput, match=words):
        Units()(change(W), x)


@pytest.mark.parametrize(
    "x, words",
    [
        (torch.zeros(2, 3), "dict of tensors"),
        ({}, "dict of tensors"),
        ({"x": [1.0]}, "dict of tensors"),
        ({"x": torch.tensor(1.0)}, "leading sample axis"),
        ({"x": torch.zeros(2, 3), "y": torch.zeros(3)}, "different numbers of samples: {'x': 2, 'y': 3}"),
    ],
)
def test_wrong_inputs_are_named(x, words):
    with pytest.raises(nqf.InvalidInput, match=words):
        Units()(Units().zeros(), x)


@pytest.mark.parametrize("replicas", [None, 2])
def test_an_index_out_of_range_is_named(replicas):
    layer = Lookup()
    W = layer.zeros() if replicas is None else {name: torch.stack([b] * replicas) for name, b in layer.zeros().items()}
    with pytest.raises(nqf.InvalidInput, match="lookup: an index in token is out of range"):
        layer(W, {"token": torch.tensor([0, 5]), "x": torch.ones(2)})


def test_an_index_out_of_range_on_the_replica_axis_is_named():
    def forward(self, W, x):
        return W["table"].index_select(W["table"].ndim - 2, x["token"]).sum(-1, keepdim=True)

    layer = type("Batch", (Lookup,), {"key": "batch", "batched": True, "forward": forward})()
    with pytest.raises(nqf.InvalidInput, match="batch: an index in token is out of range"):
        layer({"table": torch.zeros(3, 5, 2)}, {"token": torch.tensor([0, 5]), "x": torch.ones(2)})


@pytest.mark.parametrize(
    "result, words",
    [(lambda n: torch.zeros(n), r"\(6, k\)"), (lambda n: torch.zeros(1, n), "got"), (lambda n: 0.0, "got float")],
)
def test_a_forward_of_the_wrong_shape_is_the_layers_fault(result, words):
    layer = type("Shape", (Units,), {"key": "shape", "forward": lambda self, W, x: result(len(x["x"]))})()
    W, x = draw(layer)
    with pytest.raises(nqf.LayerError, match=words):
        layer(W, x)


def test_a_structure_that_is_none_is_the_layers_fault():
    layer = type("Wrong", (Units,), {"key": "wrong", "structure": lambda self, x: x["x"]})()
    with pytest.raises(nqf.LayerError, match=r"wrong: structure\(x\) must return nqf.quadratic.* got Tensor"):
        layer.structure(draw(layer)[1])


def test_a_structure_knows_the_blocks_of_its_layer():
    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")

    layer = type("Known", (Units,), {"structure": structure})()
    assert layer.structure(draw(layer)[1]).dense().shape == (6, 2, 6, 6)


@pytest.mark.parametrize("method", ["blocks", "sample", "unit"])
def test_what_must_be_written_is_asked_for(method):
    arguments = {"blocks": (), "sample": (1, None), "unit": ({}, {})}[method]
    with pytest.raises(nqf.LayerError, match=rf"must define {method}\("):
        getattr(Layer(), method)(*arguments)
