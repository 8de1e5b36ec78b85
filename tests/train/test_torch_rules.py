"""Optimisers of torch as rules: each against torch itself, replica by replica, saved and taken up again bit for bit."""

import gc
import weakref

import numpy as np
import pytest
import torch
from safetensors.torch import load, save

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.batches import Batches
from nqf_registry.train.models import initial_weights
from nqf_registry.train.rules import find_optimizer, of_torch
from nqf_registry.train.torch_state import decode, encode

OPTIONS = {
    "adam": [{"amsgrad": True}, {"betas": [0.8, 0.95]}],
    "adamw": [{"weight_decay": 0.1}],
    "rmsprop": [{"centered": True, "momentum": 0.7}],
    "sgd": [{"momentum": 0.9, "nesterov": True}, {"momentum": 0.5, "dampening": 0.3}],
    "adagrad": [{"initial_accumulator_value": 0.1, "lr_decay": 0.01}],
    "nadam": [{"decoupled_weight_decay": True, "weight_decay": 0.1}],
    "asgd": [{"t0": 3.0}],
    "muon": [{"ns_steps": 3}],
    "lbfgs": [{"max_iter": 3, "history_size": 2}, {"line_search_fn": "strong_wolfe", "max_iter": 4}],
}
NAMES = [name for name in of_torch() if name != "sparseadam"]
CASES = [(name, options) for name in NAMES for options in ({}, *OPTIONS.get(name, []))]


class Bowls:
    """A loss that is no quadratic, so that an error of any step shows in the next."""

    def value(self, W):
        return torch.stack([(1 - torch.cos(b) + 0.25 * b**4).flatten(1).sum(1) for b in W.values()]).sum(0)

    def gradient(self, W):
        return {name: torch.sin(block) + block**3 for name, block in W.items()}


def weights(replicas, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"u": (3, 4), "v": (2, 3, 4)}
    return {name: torch.randn(replicas, *shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def made(name, options, lr=(0.02,), decay=None):
    rule = find_optimizer(f"torch.optim.{name}")
    given = dict(options)
    decay = (given.pop("weight_decay", rule.weight_decay_default),) if decay is None else decay
    momentum = given.pop("momentum", rule.momentum_default)
    return rule(lr, decay, momentum, rule.check_options(given, torch.float64, lr[0], decay[0], momentum))


def steps(rule, W, slots, counts):
    take, finish = rule.stepper(Bowls(), W, slots)
    for count in counts:
        take(count)
    finish()


def by_torch(name, options, W, count, lr=0.02):
    """Torch's own optimiser on one replica, each block as the parameter that it is there."""
    shaped = {n: b.reshape(-1, b.shape[-1]) if name == "muon" else b for n, b in W.items()}
    leaves = {n: b.clone().requires_grad_() for n, b in shaped.items()}
    optimizer = of_torch()[name](list(leaves.values()), lr=lr, **options)

    def closure():
        optimizer.zero_grad()
        loss = sum((1 - torch.cos(p) + 0.25 * p**4).sum() for p in leaves.values())
        loss.backward()
        return loss

    for _ in range(count):
        optimizer.step(closure)
    return {n: p.detach().reshape(W[n].shape) for n, p in leaves.items()}


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_replica_follows_torch_itself(name, options):
    start, W = weights(3), weights(3)
    rule = made(name, options)
    steps(rule, W, rule.slots(W), range(1, 13))
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    for r in range(3):
        alone = by_torch(name, options, {n: b[r] for n, b in start.items()}, 12)
        for n, block in W.items():
            assert not torch.equal(block[r], start[n][r])
            torch.testing.assert_close(block[r], alone[n], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_what_is_remembered_comes_back_bit_for_bit_from_a_file(name, options):
    straight, broken = weights(2), weights(2)
    rule = made(name, options)
    steps(rule, straight, rule.slots(straight), range(1, 12))
    slots = rule.slots(broken)
    for counts in (range(1, 5), range(5, 8), range(8, 12)):
        steps(rule, broken, slots, counts)
        named = {f"{slot}|{block}": t.clone().contiguous() for slot, held in slots.items() for block, t in held.items()}
        read, slots = load(save({**named, **{f"W|{n}": b.contiguous() for n, b in broken.items()}})), {}
        broken = {n: read.pop(f"W|{n}") for n in broken}
        for key, tensor in read.items():
            slot, _, block = key.partition("|")
            slots.setdefault(slot, {})[block] = tensor
    assert all(torch.equal(straight[n], broken[n]) for n in straight)


@pytest.mark.parametrize("name", NAMES)
def test_replicas_do_not_see_each_other(name):
    together, other = weights(3), weights(3)
    for block in other.values():
        block[0] *= 100.0
        block[2] = 0.0
    for W in (together, other):
        rule = made(name, {})
        steps(rule, W, rule.slots(W), range(1, 8))
    assert all(torch.equal(together[n][1], other[n][1]) for n in together)


@pytest.mark.parametrize("name", NAMES)
def test_every_replica_has_its_own_rate_and_decay(name):
    rates, decays = (0.01, 0.1, 0.05), (0.0, 0.2, 0.4)
    together = weights(3)
    rule = made(name, {}, rates, decays)
    steps(rule, together, rule.slots(together), range(1, 8))
    for r in range(3):
        alone = {n: b[r : r + 1].clone() for n, b in weights(3).items()}
        single = made(name, {}, rates[r : r + 1], decays[r : r + 1])
        steps(single, alone, single.slots(alone), range(1, 8))
        for n, block in together.items():
            torch.testing.assert_close(block[r], alone[n][0], rtol=1e-12, atol=1e-14)


class Lion(torch.optim.Optimizer):
    """Signs of a running mean, counting its steps in Python and in its group."""

    def __init__(self, params, lr=1e-2, beta=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "beta": beta, "weight_decay": weight_decay})

    def step(self, closure=None):
        for group in self.param_groups:
            group["turns"] = group.get("turns", 0) + 1
            for p in group["params"]:
                state = self.state[p]
                state["count"] = state.get("count", 0) + 1
                mean = state.get("mean", torch.zeros_like(p))
                state["mean"] = group["beta"] * mean + (1 - group["beta"]) * p.grad
                p.sub_(group["lr"] / group["turns"] * (state["mean"].sign() + group["weight_decay"] * p))


class Forgetful(Lion):
    """Keeps its count where no checkpoint finds it."""

    def step(self, closure=None):
        self.turns = getattr(self, "turns", 0) + 1
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] / self.turns * p.grad)


