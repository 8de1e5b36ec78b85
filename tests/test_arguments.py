"""What does not fit a layer is named before torch sees it: at the layer, its structure, its form, its expansion."""

from dataclasses import dataclass

import numpy
import pytest
import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class Derived(nqf.Layer):
    """Σ_i table_i[token] (u_i · x): an integer and a floating input, A left out."""

    key = "derived"
    tokens: int = 5
    n_in: int = 3
    width: int = 2

    def blocks(self):
        return {"table": (self.tokens,), "u": (self.n_in,)}

    def sample(self, n, generator):
        x = torch.randn(n, self.n_in, generator=generator)
        return {"token": torch.randint(self.tokens, (n,), generator=generator), "x": x}

    def forward(self, W, x):
        return (W["table"].index_select(0, x["token"]) * (x["x"] @ W["u"])).sum(-1, keepdim=True)


@dataclass(frozen=True)
class Mixed(Derived):
    """The same, with A declared."""

    key = "mixed"

    def structure(self, x):
        return nqf.quadratic("n,ni,i->n", nqf.rows("table", x["token"]), x["x"], "u")


LAYERS = pytest.mark.parametrize("layer", [Mixed(), Derived()], ids=lambda layer: layer.key)


def draw(layer, n=4, dtype=torch.float32):
    g = torch.Generator().manual_seed(0)
    return layer.random(g, dtype=dtype), layer.sample(n, g)


def calls(layer):
    """Every way into a layer's inputs."""
    ways = {
        "call": lambda x: layer(layer.zeros(), x),
        "form": lambda x: nqf.quadratic_form(layer, x),
        "expand": lambda x: nqf.expand(layer, x),
    }
    return ways | ({"structure": layer.structure} if layer.key == "mixed" else {})


@LAYERS
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: {"x": x["x"]}, r"dict of the inputs token \(n\) integer, x \(n, 3\); got x"),
        (lambda x: x | {"extra": x["x"]}, "got token, x, extra"),
        (lambda x: x | {"x": x["x"][:, :2]}, r"input 'x' takes \(n, 3\), got the shape \(4, 2\)"),
        (lambda x: x | {"x": x["x"].long()}, r"input 'x' takes floating numbers \(n, 3\), got torch.int64"),
        (lambda x: x | {"x": x["x"] + 0j}, r"input 'x' takes floating numbers \(n, 3\), got torch.complex64"),
        (lambda x: x | {"token": x["token"].float()}, r"input 'token' takes integers \(n\) integer, got torch.float32"),
        (lambda x: x | {"token": x["token"][:, None]}, r"input 'token' takes \(n\) integer, got the shape \(4, 1\)"),
        (lambda x: x | {"x": x["x"].numpy()}, "dict of tensors .*'x': 'ndarray'"),
        (lambda x: None, "dict of tensors .*NoneType"),
    ],
)
def test_inputs_that_do_not_fit_are_named_everywhere(layer, change, words):
    _, x = draw(layer)
    for call in calls(layer).values():
        with pytest.raises(nqf.InvalidInput, match=words):
            call(change(x))


@LAYERS
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda W: {"u": W["u"]}, "dict of the blocks table, u; got u"),
        (lambda W: W | {"u": W["u"].numpy()}, r"block 'u' must be a floating torch tensor \(3, 'd'\), got numpy.ndarray"),
        (lambda W: W | {"u": W["u"].long()}, "got torch.int64"),
        (lambda W: W | {"u": W["u"].double()}, "one dtype"),
        (lambda W: W | {"u": W["u"][:, :1]}, "share one width"),
        (lambda W: W | {"u": W["u"][:1]}, r"block 'u' must be \(3, 'd'\)"),
        (lambda W: {name: block[None][:0] for name, block in W.items()}, "0 replicas"),
        (lambda W: torch.zeros(7, 2), r"stacked W is \(p, d\) with p = 8"),
        (lambda W: numpy.zeros((8, 2)), "dict of the blocks table, u; got ndarray"),
    ],
)
def test_weights_that_do_not_fit_are_named_by_the_layer_and_its_form(layer, change, words):
    W, x = draw(layer)
    form, cotangent = nqf.quadratic_form(layer, x), torch.ones(4, 1)
    for call in (lambda W: layer(W, x), form.evaluate, lambda W: form.pullback(W, cotangent)):
        with pytest.raises(nqf.InvalidInput, match=words):
            call(change(W))


