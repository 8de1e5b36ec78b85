"""After every check, and after one that raises, what a layer holds and the process around it are what they were, bit by bit."""

import random
import warnings
from dataclasses import dataclass, field

import numpy
import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.context import Context
from nqf_registry.verify.holdings import Holdings
from nqf_registry.verify.profiles import PROFILES
from nqf_registry.verify.surroundings import differences, global_state


class Held:
    """A plain object that a layer may hold."""

    def __init__(self):
        self.count = 0
        self.table = {"scale": torch.ones(2)}


def norm():
    module = torch.nn.BatchNorm1d(3, dtype=torch.float64)
    module.running_mean.fill_(0.5)
    return module


@dataclass(frozen=True)
class Holding(nqf.Layer):
    """Σ v_i tanh(u_i·x), holding a module, a tensor, an array, a list and an object that one of the faults below touches."""

    key = "test-holding"
    width: int = 3
    fault: str = "none"
    module: torch.nn.Module = field(default_factory=norm, compare=False)
    tensor: torch.Tensor = field(default_factory=lambda: torch.arange(4.0, dtype=torch.float64), compare=False)
    leaf: torch.Tensor = field(default_factory=lambda: torch.ones(2, requires_grad=True), compare=False)
    array: numpy.ndarray = field(default_factory=lambda: numpy.arange(3.0), compare=False)
    items: list = field(default_factory=lambda: [1, 2], compare=False)
    held: Held = field(default_factory=Held, compare=False)
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(3), compare=False)

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        value = torch.tanh(x["x"] @ W["u"]) @ W["v"].mT
        return FAULTS[self.fault](self, value, x["x"])


def after(act, value):
    act()
    return value


def raising(layer, value, x):
    layer.held.count += 1
    if layer.held.count > 3:
        layer.tensor.zero_()
        raise RuntimeError("enough")
    return value


def leaving(layer, value, x):
    layer.tensor.zero_()
    raise SystemExit(3)


def grow(layer):
    layer.tensor.resize_(8)


def backward(layer):
    with torch.enable_grad():
        (layer.leaf * 2).sum().backward()


def renorm(layer, value, x):
    return value + 0 * layer.module(x.detach()).sum().detach() if len(x) > 1 else value


FAULTS = {
    "none": lambda layer, value, x: value,
    "raises at the fourth call": raising,
    "leaves the program": leaving,
    "noise": lambda layer, value, x: value + torch.rand(()),
    "numpy noise": lambda layer, value, x: value + numpy.random.rand(),
    "python noise": lambda layer, value, x: value + random.random(),
    "own generator": lambda layer, value, x: value + 0 * torch.rand((), generator=layer.generator),
    "seeds torch": lambda layer, value, x: after(lambda: torch.manual_seed(5), value),
    "default dtype": lambda layer, value, x: after(lambda: torch.set_default_dtype(torch.float64), value),
    "matmul precision": lambda layer, value, x: after(lambda: torch.set_float32_matmul_precision("medium"), value),
    "threads": lambda layer, value, x: after(lambda: torch.set_num_threads(3), value),
    "warnings filters": lambda layer, value, x: after(lambda: warnings.filterwarnings("ignore", message="x"), value),
    "numpy errors": lambda layer, value, x: after(lambda: numpy.seterr(all="raise"), value),
    "anomaly mode": lambda layer, value, x: after(lambda: torch.autograd.set_detect_anomaly(True), value),
    "own tensor": lambda layer, value, x: after(lambda: layer.tensor.add_(1), value),
    "own tensor resized": lambda layer, value, x: after(lambda: grow(layer), value),
    "own array": lambda layer, value, x: after(lambda: layer.array.__iadd__(1), value),
    "own list": lambda layer, value, x: after(lambda: layer.items.append(3), value),
    "own counter": lambda layer, value, x: after(lambda: setattr(layer.held, "count", layer.held.count + 1), value),
    "own table": lambda layer, value, x: after(lambda: layer.held.table["scale"].mul_(2), value),
    "gradient left": lambda layer, value, x: after(lambda: backward(layer), value),
    "requires grad": lambda layer, value, x: after(lambda: layer.tensor.requires_grad_(True), value),
    "training flag": lambda layer, value, x: after(lambda: layer.module.eval(), value),
    "batch norm in training": renorm,
    "parameters replaced": lambda layer, value, x: after(
        lambda: setattr(layer.module, "weight", torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))), value
    ),
}


