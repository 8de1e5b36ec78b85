"""Kinks that are weak, hidden in one place or far away, and smooth functions that are steep."""

import pytest
import torch
import torch.nn.functional as F

import nqf_registry as nqf


def of_units(phi):
    return lambda W, x: phi(x @ W["u"]) @ W["v"].mT


def weak(strength):
    return of_units(lambda a: torch.tanh(a) + strength * torch.relu(a))


def one_output(W, x):
    a = x @ W["u"]
    return torch.cat([torch.tanh(a) @ W["v"][:1].mT, (torch.tanh(a) + 1e-2 * torch.relu(a)) @ W["v"][1:].mT], -1)


def one_kind_of_sample(W, x):
    a = x @ W["u"]
    return torch.where(x[:, :1] > 1.0, torch.relu(a), torch.tanh(a)) @ W["v"].mT


def strength_by_sample(W, x):
    a = x @ W["u"]
    return (torch.tanh(a) + 0.01 * x[:, :1].abs() * torch.relu(a)) @ W["v"].mT


def gate(psi):
    return lambda W, x: (torch.tanh(x @ W["u"]) * psi(W["g"])) @ W["v"].mT


GATED = {"u": (3,), "g": (1,), "v": (2,)}
PLAIN = {"u": (3,), "v": (2,)}

KINKED = {
    "strength-1e-3": (weak(1e-3), PLAIN),
    "strength-1e-4": (weak(1e-4), PLAIN),
    "power-1.5": (of_units(lambda a: a + a.abs() ** 1.5), PLAIN),
    "power-2.5": (of_units(lambda a: a + a.abs() ** 2.5), PLAIN),
    "power-2.5-alone": (of_units(lambda a: a.abs() ** 2.5), PLAIN),
    "modulus-cubed": (of_units(lambda a: a + a.abs() ** 3), PLAIN),
    "one-output": (one_output, PLAIN),
    "one-kind-of-sample": (one_kind_of_sample, PLAIN),
    "strength-by-sample": (strength_by_sample, PLAIN),
    "gate-relu": (gate(torch.relu), GATED),
    "gate-modulus": (gate(lambda g: 1 + g.abs()), GATED),
    "gate-modulus-cubed": (gate(lambda g: g.abs() ** 3), GATED),
}


@pytest.mark.parametrize("name", KINKED)
def test_a_kink_is_found_wherever_it_hides(layer, name):
    forward, blocks = KINKED[name]
    report = nqf.verify(layer(name, forward=forward, blocks=blocks))
    assert report.classification == "not-smooth" and report["smoothness"].status == "fail", str(report)
    assert report["smoothness"].residual > 1e-5


SMOOTH = {
    "steep-softplus": lambda a: F.softplus(a, beta=200, threshold=1e9) - F.softplus(0 * a, beta=200, threshold=1e9),
    "steep-tanh": lambda a: torch.tanh(200 * a),
    "hardtanh": F.hardtanh,
    "kink-at-0.3": lambda a: torch.tanh(a) + F.relu(a - 0.3),
    "kink-at-0.01": lambda a: torch.tanh(a) + F.relu(a - 0.01),
    "power-3.5": lambda a: a + a.abs() ** 3.5,
    "high-power": lambda a: a + a**9,
    "narrow-bump": lambda a: a + torch.exp(-((a / 1e-2) ** 2)) - 1,
}


@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_smooth_near_zero_is_cleared(layer, name):
    report = nqf.verify(layer(name, forward=of_units(SMOOTH[name]), blocks=PLAIN))
    assert report.passed and report.classification == "nqf", str(report)


def test_a_kink_that_moves_to_zero_with_the_input_is_seen_at_that_input(layer):
    """relu(u·x + x_0) has its kink at zero for x_0 = 0 only, and some of the inputs have it."""

    def sample(self, n, generator):
        x = torch.randn(n, 3, generator=generator)
        x[n // 2 :, 0] = 0
        return {"x": x}

    def forward(W, x):
        return (F.relu(x @ W["u"] + x[:, :1]) - F.relu(x[:, :1])) @ W["v"].mT

    report = nqf.verify(layer("moving", forward=forward, blocks=PLAIN, sample=sample))
    assert report.classification == "not-smooth"
