"""The length scale follows the inputs, and rounding is measured."""

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.length_scale import find_scale, profile


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e4])
def test_the_scale_of_a_tanh_unit_is_inverse_to_its_inputs(units, setting, size):
    at = setting(units("tanh", torch.tanh), scale=size)
    assert at.order == pytest.approx(2.0)
    assert not at.homogeneous
    assert 0.05 < at.scale * size < 1.0


def test_a_quadratic_layer_has_no_scale_of_its_own(layer, setting):
    at = setting(layer("square", unit=lambda w, x: (x @ w["u"])[:, None] ** 2, blocks={"u": (3,)}))
    assert (at.scale, at.order, at.homogeneous) == (1.0, 2.0, True)


def test_a_plateau_far_away_is_not_the_scale(setting):
    attention = nqf.default_registry().get("multi-head-attention", tokens=3, d_v=1, d_k=3)
    at = setting(attention, scale=600.0)
    assert at.scale < 0.01  # where softmax saturates f is quadratic again, a thousand times further out


@pytest.mark.parametrize(("phi", "order"), [(lambda a: a**3, 4), (lambda a: a**5, 6), (lambda a: a + 1, 1)])
def test_the_leading_order_is_read_off(units, setting, phi, order):
    assert setting(units("power", phi)).order == pytest.approx(order, abs=0.01)


def test_a_layer_that_is_flat_at_zero_has_no_order(units, setting):
    at = setting(units("shrink", torch.nn.functional.softshrink))
    assert at.order is None and not at.homogeneous


def test_single_precision_inside_is_seen(layer, setting):
    def coarse(W, x):
        return (torch.tanh(x.float() @ W["u"].float()) @ W["v"].float().mT).double()

    assert setting(layer("coarse", forward=coarse)).precision > 1e-10
    assert setting(layer("fine", forward=lambda W, x: torch.tanh(x @ W["u"]) @ W["v"].mT)).precision < 1e-15


def test_an_offset_hides_small_weights(units, setting):
    """With f(0) = 1000 the rounding of f is 1000 times larger, and the profile says so."""
    plain, raised = units("plain", torch.tanh), units("raised", torch.tanh)
    object.__setattr__(raised, "forward", lambda W, x: torch.tanh(x["x"] @ W["u"]) @ W["v"].mT + 1000)
    x = setting(plain).x
    assert float(profile(raised, x).rounding[20]) > 1e6 * float(profile(plain, x).rounding[20])
    scale = find_scale(profile(raised, x))
    assert scale is not None and scale.order == pytest.approx(2.0, abs=0.02)


def test_the_scale_is_the_smallest_of_any_output(layer, setting):
    """Beside an output that grows without end, the one that saturates sets the scale; a cancelling constant sets none."""

    def both(W, x):
        a = x @ W["u"]
        return torch.stack([1e6 * (a**2).sum(-1), torch.tanh(100 * a**2).sum(-1)], -1)

    at = setting(layer("both", forward=both, blocks={"u": (3,)}))
    alone = setting(layer("alone", forward=lambda W, x: both(W, x)[:, 1:], blocks={"u": (3,)}))
    assert at.scale == alone.scale < 0.1 and at.order == pytest.approx(2.0) and not at.homogeneous

    def cancelling(W, x):
        q = ((x @ W["u"]) ** 2).sum(-1)
        return torch.stack([q, q + 1e6 - 1e6], -1)

    assert setting(layer("cancelling", forward=cancelling, blocks={"u": (3,)})).homogeneous