class Noisy(Lion):
    """Adds noise."""

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.sub_(0.01 * torch.randn_like(p))


class Rateless(torch.optim.Optimizer):
    """Knows its rate itself."""

    def __init__(self, params):
        super().__init__(params, {})


def test_a_class_of_ones_own(units, data):
    options = {"lr": 0.01, "steps": 12, "replicas": 2, "scale": 0.3, "dtype": "float64", "verify": False}
    run = nqf.compare(units, data, ["original"], optimizer=Lion, optimizer_options={"beta": 0.8}, weight_decay=0.1, **options)
    settings = run.manifest["settings"]
    assert settings["optimizer"] == f"{__name__}.Lion" and settings["optimizer_options"] == {"beta": 0.8}
    assert len(settings["optimizer_source"]) == 64 and settings["weight_decay"] == [0.1, 0.1]
    for r in range(2):
        W = {n: b[0] for n, b in initial_weights(units, [r], 0.3, torch.float64).items()}
        leaves = {n: b.clone().requires_grad_() for n, b in W.items()}
        optimizer = Lion(list(leaves.values()), lr=0.01, beta=0.8, weight_decay=0.1)
        for _ in range(12):
            optimizer.zero_grad()
            ((units(leaves, {"x": data.x["x"].double()}) - data.y) ** 2).sum().div(data.n).backward()
            with torch.no_grad():
                optimizer.step()
        for n, block in run.weights["original"].items():
            torch.testing.assert_close(block[r], leaves[n].detach(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("optimizer", "options", "message"),
    [
        (Forgetful, {}, "remembers something outside its state"),
        (Noisy, {}, "draws from torch's global random numbers"),
        (Rateless, {}, "takes no lr"),
        ("sparseadam", {}, "torch.optim.SparseAdam cannot be stepped: RuntimeError: SparseAdam does not support dense"),
        ("adamw", {"beta": 1}, "torch.optim.AdamW has no option 'beta'. Did you mean 'betas'"),
        ("adamw", {"betas": [2.0, 0.9]}, "with betas=.* cannot be stepped: ValueError: Invalid beta parameter"),
        ("adamw", {"lr": 0.1}, "the rate is given by lr="),
        ("gd", {"betas": 1}, "optimizer 'gd' has no option 'betas'"),
        ("adamw", 7, "optimizer_options must be a dict of options by name, got 7"),
        ("adamx", {}, "Did you mean 'adamax'"),
        (torch.optim.Optimizer, {}, "optimizer must be one of"),
        (torch.optim.SGD([torch.zeros(1)], lr=0.1), {}, "must be a name or a class, got a made SGD"),
    ],
)
def test_what_cannot_be_trained_with_is_told(units, data, tmp_path, optimizer, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.compare(
            units, data, optimizer=optimizer, optimizer_options=options, directory=tmp_path / "run", verify=False, steps=3
        )
    assert not (tmp_path / "run").exists()


def test_a_constant_is_given_once(units, data):
    options = {"optimizer_options": {"weight_decay": 0.1, "momentum": 0.5}, "verify": False, "steps": 2, "optimizer": "rmsprop"}
    with pytest.raises(InvalidInput, match="weight_decay is given twice"):
        nqf.compare(units, data, weight_decay=0.2, **options)
    with pytest.raises(InvalidInput, match="momentum is given twice"):
        nqf.compare(units, data, momentum=0.2, **options)
    settings = nqf.compare(units, data, **options).manifest["settings"]
    assert settings["weight_decay"] == [0.1] and settings["momentum"] == 0.5 and settings["optimizer_options"] == {}
    settings = nqf.compare(units, data, optimizer="adamw", verify=False, steps=2).manifest["settings"]
    assert settings["optimizer"] == "torch.optim.AdamW" and settings["weight_decay"] == [0.01] and settings["lr"] == [1e-3]


@pytest.mark.parametrize("model", ["order-parameters", "compressed"])
def test_models_that_must_be_linear_refuse_by_name(units, data, model):
    with pytest.raises(InvalidInput, match=f"{model} cannot follow torch.optim.SGD: .* use|Use a rule that is linear"):
        nqf.compare(units, data, [model], optimizer="sgd", verify=False, steps=2)


@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize("name", ["adamw", "rmsprop"])
def test_a_run_is_the_loop_that_one_writes(units, data, loop_by_hand, name, batch):
    x = {"x": data.x["x"].double()}
    options = {"steps": 25, "scale": 0.3, "dtype": "float64", "verify": False, "batch": batch, "batch_seed": 4}
    run = nqf.compare(units, data, ["original", "nqf"], optimizer=name, lr=0.01, **options)
    W = {key: block[0] for key, block in initial_weights(units, [0], 0.3, torch.float64).items()}
    batches = None if batch is None else Batches(data.n, batch, 4, torch.device("cpu"))
    history = loop_by_hand(
        lambda V, index: units(V, {"x": x["x"][index]}), W, data.y, 25, lambda p: of_torch()[name](p, lr=0.01), batches
    )
    for key, block in run.weights["original"].items():
        torch.testing.assert_close(block[0], history[-1][key], rtol=1e-10, atol=1e-12)


def test_lbfgs_trains_every_replica_by_itself(units, data):
    options = {"steps": 8, "scale": 0.3, "dtype": "float64", "verify": False, "optimizer": "lbfgs"}
    both = nqf.compare(units, data, ["nqf"], replicas=2, **options)
    second = nqf.compare(units, data, ["nqf"], seed=1, **options)
    first, last = both.curves()[1][0, :, 0], both.curves()[1][0, :, -1]
    assert (last < 0.02 * first).all()
    for key, block in both.weights["nqf"].items():
        torch.testing.assert_close(block[1], second.weights["nqf"][key][0], rtol=1e-6, atol=1e-8)


def test_decay_of_a_rule_that_has_none_enters_its_loss():
    W, plain = weights(1), weights(1)
    decayed, free = made("lbfgs", {}, (0.5,), (3.0,)), made("lbfgs", {}, (0.5,), (0.0,))
    steps(decayed, W, decayed.slots(W), range(1, 3))
    steps(free, plain, free.slots(plain), range(1, 3))
    reference = {n: b[0].clone().requires_grad_() for n, b in weights(1).items()}
    optimizer = torch.optim.LBFGS(list(reference.values()), lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = sum((1 - torch.cos(p) + 0.25 * p**4 + 1.5 * p**2).sum() for p in reference.values())
        loss.backward()
        return loss

    for _ in range(2):
        optimizer.step(closure)
    for n, block in W.items():
        assert not torch.allclose(block, plain[n])
        torch.testing.assert_close(block[0], reference[n].detach(), rtol=1e-9, atol=1e-11)


def test_optimisers_do_not_outlive_what_they_train():
    rule, W = made("adamw", {}), weights(1)
    steps(rule, W, rule.slots(W), range(1, 3))
    block = weakref.ref(W["u"])
    del W
    gc.collect()
    assert block() is None


def test_values_of_every_kind_are_tensors_and_come_back():
    value = {
        "a": torch.ones(2),
        "b": 3,
        "c": 0.1,
        "d": True,
        "e": None,
        "f": [torch.zeros(1), None, [1, 2.5]],
        "g": (),
        "h": [],
    }
    found = {}
    for name, one in value.items():
        found |= encode(name, one, torch.device("cpu"))
    assert all(isinstance(one, torch.Tensor) for one in found.values())
    back = decode(found)
    assert str(back) == str({name: back[name] for name in back}) and set(back) == set(value)
    assert all(type(back[name]) is type(one) and str(back[name]) == str(one) for name, one in value.items())
    with pytest.raises(TypeError, match="'x' is dict"):
        encode("x", {}, torch.device("cpu"))


@pytest.mark.parametrize("batch", [None, 8])
@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_any_of_them_goes_on_bit_for_bit(units, data, tmp_path, name, batch):
    options = {"optimizer": name, "batch": batch, "scale": 0.2, "lr": [0.01, 0.02], "dtype": "float64", "verify": False}
    options |= {"schedule": "cosine", "schedule_options": {"steps": 30, "floor": 0.1}, "models": ["original", "nqf"]}
    if name == "lbfgs":
        options["optimizer_options"] = {"max_iter": 3}
    straight = nqf.compare(units, data, steps=14, **options)
    nqf.compare(units, data, steps=5, directory=tmp_path / "run", **options)
    for steps in (9, 14):
        resumed = nqf.resume(tmp_path / "run", steps=steps, layer=units, data=data)
    for model in straight.models:
        for block, W in straight.weights[model].items():
            assert torch.equal(W, resumed.weights[model][block])
    np.testing.assert_allclose(resumed.data["time"].values[:, -1], straight.data["time"].values[:, -1], rtol=1e-15)
