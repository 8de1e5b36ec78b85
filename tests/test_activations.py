"""Activations by name: their value, slope, curvature and parity against autodiff."""

import pytest
import torch

import nqf_registry as nqf

NAMES = nqf.activations()
SMOOTH = [name for name in NAMES if nqf.activation(name).smooth]


def test_the_list_is_sorted_and_holds_the_usual_ones():
    assert list(NAMES) == sorted(NAMES)
    assert {"tanh", "erf", "gelu", "gelu-tanh", "silu", "sigmoid", "sin", "identity", "relu"} <= set(NAMES)


@pytest.mark.parametrize("name", SMOOTH)
def test_the_expansion_at_zero_is_what_autodiff_says(name):
    phi, zero = nqf.activation(name), torch.zeros((), dtype=torch.float64)
    first = torch.func.grad(phi.function)
    found = torch.stack([phi(zero), first(zero), torch.func.grad(first)(zero)])
    torch.testing.assert_close(
        found, torch.tensor([phi.value, phi.slope, phi.curvature], dtype=torch.float64), atol=1e-14, rtol=1e-14
    )


@pytest.mark.parametrize("name", NAMES)
def test_the_expansion_at_zero_is_what_differences_say(name):
    """Central differences give the mean of both sides at a kink, where autodiff gives one of them."""
    phi, h = nqf.activation(name), 1e-3
    plus, zero, minus = phi(torch.tensor([h, 0.0, -h], dtype=torch.float64)).tolist()
    assert zero == pytest.approx(phi.value, abs=1e-15)
    assert (plus - minus) / (2 * h) == pytest.approx(phi.slope, abs=1e-5 if phi.smooth else 1e-3)
    if phi.smooth:
        assert (plus + minus - 2 * zero) / h**2 == pytest.approx(phi.curvature, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_odd_is_odd_and_no_other_is(name):
    phi = nqf.activation(name)
    z = torch.linspace(0.1, 3, 30, dtype=torch.float64)
    gap = float((phi(-z) + phi(z)).abs().max())
    assert (gap < 1e-14) == phi.odd


@pytest.mark.parametrize("name", NAMES)
def test_smooth_means_that_both_sides_agree_to_third_order(name):
    """Each side of zero gets a quartic of its own; its coefficients of order 1 to 3 must not jump."""
    phi, h = nqf.activation(name), 2.0**-5
    steps = torch.arange(1.0, 5.0, dtype=torch.float64)
    powers = (h * steps)[:, None] ** steps

    def coefficients(sign):
        values = phi(sign * h * steps) - phi(torch.zeros(1, dtype=torch.float64))
        return torch.linalg.solve(powers, values) * sign**steps

    jump = (coefficients(1.0) - coefficients(-1.0))[:3].abs()
    assert bool((jump < 0.1).all()) == phi.smooth


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_linearise_is_what_autograd_says_whatever_memory_it_takes(name, overwrite):
    phi, z = nqf.activation(name), torch.linspace(-3.05, 3, 40, dtype=torch.float64)
    cotangent = torch.randn(40, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    leaf = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(phi(leaf), leaf, cotangent)
    given = z.clone()
    value, back = phi.linearise(given, overwrite=overwrite)
    torch.testing.assert_close(value, phi(z), atol=1e-15, rtol=1e-14)
    for _ in range(2):  # a cotangent may be lost, the value may not
        torch.testing.assert_close(back(cotangent.clone()), expected, atol=1e-14, rtol=1e-14)
    assert overwrite or torch.equal(given, z)


@pytest.mark.parametrize("name", ["tanh", "sigmoid"])
def test_what_autograd_follows_is_not_overwritten(name):
    z = torch.ones(2, dtype=torch.float64, requires_grad=True)
    value, _ = nqf.activation(name).linearise(1.0 * z, overwrite=True)
    (slope,) = torch.autograd.grad(value.sum(), z)
    torch.testing.assert_close(slope, torch.func.vmap(torch.func.grad(nqf.activation(name).function))(torch.ones_like(z)))


@pytest.mark.parametrize("name", ["Tanh", "tahn", "", None, 3])
def test_an_unknown_name_gets_the_list(name):
    with pytest.raises(nqf.InvalidInput, match="expected an activation by name, one of arctan, elu"):
        nqf.activation(name)


def test_a_near_miss_gets_a_suggestion():
    with pytest.raises(nqf.InvalidInput, match="Did you mean 'tanh'"):
        nqf.activation("tahn")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_over_is_what_is_computed_anew(name, dtype):
    """Down to the smallest numbers, to a few roundings of each one, and where one cotangent stands for several."""
    phi = nqf.activation(name)
    sizes = torch.tensor([1e-30, 1e-8, 1e-3, 0.1, 1.0, 5.0, 30.0], dtype=torch.float64)
    z = (torch.randn(7, 50, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * sizes[:, None]).to(dtype)
    bound = 8 * torch.finfo(dtype).eps
    for cotangent in (torch.randn(7, 50, dtype=dtype), torch.randn(7, 1, dtype=dtype).expand(7, 50)):
        fresh, back = phi.linearise(z.clone())
        over, back_over = phi.linearise(z.clone(), overwrite=True)
        torch.testing.assert_close(over, fresh, rtol=bound, atol=0.0)
        expected = back(cotangent)
        torch.testing.assert_close(back_over(cotangent), expected, rtol=bound, atol=bound * 5)
