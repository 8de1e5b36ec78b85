"""Residuals against numbers that are known in closed form; no hypothesis is needed to use them."""

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.jets import jets
from nqf_registry.verify.residuals.determinism import determinism, global_state
from nqf_registry.verify.residuals.finiteness import finiteness
from nqf_registry.verify.residuals.permutation_symmetry import permutation_symmetry
from nqf_registry.verify.residuals.remainder_order import quadratic_polynomial, remainder_slope
from nqf_registry.verify.residuals.sign_symmetry import sign_symmetry
from nqf_registry.verify.residuals.smoothness import smoothness
from nqf_registry.verify.residuals.structure_matrix import compare
from nqf_registry.verify.residuals.zero_gradient_at_zero import zero_gradient


def square(W, x):
    return ((x @ W["u"]) ** 2).sum(-1, keepdim=True)


SQUARE = {"blocks": {"u": (3,)}}


def test_jets_are_the_taylor_coefficients(layer, setting, normal):
    at = setting(layer("exp", forward=lambda W, x: torch.expm1(x @ W["u"]).sum(-1, keepdim=True), **SQUARE))
    rays = normal(at, count=2)
    found = jets(at, at.zero, rays)
    a = at.scale * torch.einsum("ni,rid->rnd", at.x["x"], rays)  # f along a ray is Σ_d exp(a t) − 1
    for order, factorial in ((1, 1), (2, 2), (3, 6)):
        exact = (a**order).sum(-1, keepdim=True) / factorial
        torch.testing.assert_close(found.plus[:, order], exact, rtol=1e-6, atol=1e-7 * float(at.spread.max()))
        torch.testing.assert_close(found.minus[:, order], exact, rtol=1e-6, atol=1e-7 * float(at.spread.max()))


def test_permutation_residual_is_the_weight_that_differs(layer, setting, normal):
    def weighted(W, x):
        return ((x @ W["u"]) ** 2 * torch.tensor([1.0, 1.5], dtype=torch.float64)).sum(-1, keepdim=True)

    at = setting(layer("weighted", forward=weighted, width=2, **SQUARE))
    W = normal(at)
    residual, worst = permutation_symmetry(at, W, [[0, 1], [1, 0]])
    a = (at.x["x"] @ W) ** 2
    gap = 0.5 * (a[:, 0] - a[:, 1]).abs()
    size = torch.maximum(at.spread[:, 0], a[:, 0] + 1.5 * a[:, 1])
    assert worst == 1
    assert residual == pytest.approx(float((gap / size).max()), rel=1e-9)
    assert permutation_symmetry(setting(layer("plain", forward=square, width=2, **SQUARE)), W, [[1, 0]])[0] == 0


def test_sign_residual_of_a_linear_part(layer, setting, normal):
    at = setting(layer("linear", forward=lambda W, x: (x @ W["u"]).sum(-1, keepdim=True), **SQUARE))
    assert sign_symmetry(at, normal(at))[0] > 0.1
    even = setting(layer("even", forward=square, **SQUARE))
    assert sign_symmetry(even, normal(even))[0] == 0


def test_zero_gradient_of_a_square_of_sums(layer, setting, normal):
    """(Σ_j w_j·x)² is flat at W = 0; by neuron i at zero its gradient is 2 x Σ_{j≠i} w_j·x."""
    at = setting(layer("sum", forward=lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 2, **SQUARE))
    others = normal(at)
    directions = normal(at, count=2, seed=1)[..., 0]
    seen = zero_gradient(at, others, 1, directions)
    rest = others.clone()
    rest[:, 1] = 0
    exact = 2 * at.x["x"] * (at.x["x"] @ rest).sum(-1, keepdim=True)  # (n, p)
    assert seen.autodiff == pytest.approx(float((exact.abs() / at.spread).max()), rel=1e-10)
    assert seen.differences == pytest.approx(float(((exact @ directions.mT).abs() / at.spread).max()), rel=1e-6)
    assert seen.disagreement < 1e-6
    assert zero_gradient(at, 0 * others, 1, directions).autodiff == 0