def snapshot(layer):
    """What there is to keep, read by hand rather than by the code under test."""
    module = {name: t.clone() for name, t in layer.module.state_dict().items()}
    return {
        "module": module,
        "weight": id(layer.module.weight),
        "training": layer.module.training,
        "tensor": (layer.tensor.tolist(), tuple(layer.tensor.shape), layer.tensor.requires_grad),
        "leaf": (layer.leaf.tolist(), layer.leaf.grad),
        "array": layer.array.tolist(),
        "items": list(layer.items),
        "held": (layer.held.count, layer.held.table["scale"].tolist()),
        "generator": layer.generator.get_state().tolist(),
        "torch": torch.get_rng_state().tolist(),
        "numpy": numpy.random.get_state()[1].tolist(),
        "python": random.getstate(),
        "dtype": torch.get_default_dtype(),
        "precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "filters": list(warnings.filters),
        "errors": numpy.geterr(),
        "anomaly": torch.is_anomaly_enabled(),
        "gradients": torch.is_grad_enabled(),
    }


def assert_same(before, now):
    for name, value in before.items():
        if name == "module":
            assert all(torch.equal(value[key], now[name][key]) for key in value), name
        else:
            assert value == now[name], name


@pytest.mark.parametrize("fault", FAULTS)
def test_a_verification_leaves_everything_as_it_was(fault):
    layer = Holding(fault=fault)
    before = snapshot(layer)
    report = nqf.verify(layer)
    assert_same(before, snapshot(layer))
    assert report.passed is (fault in ("none", "own list")), report  # a list that only grows is a cache


@pytest.mark.parametrize("name", CHECKS)
@pytest.mark.parametrize("fault", ["none", "raises at the fourth call", "own tensor", "default dtype"])
def test_a_check_called_alone_does_too(fault, name):
    layer = Holding(fault=fault)
    before = snapshot(layer)
    try:
        CHECKS[name](Context(layer, PROFILES["dev"], 0))
    except Exception as error:
        assert "enough" in str(error)
    assert_same(before, snapshot(layer))


def test_an_interrupt_passes_and_leaves_everything_too():
    class Interrupted(Holding):
        def forward(self, W, x):
            self.tensor.zero_()
            torch.set_default_dtype(torch.float64)
            raise KeyboardInterrupt

    layer = Interrupted()
    before = snapshot(layer)
    with pytest.raises(KeyboardInterrupt):
        nqf.verify(layer)
    assert_same(before, snapshot(layer))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("own tensor", "a call changes its own tensor tensor"),
        ("own array", "a call changes its own array array"),
        ("own counter", "a call changes its own attribute held.count"),
        ("own table", "a call changes its own tensor held.table['scale']"),
        ("batch norm in training", "its own tensor module.running_mean"),
        ("training flag", "the training flag of module"),
        ("own generator", "its own random generator generator"),
        ("default dtype", "a call changes torch's default dtype"),
        ("warnings filters", "a call changes the warnings filters"),
        ("anomaly mode", "a call changes torch's anomaly mode"),
    ],
)
def test_what_a_call_changes_is_named(fault, said):
    report = nqf.verify(Holding(fault=fault))
    assert said in report["determinism"].message and report.classification == "undecided"


def test_settings_that_differ_are_named_and_put_back():
    before = global_state()
    assert differences(before, global_state()) == []
    torch.set_default_dtype(torch.float64)
    try:
        assert differences(before, global_state()) == ["torch's default dtype"]
    finally:
        torch.set_default_dtype(torch.float32)


def test_nan_and_minus_zero_are_kept_as_they_are():
    layer = Holding()
    layer.tensor[:2] = torch.tensor([float("nan"), -0.0], dtype=torch.float64)
    held = Holdings(layer)
    assert held.changes() == []
    layer.tensor[1] = 0.0
    assert held.changes() == ["its own tensor tensor"]
    held.restore()
    assert layer.tensor[1].signbit() and held.changes() == []


# --- samples ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mix",
    [
        lambda f, x: f + 1e-3 * f.mean(0),
        lambda f, x: torch.softmax(f, 0),
        lambda f, x: (f - f.mean(0)) if len(f) > 1 else f,
        lambda f, x: f * (1 + 1e-6 * len(f)),
        lambda f, x: f + 1e-6 * f.cumsum(0),
        lambda f, x: f * torch.linspace(1, 1.001, len(f), dtype=f.dtype)[:, None],
    ],
)
def test_a_sample_that_sees_the_others_is_no_function_of_one_x(layer, mix):
    def forward(W, x):
        return mix(torch.tanh(x @ W["u"]) @ W["v"].mT, x)

    report = nqf.verify(layer("mixing", forward=forward))
    assert not report.passed and report.classification == "undecided"
    assert "changes with the other samples of its batch" in report["determinism"].message
    assert "no mean over the batch" in report["determinism"].advice


def test_single_precision_is_not_blamed_for_its_rounding(layer):
    def forward(W, x):
        return (torch.tanh(x.float() @ W["u"].float()) @ W["v"].float().mT).double()

    assert nqf.verify(layer("coarse", forward=forward))["determinism"].status == "pass"
