"""The kit for authors of plugins."""

from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.testing import assert_passes, checks_of, parametrize_with_checks


@dataclass(frozen=True)
class Units(nqf.Layer):
    """v·φ(u·x), for an activation by name."""

    key = "kit-units"
    phi: str = "tanh"
    width: int = 3

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return getattr(torch, self.phi)(x["x"] @ W["u"]) @ W["v"].mT


@dataclass(frozen=True)
class Kinked(Units):
    """The same with a kink."""

    key = "kit-kinked"
    phi: str = "relu"


KNOWN = {"smoothness": "relu has a kink", "remainder-order": "and so no quadratic form"}


@parametrize_with_checks([Units(), Kinked()], {"kit-kinked": KNOWN}, profile="dev")
def test_every_check_is_a_test(layer, check):
    check(layer)


def test_one_layer_is_verified_once(monkeypatch):
    calls = []
    real = nqf.verify
    monkeypatch.setattr("nqf_registry.testing.verify", lambda *args: calls.append(1) or real(*args))
    layer = Units()
    for check in checks_of(layer, "dev"):
        check(layer)
    assert len(calls) == 1 and len(checks_of(layer)) == 9


def test_a_failure_raises_with_message_and_counterexample():
    check = next(check for check in checks_of(Kinked(), "dev") if check.name == "smoothness")
    with pytest.raises(AssertionError, match=r"(?s)kit-kinked: smoothness failed.*counterexample:\n  sizes"):
        check(Kinked())


def test_the_plain_runner():
    assert assert_passes(Units(), profile="dev").passed
    assert_passes(Kinked(), KNOWN, profile="dev")
    with pytest.raises(AssertionError, match="smoothness failed"):
        assert_passes(Kinked(), profile="dev")
    with pytest.raises(AssertionError, match="expected to fail"):
        assert_passes(Units(), KNOWN, profile="dev")


def test_wrong_use_is_told():
    with pytest.raises(nqf.InvalidInput, match="at least one"):
        parametrize_with_checks([])
    with pytest.raises(nqf.InvalidInput, match="no-such-layer"):
        parametrize_with_checks([Units()], {"no-such-layer": {}})
    with pytest.raises(nqf.InvalidInput, match="smoothness"):
        parametrize_with_checks([Units()], {"kit-units": {"no-such-check": "?"}})
    with pytest.raises(nqf.InvalidInput, match="suite"):
        checks_of(Units(), suite="0")
