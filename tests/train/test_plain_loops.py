"""The loops that speed is measured against compute what the layers compute: a ratio of two different things is no ratio."""

import importlib.util
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf

FILE = Path(__file__).parents[2] / "benchmarks" / "training" / "plain_loops.py"


def load():
    spec = importlib.util.spec_from_file_location("plain_loops", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOOPS = load()


def test_there_is_one_for_each_entry():
    assert set(LOOPS.PREDICT) == {layer.key for layer in nqf.default_registry().layers()} and len(LOOPS.PREDICT) == 17


@pytest.mark.parametrize("layer", nqf.default_registry().layers(), ids=lambda layer: layer.key)
def test_it_predicts_what_the_layer_does(layer):
    generator = torch.Generator().manual_seed(0)
    W = layer.random(generator, 0.7, torch.float64)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(20, generator).items()}
    torch.testing.assert_close(LOOPS.PREDICT[layer.key](W, x, layer), layer(W, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layer", nqf.default_registry().layers(), ids=lambda layer: layer.key)
def test_it_takes_the_steps_of_the_trainer(layer):
    data = nqf.teacher(layer, n=30)
    step, W = LOOPS.make(layer, data, lr=1e-3)
    for _ in range(5):
        step()
    run = nqf.train(nqf.Original(layer), data, lr=1e-3, steps=5, records=2, verify=False, dtype="float32", device="cpu")
    for name, block in run.weights["original"].items():
        torch.testing.assert_close(block[0], W[name].detach(), rtol=1e-4, atol=1e-6)