def test_zero_gradient_by_differences_where_autodiff_gives_nan(layer, setting, normal):
    at = setting(layer("norm", unit=lambda w, x: (x * w["u"]).norm(dim=-1, keepdim=True) ** 2, **SQUARE))
    seen = zero_gradient(at, normal(at), 0, normal(at, count=2)[..., 0])
    assert seen.differences < 1e-9


@pytest.mark.parametrize(("phi", "order"), [(torch.relu, 2), (torch.nn.functional.elu, 3), (torch.nn.functional.softsign, 3)])
def test_a_kink_is_seen_at_its_order(units, setting, normal, phi, order):
    at = setting(units("kink", phi))
    a, b = normal(at, count=2)
    kinks = smoothness(at, at.zero, a, b)
    assert kinks.sides[order] > 0.01
    assert max(kinks.sides[:order]) < 1e-5


def test_a_weak_kink_is_measured_by_its_strength(units, setting, normal):
    a, b = normal(setting(units("any", torch.tanh)), count=2)
    found = []
    for strength in (1e-2, 1e-4):
        at = setting(units("leaky", lambda z, s=strength: torch.nn.functional.leaky_relu(z, 1 - s)))
        found.append(smoothness(at, at.zero, a, b).sides[2])
    assert found[0] / found[1] == pytest.approx(100, rel=0.01)


def test_the_maximum_over_units_is_no_form(layer, setting, normal):
    at = setting(layer("max", forward=lambda W, x: ((x @ W["u"]) ** 2).amax(-1, keepdim=True), **SQUARE))
    a, b = normal(at, count=2)
    kinks = smoothness(at, at.zero, a, b)
    assert max(kinks.sides) < 1e-6  # even along every ray
    assert kinks.forms[2] > 0.01


@pytest.mark.parametrize("phi", [torch.tanh, torch.sigmoid, torch.nn.functional.hardtanh, lambda z: z + z.abs() ** 3.5])
def test_what_is_smooth_at_zero_shows_no_kink(units, setting, normal, phi):
    at = setting(units("smooth", phi))
    a, b = normal(at, count=2)
    assert smoothness(at, at.zero, a, b).worst[0] <= 1e-5


def test_compare_sees_one_sample_and_one_output():
    truth = torch.ones(4, 2, 3, 3, dtype=torch.float64)
    truth[2, 1] *= 0.01  # small beside the others
    wrong = truth.clone()
    wrong[2, 1, 0, 1] += 1e-6
    gap = compare(wrong, truth, torch.ones(4, 2, dtype=torch.float64))
    assert gap.place == (2, 1, 0, 1)
    assert gap.residual == pytest.approx(1e-4)
    assert compare(truth, truth, torch.ones(4, 2, dtype=torch.float64)).residual == 0


def test_compare_with_a_zero_truth_uses_the_natural_size():
    zero = torch.zeros(1, 1, 2, 2, dtype=torch.float64)
    assert compare(zero + 1e-3, zero, torch.full((1, 1), 2.0, dtype=torch.float64)).residual == pytest.approx(0.5)


@pytest.mark.parametrize(("phi", "slope"), [(torch.tanh, 4), (torch.nn.functional.gelu, 3), (torch.nn.functional.silu, 3)])
def test_remainder_slopes(units, setting, normal, phi, slope):
    at = setting(units("phi", phi))
    half = 1.0 if slope == 4 else 0.5

    def expansion(stacked):
        W = at.layer.unstack(stacked)
        return half * torch.einsum("ni,rid,rod->rno", at.x["x"], W["u"], W["v"])

    seen = remainder_slope(at, expansion, normal(at, count=4))
    assert seen.slope == pytest.approx(slope, abs=0.02)
    assert seen.low <= seen.slope <= seen.high
    assert seen.decades >= 3