def test_a_structure_names_weights_that_do_not_fit():
    W, x = draw(Mixed())
    structure = Mixed().structure(x)
    for call in (structure.evaluate, lambda W: structure.pullback(W, torch.ones(4, 1)), structure.apply):
        with pytest.raises(nqf.InvalidInput, match="dict of the blocks table, u; got u"):
            call({"u": W["u"]})


@LAYERS
@pytest.mark.parametrize("replicas", [None, 3])
def test_a_form_takes_stacked_weights_as_its_layer_does(layer, replicas):
    W, x = draw(layer, dtype=torch.float64)
    if replicas:
        W = {name: torch.stack([(r + 1) * block for r in range(replicas)]) for name, block in W.items()}
    form, cotangent = nqf.quadratic_form(layer, x, torch.float64), torch.ones(*([replicas] if replicas else []), 4, 1).double()
    stacked = torch.cat([W["table"], W["u"]], -2)
    assert torch.equal(form.evaluate(stacked), form.evaluate(W))
    pulled, expected = form.pullback(stacked, cotangent), form.pullback(W, cotangent)
    assert all(torch.equal(pulled[name], expected[name]) for name in W)


@LAYERS
@pytest.mark.parametrize(("replicas", "shape"), [(None, (1, 1)), (None, (4,)), (None, (2, 4, 1)), (2, (4, 1)), (2, (1, 4, 1))])
def test_a_cotangent_has_the_shape_of_the_outputs(layer, replicas, shape):
    W, x = draw(layer)
    if replicas:
        W = {name: torch.stack([block] * replicas) for name, block in W.items()}
    expected = (replicas, 4, 1) if replicas else (4, 1)
    words = rf"{str(expected).replace('(', '[(]').replace(')', '[)]')}, got the shape"
    with pytest.raises(nqf.InvalidInput, match=words):
        nqf.quadratic_form(layer, x).pullback(W, torch.ones(shape))
    with pytest.raises(nqf.InvalidInput, match=words):
        Mixed().structure(x).pullback(W, torch.ones(shape))
    if not replicas:
        with pytest.raises(nqf.InvalidInput, match=words):
            Mixed().structure(x).weighted(torch.ones(shape))


@LAYERS
@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16])
def test_integers_of_any_width_pick_the_same(layer, kind):
    W, x = draw(layer)
    narrow = x | {"token": x["token"].to(kind)}
    assert torch.equal(layer(W, narrow), layer(W, x))
    one, two = nqf.quadratic_form(layer, narrow), nqf.quadratic_form(layer, x)
    assert torch.equal(one.evaluate(W), two.evaluate(W))
    assert torch.equal(nqf.expand(layer, narrow).diagonal, nqf.expand(layer, x).diagonal)
    if layer.key == "mixed":
        assert torch.equal(layer.structure(narrow).dense(), layer.structure(x).dense())


@LAYERS
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_results_of_a_form_have_the_dtype_of_the_weights(layer, kind):
    for dtype in (torch.float32, torch.float64):
        W, x = draw(layer, dtype=kind)
        form = nqf.quadratic_form(layer, {name: t.to(dtype) if t.is_floating_point() else t for name, t in x.items()})
        assert form.evaluate(W).dtype == kind
        pulled = form.pullback(W, torch.ones(4, 1, dtype=dtype))
        assert {block.dtype for block in pulled.values()} == {kind}


def test_no_sample_at_all_has_no_expansion():
    layer = Mixed()
    with pytest.raises(nqf.InvalidInput, match="at least one sample, got inputs of 0"):
        nqf.expand(layer, layer.sample(0, torch.Generator()))


def test_a_new_layer_may_be_called_inside_vmap():
    W, x = draw(Mixed())
    many = torch.stack([W["u"], 2 * W["u"]])
    values = torch.func.vmap(lambda u: Mixed()({"table": W["table"], "u": u}, x))(many)
    torch.testing.assert_close(values[1], 2 * Mixed()(W, x))


def test_features_are_a_table():
    layer = nqf.default_registry().get("quadratic-network")
    with pytest.raises(nqf.InvalidInput, match=r"table \(n, m\), got the shape \(3,\)"):
        layer.encode(torch.zeros(3))
