import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.quadratic_form import quadratic_form


def test_columns_are_orthogonal_with_the_chosen_singular_values(units):
    data = nqf.teacher(units, n=10, singular_values=(2.0, 0.5))
    c = data.info["factor"]
    for block in data.info["weights"].values():
        gram = block[:, :2].mT @ block[:, :2]
        torch.testing.assert_close(gram, c * torch.diag(torch.tensor([2.0, 0.5], dtype=torch.float64)), rtol=1e-12, atol=1e-15)
        assert not block[:, 2:].any()


def test_targets_are_the_quadratic_form_at_the_teacher(units):
    data = nqf.teacher(units, n=10)
    x = {"x": data.x["x"].double()}
    torch.testing.assert_close(data.y, quadratic_form(units, x).evaluate(data.info["weights"]), rtol=1e-12, atol=1e-15)


def test_the_scale_is_the_largest_within_one_percent(units):
    data = nqf.teacher(units, n=64, test=0)
    c, x = data.info["factor"], {"x": data.x["x"].double()}

    def remainder(factor):
        W = {name: block * (factor / c) ** 0.5 for name, block in data.info["weights"].items()}
        taught = quadratic_form(units, x).evaluate(W)
        return float((units(W, x) - taught).square().mean().sqrt() / taught.square().mean().sqrt())

    assert c < 1
    assert remainder(c) <= 0.01 < remainder(1.05 * c)
    assert f"{c:.4g}" in data.info["rule"]


def test_an_exact_layer_keeps_its_scale():
    layer = nqf.default_registry().get("phase-retrieval", size=6)
    assert nqf.teacher(layer).info["factor"] == 1.0


def test_fixed_width_gives_one_column():
    layer = nqf.default_registry().get("diagonal-linear-two-factor")
    assert nqf.teacher(layer).info["singular_values"] == [1.0]


def test_noise_is_relative_and_leaves_the_test_set_alone(units):
    clean, noisy = nqf.teacher(units, n=4000), nqf.teacher(units, n=4000, noise=0.5)
    assert torch.equal(clean.test_y, noisy.test_y)
    size = float((noisy.y - clean.y).square().mean().sqrt() / clean.y.square().mean().sqrt())
    assert size == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 3}, "rank at most 2, .*; got 3"),
        ({"rank": 0}, "rank must be a whole number of at least 1"),
        ({"rank": 2, "singular_values": (1.0,)}, "must be 2 positive numbers"),
        ({"singular_values": (1.0, -1.0)}, "must be positive numbers"),
        ({"noise": -1}, "noise must be a number from 0 to"),
        ({"noise": float("nan")}, "noise must be a finite number"),
        ({"noise": float("inf")}, "noise must be a finite number"),
        ({"singular_values": 3}, r"singular_values must be a list of positive numbers such as \[1, 0.5\], got 3"),
        ({"singular_values": "12"}, "singular_values must be a list of positive numbers .*got '12'"),
        ({"singular_values": ["a"]}, "each of singular_values must be a finite number, got 'a'"),
        ({"singular_values": [10**400]}, "each of singular_values must be a finite number, got an integer of 1329 bits"),
        ({"singular_values": [1e-300]}, "singular_values must lie from 1e-100 to 1e.100"),
        ({"seed": 2**64}, "seed must be a whole number from 0 to 9223372036854775807"),
        ({"noise": float("nan")}, "noise must be a finite number"),
        ({"noise": float("inf")}, "noise must be a finite number"),
        ({"singular_values": 3}, r"singular_values must be a list of positive numbers such as \[1, 0.5\], got 3"),
        ({"singular_values": "12"}, "singular_values must be a list of positive numbers .*got '12'"),
        ({"singular_values": ["a"]}, "each of singular_values must be a finite number, got 'a'"),
        ({"singular_values": [10**400]}, "each of singular_values must be a finite number, got an integer of 1329 bits"),
        ({"singular_values": [1e-300]}, "singular_values must lie from 1e-100 to 1e.100"),
        ({"seed": 2**64}, "seed must be a whole number from 0 to 9223372036854775807"),
        ({"n": 0}, "n must be a whole number of at least 1"),
        ({"test": -1}, "test must be a whole number"),
    ],
)
def test_wrong_options_are_told(units, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.teacher(units, **options)


class Blind(nqf.Layer):
    """A layer whose quadratic form is zero: f = sum_i (w_i . x)^4."""

    key = "test-blind"
    width = 3

    def blocks(self):
        return {"w": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 2, generator=generator)}

    def forward(self, W, x):
        return ((x["x"] @ W["w"]) ** 4).sum(-1, keepdim=True)


def test_a_layer_without_quadratic_form_cannot_teach():
    with pytest.raises(InvalidInput, match="is constant on its typical inputs"):
        nqf.teacher(Blind())


class Lying(Blind):
    """Claims the quadratic form of another layer."""

    key = "test-lying"

    def structure(self, x):
        return nqf.quadratic("i,ni,nj,j->n", "w", x["x"], x["x"], "w")


def test_a_layer_that_is_not_its_form_cannot_teach():
    with pytest.raises(InvalidInput, match="no quadratic form near W = 0"):
        nqf.teacher(Lying())