def test_the_interval_of_a_clean_slope_is_narrow(units, setting, normal):
    at = setting(units("tanh", torch.tanh))
    seen = remainder_slope(at, lambda stacked: torch.zeros(len(stacked), 4, 2, dtype=torch.float64), normal(at, count=4))
    assert seen.slope == pytest.approx(2, abs=1e-3)  # R is f itself
    assert seen.high - seen.low < 1e-2


def test_quadratic_polynomials_and_nothing_else(layer, units, setting, normal):
    for forward, small in (
        (square, True),
        (lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 2 + 3, True),
        (lambda W, x: ((x @ W["u"]).abs() ** 2).sum(-1, keepdim=True), True),
        (lambda W, x: ((x @ W["u"]) ** 2 + 1e-6 * (x @ W["u"]) ** 4).sum(-1, keepdim=True), False),
    ):
        at = setting(layer("polynomial", forward=forward, **SQUARE))
        starts, steps = normal(at, count=2), normal(at, count=2, seed=1)
        assert (quadratic_polynomial(at, starts, steps) < 1e-12) is small
    far = setting(units("hard", torch.nn.functional.hardtanh))  # bilinear near zero, and only there
    assert quadratic_polynomial(far, normal(far, count=2), normal(far, count=2, seed=1)) > 1e-3


def test_finiteness_counts_and_names_the_place(layer, setting, normal):
    at = setting(layer("quotient", unit=lambda w, x: (x @ w["u"])[:, None] / w["u"].norm(), **SQUARE))
    count, where = finiteness(at, normal(at))
    assert count > 0 and where == "at W = 0"
    assert finiteness(setting(layer("fine", forward=square, **SQUARE)), normal(at)) == (0, "")


def test_determinism_sees_what_a_call_changes(layer, setting, normal):
    def noisy(W, x):
        return square(W, x) * (1 + torch.rand(()))

    def writing(W, x):
        W["u"].mul_(0.5)
        return square(W, x)

    def drawing(W, x):
        torch.rand(3)
        return square(W, x)

    def reading(W, x):
        x.add_(1)
        return square(W, x)

    calls = []

    def counting(W, x):
        calls.append(1)
        return square(W, x) * (1 + 1e-6 * len(calls))

    for forward, word in ((writing, "W"), (drawing, "random"), (reading, "x")):
        at = setting(layer("changing", forward=forward, **SQUARE))
        seen = determinism(at, normal(at), normal(at, seed=1))
        assert any(word in change for change in seen.changed)
    for forward in (noisy, counting):
        at = setting(layer("moving", forward=forward, **SQUARE))
        assert determinism(at, normal(at), normal(at, seed=1)).residual > 1e-9
    at = setting(layer("plain", forward=square, **SQUARE))
    seen = determinism(at, normal(at), normal(at, seed=1))
    assert (seen.residual, seen.changed) == (0.0, ()) and seen.replicas < 1e-14


def test_determinism_sees_a_replica_axis_that_is_mixed_up(setting, normal, layer):
    def forward(W, x):
        value = ((x @ W["u"]) ** 2).sum(-1, keepdim=True)
        return value.flip(0) if W["u"].ndim == 3 else value

    at = setting(layer("mixed", forward=forward, batched=True, **SQUARE))
    assert determinism(at, normal(at), normal(at, seed=1)).replicas > 0.01


def test_global_state_notices_a_default_dtype():
    before = global_state()["torch's default dtype"]
    torch.set_default_dtype(torch.float64)
    try:
        assert global_state()["torch's default dtype"] != before
    finally:
        torch.set_default_dtype(before)


def test_parameters_of_the_seventeen_are_left_alone(setting, normal):
    for subject in nqf.default_registry().layers():
        at = setting(subject)
        assert determinism(at, normal(at), normal(at, seed=1)).changed == ()
