"""Residuals by themselves: they need neither hypothesis nor pytest, call nothing perfect unmeasured, and refuse misuse."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify import residuals
from nqf_registry.verify.residuals import Setting, Undecided, measure
from nqf_registry.verify.setting import Nothing

BLOCKS = {"u": (3,), "v": (2,)}
EYE = torch.eye(5, dtype=torch.float64)


def tanh(W, x):
    return torch.tanh(x @ W["u"]) @ W["v"].mT


@pytest.fixture
def at(layer, setting):
    return setting(layer("plain", forward=tanh, width=3))


def calls(at, W, fresh):
    """Every residual that asks f, by name, called at these weights."""
    return {
        "permutation_symmetry": lambda: residuals.permutation_symmetry(at, W, [[1, 2, 0]]),
        "sign_symmetry": lambda: residuals.sign_symmetry(at, W),
        "zero_gradient": lambda: residuals.zero_gradient(at, W, 0, EYE),
        "smoothness": lambda: residuals.smoothness(at, W, fresh, W),
        "minimality": lambda: residuals.minimality(at, W, fresh),
        "gradient": lambda: residuals.gradient(at, W, torch.stack([fresh, W])),
        "remainder_slope": lambda: residuals.remainder_slope(at, lambda W: torch.zeros(len(W), 4, 2), W),
        "quadratic_polynomial": lambda: residuals.quadratic_polynomial(at, W, fresh),
        "measure": lambda: measure(at),
        "measure_along": lambda: residuals.measure_along(at),
    }


def with_weights(at, W, fresh):
    """Those that take weights, and the two that do not judge by |f(W) − f(0)|."""
    by_name = {name: call for name, call in calls(at, W, fresh).items() if not name.startswith("measure")}
    return by_name | {
        "finiteness": lambda: residuals.finiteness(at, W),
        "determinism": lambda: residuals.determinism(at, W, fresh),
    }


NAMES = sorted(calls(None, EYE, EYE))
TAKES_WEIGHTS = sorted(with_weights(None, EYE, EYE))


def test_each_works_where_hypothesis_and_pytest_cannot_be_imported():
    program = Path(__file__).parent / "using_every_residual.py"
    done = subprocess.run([sys.executable, program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["nqf_registry.verify", "nqf_registry.verify.residuals"])
def test_the_names_are_those_of_the_stub_and_no_submodules(package):
    package = sys.modules[package]  # by attribute nqf_registry.verify is the function
    stub = ast.parse(Path(package.__file__).with_suffix(".pyi").read_text())
    seen = {alias.asname: node.module for node in stub.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert seen == package._EXPORTS
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert not inspect.ismodule(getattr(package, name))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = package.no_such_name


# Nothing measured is no zero


def noisy(W, x):
    return tanh(W, x) * (1 + 0.1 * torch.rand(()))


def additive(W, x):
    return tanh(W, x) + 1e-6 * torch.rand(())


def one_output(W, x):  # the small one of two
    return tanh(W, x) * torch.stack([torch.ones(()), 1e-4 * torch.rand(())]).double()


def counting():
    called = []

    def forward(W, x):
        called.append(1)
        return tanh(W, x) * (1 + 1e-6 * len(called))

    return forward


@pytest.mark.parametrize("name", NAMES)
def test_of_a_layer_with_noise_nothing_is_said(layer, setting, normal, name):
    for forward in (noisy, additive, one_output, counting()):
        at = setting(layer("noisy", forward=forward, width=3))
        with pytest.raises(Undecided, match="two values for the same W and x"):
            calls(at, normal(at), normal(at, seed=1))[name]()


def test_determinism_measures_noise_all_the_same(layer, setting, normal):
    at = setting(layer("noisy", forward=noisy, width=3))
    assert residuals.determinism(at, normal(at), normal(at, seed=1)).residual > 1e-3
    assert residuals.finiteness(at, normal(at)) == (0, "")


@pytest.mark.parametrize("name", NAMES)
def test_of_a_layer_in_single_precision_nothing_is_said(layer, setting, normal, name):
    """What float32 leaves is measured as rounding, and taken off: an asymmetry below it would be a zero."""

    def coarse(W, x):
        return tanh({name: block.float() for name, block in W.items()}, x.float()).double()

    at = setting(layer("coarse", forward=coarse, width=3))
    with pytest.raises(Undecided, match="float32"):
        calls(at, normal(at), normal(at, seed=1))[name]()


def test_a_layer_without_noise_is_measured_where_it_has_no_value_at_zero(layer, setting, normal):
    """Two values that are both nan are one value."""
    at = setting(layer("quotient", unit=lambda w, x: (x @ w["u"])[:, None] ** 3 / w["u"].square().sum(), width=3))
    assert residuals.permutation_symmetry(at, normal(at), [[1, 0, 2]])[0] < 1e-12


def test_where_nothing_moves_nothing_is_measured(at, normal):
    equal = normal(at)[:, :1].expand(-1, 3)
    for W in (at.zero, equal):
        with pytest.raises(Nothing, match="nothing can be measured"):
            residuals.permutation_symmetry(at, W, [[1, 2, 0]])
    with pytest.raises(Nothing, match="no neuron has a sign"):
        residuals.sign_symmetry(at, at.zero)
    for W in (at.zero, torch.ones_like(at.zero)):
        with pytest.raises(Nothing, match="moves nothing"):
            residuals.minimality(at, W, normal(at))


def test_an_example_at_which_nothing_is_measured_is_not_counted():
    from nqf_registry.verify.drive import measure_one
    from nqf_registry.verify.strategies import Draw, simplify

    def nothing(_):
        raise Nothing("all neurons are equal")

    outcome = measure_one(nothing, Draw())
    assert (outcome.examples, outcome.worst, outcome.reason) == (0, None, None)

    def fails(W):  # at W = 0 it cannot be measured, which is no failure
        if not W.any():
            nothing(W)
        return True

    small = simplify(torch.tensor([[3.0, 2.0]], dtype=torch.float64), 1.0, fails)
    assert int((small != 0).sum()) == 1


def test_smoothness_along_rays_that_are_not_finite_is_nan(layer, setting, normal):
    base = normal(setting(layer("plain", forward=tanh, width=3)))

    def moat(W, x, neurons):  # around the base point there is no value, where these neurons move
        moved = (W["u"] - base[:3])[:, neurons].abs().amax()
        return tanh(W, x) + torch.where((moved > 0) & (moved < 0.2), torch.nan, 0.0)

    at = setting(layer("moat", forward=lambda W, x: moat(W, x, [0, 1, 2]), width=3))
    kinks = residuals.smoothness(at, base, normal(at, seed=1), normal(at, seed=2))
    assert kinks.rays == 0 and kinks.worst[0] != kinks.worst[0] and kinks.worst[1] == "nothing was measured"
    at = setting(layer("half-moat", forward=lambda W, x: moat(W, x, [1]), width=3))
    a, b = normal(at, seed=1), normal(at, seed=2)
    a[:, 1] = 0
    kinks = residuals.smoothness(at, base, a, b)
    assert kinks.rays == 1 and kinks.forms[2] != kinks.forms[2]  # one ray shows no form
    assert kinks.worst[0] < 1e-5
    assert residuals.smoothness(at, base, a, 2 * a).rays == 5


# Wrong use is refused


@pytest.mark.parametrize("name", TAKES_WEIGHTS)
def test_weights_are_taken_as_blocks_and_in_any_precision(at, normal, name):
    """Rounded to single precision, so that casting them changes nothing."""
    W, fresh = (0.1 * normal(at, seed=seed).float() for seed in (0, 1))
    expected = with_weights(at, W.double(), fresh.double())[name]()
    for give in (lambda w: w, at.layer.unstack, lambda w: at.layer.unstack(w.double()), lambda w: w.clone().requires_grad_()):
        if name == "gradient" and isinstance(give(W), dict):
            continue  # its rays are stacked
        assert repr(with_weights(at, give(W), give(fresh))[name]()) == repr(expected)


WRONG = [
    (lambda w: w.mT, r"must be stacked floating weights .* p = 5 and d = 3.* got the shape \(3, 5\)"),
    (lambda w: w[:, :2], r"got the shape \(5, 2\)"),
    (lambda w: w[None, None], r"got the shape \(1, 1, 5, 3\)"),
    (lambda w: w.tolist(), "got list"),
    (lambda w: w.numpy(), "got ndarray"),
    (lambda w: w.long(), "got a tensor of torch.int64"),
    (lambda w: w * torch.nan, "must be finite; 15 of its 15 numbers"),
    (lambda w: w / 0, "must be finite; 15 of its 15 numbers"),
    (lambda w: {"u": w[:3]}, "W must be a dict of the blocks u, v; got u"),
]


@pytest.mark.parametrize("name", TAKES_WEIGHTS)
def test_wrong_weights_are_refused(at, normal, name):
    W = normal(at)
    for wrong, message in WRONG:
        for given in ((wrong(W), normal(at, seed=1)), (normal(at, seed=1), wrong(W))):
            if name in ("sign_symmetry", "permutation_symmetry", "zero_gradient", "finiteness", "remainder_slope"):
                given = (wrong(W), W)
            if name == "gradient":
                with pytest.raises(nqf.InvalidInput, match=message):
                    residuals.gradient(at, wrong(W), W)
                continue
            with pytest.raises(nqf.InvalidInput, match=message):
                with_weights(at, *given)[name]()


@pytest.mark.parametrize("name", sorted({*NAMES, *TAKES_WEIGHTS}))
def test_a_layer_is_no_setting(at, normal, name):
    by_name = calls(at.layer, normal(at), normal(at, seed=1)) | with_weights(at.layer, normal(at), normal(at, seed=1))
    with pytest.raises(nqf.InvalidInput, match="a Setting, a layer at given inputs; got"):
        by_name[name]()


def test_residuals_of_what_is_declared_refuse_too(at, normal):
    W = normal(at)
    for call, message in (
        (lambda: residuals.pullback(at, W), "there is no pullback to measure"),
        (lambda: residuals.linearised(at, W), "there is no linearise to measure"),
        (lambda: residuals.one_by_one(at, ["structure"], W), "there is no structure to measure"),
        (lambda: residuals.one_by_one(at, ["strukture"], W), "the parts of an expansion are structure, .* got 'strukture'"),
        (lambda: residuals.gaps_along(at, residuals.measure_along(at), ["linear"]), "there is no linear to measure"),
        (lambda: residuals.gaps_along(at, residuals.measure_along(at), ["A"]), "got 'A'"),
        (lambda: residuals.gaps_along(at.layer, None, []), "the layer plain itself"),
        (lambda: residuals.pullback(at.layer, W), "the layer plain itself"),
        (lambda: residuals.linearised(at, W.mT), r"got the shape \(3, 5\)"),
    ):
        with pytest.raises(nqf.InvalidInput, match=message):
            call()


def test_nothing_to_compare_one_by_one_is_nan(at, setting, normal):
    gap, part, _ = residuals.one_by_one(at, [], normal(at))
    assert gap != gap and part == ""
    quadratic = nqf.default_registry().get("quadratic-network")
    for n, measured in ((1, False), (2, True)):
        alone = setting(quadratic, n=n)
        gap = residuals.one_by_one(alone, ["structure"], normal(alone))[0]
        assert (gap == gap) is measured


@pytest.mark.parametrize(
    ("orders", "message"),
    [
        ([], "must be a list of permutations.* got \\[\\]"),
        (7, "must be a list of permutations.* got 7"),
        ([[0, 0, 2]], "every index 0 … 2 once; got \\[0, 0, 2\\]"),
        ([[0, 0, 2, 3]], "got \\[0, 0, 2, 3\\]"),
        ([[1, 0]], "got \\[1, 0\\]"),
        ([[-1, 0, 1]], "got \\[-1, 0, 1\\]"),
        ([[0, 1, 2]], "leave every neuron in its place"),
    ],
)
def test_orders_are_permutations(at, normal, orders, message):
    with pytest.raises(nqf.InvalidInput, match=message):
        residuals.permutation_symmetry(at, normal(at), orders)


def test_orders_may_be_tensors(at, normal):
    W, order = normal(at), torch.tensor([2, 0, 1])
    assert residuals.permutation_symmetry(at, W, [order]) == residuals.permutation_symmetry(at, W, [order.tolist()])


def test_directions_of_length_zero_are_refused(at, normal):
    W, zero = normal(at), at.zero
    for call in (
        lambda: residuals.smoothness(at, W, zero, W),
        lambda: residuals.smoothness(at, W, W, zero),
        lambda: residuals.gradient(at, W, torch.stack([W, zero])),
        lambda: residuals.remainder_slope(at, lambda W: W, zero),
        lambda: residuals.quadratic_polynomial(at, W, zero),
        lambda: residuals.zero_gradient(at, W, 0, 0 * EYE),
    ):
        with pytest.raises(nqf.InvalidInput, match="a direction that is not zero"):
            call()


def test_none_and_too_few_are_refused(at, layer, setting, normal):
    W = normal(at)
    single = setting(layer("single", forward=tanh, width=1))
    for call, message in (
        (lambda: residuals.gradient(at, W, W[None][:0]), r"got the shape \(0, 5, 3\)"),
        (lambda: residuals.remainder_slope(at, lambda W: W, W[None][:0]), r"got the shape \(0, 5, 3\)"),
        (lambda: residuals.quadratic_polynomial(at, W[None][:0], W[None][:0]), r"got the shape \(0, 5, 3\)"),
        (lambda: residuals.quadratic_polynomial(at, torch.stack([W, W]), W), "got 2 and 1"),
        (lambda: residuals.zero_gradient(at, W, 0, EYE[:0]), r"one or more directions of one neuron, p = 5; got .*\(0, 5\)"),
        (lambda: residuals.zero_gradient(at, W, 0, W), r"got torch.float64 \(5, 3\)"),
        (lambda: residuals.zero_gradient(at, W, 0, [1.0]), "got list"),
        (lambda: residuals.zero_gradient(at, W, 3, EYE), "neuron must be one of 0 … 2, got 3"),
        (lambda: residuals.zero_gradient(at, W, -1, EYE), "got -1"),
        (lambda: residuals.determinism(at, W, W), "must be different weights"),
        (lambda: residuals.minimality(at, W, W), "must be other weights"),
        (lambda: residuals.minimality(single, normal(single), normal(single, seed=1)), "a width of two or more, got 1"),
        (lambda: residuals.permutation_symmetry(single, normal(single), [[0]]), "at a width of two or more"),
    ):
        with pytest.raises(nqf.InvalidInput, match=message):
            call()


def test_a_setting_is_a_layer_at_inputs_that_fit(at):
    for call, message in (
        (lambda: Setting(type(at.layer), at.x), "pass an instance, not the class"),
        (lambda: Setting("two-layer-mlp", at.x), "takes an nqf.Layer, got str"),
        (lambda: Setting(at.layer, at.x["x"]), "x must be a dict of tensors"),
        (lambda: Setting(at.layer, {"z": at.x["x"]}), "the inputs x"),
        (lambda: Setting(at.layer, {"x": at.x["x"][:0]}), "at least one sample"),
    ):
        with pytest.raises(nqf.InvalidInput, match=message):
            call()


# What cannot be measured says why


def test_why_second_derivatives_are_not_known(layer, setting):
    at = setting(layer("power", forward=lambda W, x: ((x @ W["u"]).abs() ** 1.5).sum(-1, keepdim=True), blocks={"u": (3,)}))
    with pytest.raises(Undecided, match="autodiff gives nan along random rays, and differences at two steps agree only to"):
        measure(at)


def test_two_modes_that_differ_are_said_to(at, monkeypatch):
    module = importlib.import_module("nqf_registry.verify.measured")
    monkeypatch.setattr(module, "_between_modes", lambda *_: 0.5)
    monkeypatch.setattr(module, "COARSE", -1.0)
    with pytest.raises(Undecided, match=r"its two modes differ by 5.0e-01 .* two steps agree only to"):
        measure(at)
