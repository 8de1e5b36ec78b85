"""Order parameters and the compressed layer predict what the quadratic form predicts, step by step, for every entry."""

import dataclasses

import numpy as np
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput

KEYS = nqf.default_registry().keys()
RULES = {
    "gd": {"optimizer": "gd"},
    "momentum": {"optimizer": "momentum", "momentum": 0.8, "weight_decay": 1e-4},
    "nesterov": {"optimizer": "nesterov", "momentum": 0.8},
    "minibatches": {"optimizer": "gd", "batch": 16},
}
STEPS = 500
SCALE = 0.1


def loss_of(run, model):
    return run.curves("train_loss", model)[1]


def train(layer, data, models, steps=STEPS, **settings):
    settings = {"dtype": "float64", "verify": False, "records": range(0, steps + 1, 5), **settings}
    return nqf.compare(layer, data, models=models, steps=steps, **settings)


@dataclasses.dataclass(frozen=True, eq=False)
class Nudged(nqf.NQF):
    """The quadratic form from weights one rounding away: what it departs by is what rounding does to this run."""

    name = "nudged"

    def start(self, W):
        generator = torch.Generator().manual_seed(1)
        return {
            name: block * (1 + torch.finfo(block.dtype).eps * torch.randn(block.shape, generator=generator, dtype=block.dtype))
            for name, block in W.items()
        }


def distance(run, model):
    """Largest distance of the predictions from the quadratic form's at any record, relative to the targets' size."""
    place, size = run.models.index(model), float(np.sqrt(loss_of(run, "nqf")[0, 0]))
    return float(run.data["output_distance"].values[place].max()) / size


def case(key):
    """A layer, its teacher data, and a rate at which it learns nine tenths of it in these steps."""
    layer = nqf.default_registry().get(key)
    wide = layer.resized(40)  # wider than a neuron has parameters, where the layer has a width at all
    data = nqf.teacher(wide, n=64, seed=3)
    rate = train(wide, data, ["nqf"], steps=0, lr="auto", records=2, scale=SCALE).manifest["rate"]
    return wide, data, rate["stable"] * 0.45 if rate["stable"] else rate["value"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("key", KEYS)
def test_every_entry(key, rule):
    layer, data, rate = case(key)
    settings = RULES[rule]
    lr = rate * (1 - settings.get("momentum", 0.0))
    run = train(layer, data, ["nqf", "order-parameters", "compressed", Nudged], lr=lr, scale=SCALE, **settings)
    first, last = loss_of(run, "nqf")[0, [0, -1]]
    assert last < 0.1 * first, (key, rule, last / first)
    allowed = max(1e-10, 10 * distance(run, "nudged"))
    for model in ("order-parameters", "compressed"):
        assert distance(run, model) <= allowed, (key, model, distance(run, model), distance(run, "nudged"))


def test_the_losses_agree_too():
    layer, data, rate = case("two-layer-mlp")
    run = train(layer, data, ["nqf", "order-parameters", "compressed"], lr=rate / 4, scale=SCALE, steps=100, records=50)
    for model in ("order-parameters", "compressed"):
        np.testing.assert_allclose(loss_of(run, model), loss_of(run, "nqf"), rtol=1e-10)


def rank_ten(width):
    """A perceptron of 40 inputs that lie in ten dimensions."""
    layer = nqf.default_registry().get("two-layer-mlp", n_in=40, n_out=3, width=width)
    generator = torch.Generator().manual_seed(0)
    inside = torch.randn(10, 40, generator=generator, dtype=torch.float64)
    x = torch.randn(100, 10, generator=generator, dtype=torch.float64) @ inside / 10
    y = x @ torch.randn(40, 3, generator=generator, dtype=torch.float64) / 10
    return layer, nqf.Data({"x": x}, y, name="rank ten")


@pytest.mark.parametrize(("activation", "neurons"), [("tanh", 13), ("sigmoid", 14)])
def test_a_thousand_neurons_become_k_or_k_plus_one(activation, neurons):
    layer, data = rank_ten(1000)
    layer = dataclasses.replace(layer, activation=activation)
    small = nqf.Compressed(layer, data)
    assert small.width == neurons and small.compression.basis.shape[1] == 13
    run = train(layer, data, [nqf.NQF(layer), small], lr=1e-3, scale=0.03, steps=4000)
    first, last = loss_of(run, "nqf")[0, [0, -1]]
    assert last < 0.1 * first and distance(run, "compressed") <= 1e-10


def test_without_the_rescaled_rate_the_compressed_layer_learns_something_else():
    layer, data = rank_ten(1000)
    wrong = nqf.Compressed(layer, data, rescale=False)
    run = train(layer, data, [nqf.NQF(layer), wrong], lr=0.02, scale=0.03, steps=400)
    assert distance(run, "compressed") > 0.1


def test_through_four_switch_ons_from_1e_10():
    """The modes are born one after the other, from weights whose squares are below rounding."""
    layer = nqf.default_registry().get("two-layer-mlp", n_in=6, n_out=6, width=50)
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(6, 6, generator=generator, dtype=torch.float64)).Q for _ in range(2))
    strengths = torch.tensor([1.0, 0.5, 0.25, 0.125, 0.0, 0.0], dtype=torch.float64)
    x = torch.linalg.qr(torch.randn(200, 6, generator=generator, dtype=torch.float64)).Q * 200**0.5
    data = nqf.Data({"x": x}, x @ (left * strengths) @ right.mT, name="four modes")
    settings = {"lr": 0.02, "scale": 1e-10, "steps": 40000, "records": range(0, 40001, 50)}
    run = train(layer, data, ["nqf", "order-parameters", Nudged], **settings)
    loss = loss_of(run, "nqf")[0]
    for height in (1.328125, 0.328125, 0.078125, 0.015625):  # each plateau is stayed on: the modes switch on one by one
        assert (np.abs(loss - height) < 1e-2 * height).sum() >= 3
    assert loss[-1] < 1e-6
    summed_otherwise = loss_of(train(layer, data, ["nqf"], way="closed-form", **settings), "nqf")[0]
    rounding = max(np.abs(other - loss).max() for other in (loss_of(run, "nudged")[0], summed_otherwise))
    assert 0 < rounding < 1e-9
    assert np.abs(loss_of(run, "order-parameters")[0] - loss).max() <= 10 * rounding


@pytest.mark.parametrize("model", ["order-parameters", "compressed"])
def test_adam_is_refused_by_name(model):
    layer, data = rank_ten(20)
    with pytest.raises(InvalidInput, match=f"{model} cannot follow adam: it rescales every weight"):
        train(layer, data, [model], optimizer="adam", records=2)


@pytest.mark.parametrize("way", ["autograd", "closed-form", "statistics"])
def test_every_way_leads_to_the_same(way):
    layer, data = rank_ten(30)
    run = train(layer, data, ["nqf", "order-parameters"], lr=0.02, scale=0.1, steps=200, way=way)
    reference = train(layer, data, ["nqf"], lr=0.02, scale=0.1, steps=200, way="autograd")
    assert run.manifest["ways"] == {"nqf": way, "order-parameters": way}
    np.testing.assert_allclose(loss_of(run, "nqf"), loss_of(reference, "nqf"), rtol=1e-11)
    np.testing.assert_allclose(loss_of(run, "order-parameters"), loss_of(reference, "nqf"), rtol=1e-11)
