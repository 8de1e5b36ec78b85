"""What is asked beside the numbers: a gradient that is not that of f, and an A that depends on how many samples there are."""

from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.residuals.gradient import gradient
from nqf_registry.verify.residuals.linearised import linearised
from nqf_registry.verify.residuals.one_by_one import one_by_one
from nqf_registry.verify.setting import Setting


@dataclass(frozen=True)
class Units(nqf.Layer):
    """Σ v_i tanh(u_i·x), with its gradient."""

    key = "test-around"
    width: int = 3

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"]) @ W["v"].mT

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")

    def linearise(self, W, x):
        h = torch.tanh(x["x"] @ W["u"])

        def pullback(c):
            return {"u": x["x"].mT @ ((c @ W["v"]) * (1 - h**2)), "v": c.mT @ h}

        return h @ W["v"].mT, pullback


class Detached(Units):
    """u takes no part in the gradient."""

    linearise = None

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"].detach()) @ W["v"].mT


class ThroughNumpy(Units):
    """No gradient at all."""

    linearise = None

    def forward(self, W, x):
        u, v = (torch.from_numpy(W[name].detach().numpy()) for name in ("u", "v"))
        return torch.tanh(x["x"] @ u) @ v.mT


class _Steep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return torch.tanh(a)

    @staticmethod
    def backward(ctx, c):
        (a,) = ctx.saved_tensors
        return c * (1 - a)  # of tanh(a) in place of a


class WrongBackward(Units):
    """An autograd function whose backward pass is wrong."""

    linearise = None

    def forward(self, W, x):
        return _Steep.apply(x["x"] @ W["u"]) @ W["v"].mT


class Normalised(Units):
    """A over the number of samples, right for four."""

    def structure(self, x):
        return (4 / len(x["x"])) * super().structure(x)


class WrongLinearise(Units):
    """Its gradient lacks the derivative of tanh."""

    def linearise(self, W, x):
        h = torch.tanh(x["x"] @ W["u"])
        return h @ W["v"].mT, lambda c: {"u": x["x"].mT @ (c @ W["v"]), "v": c.mT @ h}


class OtherOutputs(Units):
    """Its outputs are another layer's."""

    def linearise(self, W, x):
        value, pullback = super().linearise(W, x)
        return 1.001 * value, pullback


def setting(layer):
    return Setting(layer, layer.sample(4, torch.Generator().manual_seed(0)))


def weights(count, scale=0.3):
    return scale * torch.randn(count, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize(
    ("layer", "part"),
    [
        (Detached(), "gradient"),
        (ThroughNumpy(), "gradient"),
        (WrongBackward(), "gradient"),
        (WrongLinearise(), "linearise"),
        (OtherOutputs(), "linearise"),
        (Normalised(), "structure"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nqf.Layer) else value,
)
def test_each_fails_the_structure_matrix_and_can_be_replayed(layer, part):
    report = nqf.verify(layer)
    check = report["structure-matrix"]
    assert [c.name for c in report.failures] == ["structure-matrix"] and check.details["part"] == part
    assert nqf.replay(layer, check.counterexample["example"]).residual == check.residual


def test_a_right_layer_passes():
    assert nqf.verify(Units()).passed


def test_the_slopes_of_a_right_layer_agree_and_those_of_a_wrong_one_do_not():
    (W,), rays = weights(1), weights(4, 1.0)
    assert gradient(setting(Units()), W, rays).residual < 1e-9
    seen = gradient(setting(Detached()), W, rays)
    assert seen.residual > 1e-2 and seen.autograd != pytest.approx(seen.differences, rel=1e-3)


def test_a_kink_has_no_slope_to_compare():
    @dataclass(frozen=True)
    class Kinked(Units):
        linearise = None

        def forward(self, W, x):
            return (W["u"] - self.at).abs().sum() * torch.ones(len(x["x"]), 1, dtype=W["u"].dtype)

        at: float = 0.25

    W = torch.full((5, 3), 0.25, dtype=torch.float64)
    assert gradient(setting(Kinked()), W, weights(4, 1.0)) is None


def test_a_backward_that_raises_is_not_judged():
    class Raising(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, c):
            raise NotImplementedError

    class Refusing(Units):
        linearise = None

        def forward(self, W, x):
            return Raising.apply(super().forward(W, x))

    assert gradient(setting(Refusing()), weights(1)[0], weights(4, 1.0)) is None


def test_linearise_is_compared_with_forward_and_with_autograd():
    assert max(linearised(setting(Units()), weights(2))) < 1e-13
    value, slope = linearised(setting(WrongLinearise()), weights(2))
    assert value < 1e-13 and slope > 1e-2
    value, slope = linearised(setting(OtherOutputs()), weights(2))
    assert value == pytest.approx(1e-3, rel=1e-6) and slope < 1e-13


def test_one_by_one_names_the_part():
    assert one_by_one(setting(Units()), ["structure"], weights(2))[0] < 1e-14
    gap, part, _ = one_by_one(setting(Normalised()), ["structure"], weights(2))
    assert part == "structure" and gap > 1
