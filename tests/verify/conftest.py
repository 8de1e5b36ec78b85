"""A workshop for layers that are right, and layers that are broken on purpose."""

import importlib
from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf


def make(name, unit=None, forward=None, structure=None, claims=None, blocks=None, width=4, fixed=False, sample=None, **methods):
    """An instance of a new layer class; by default units v·φ(u·x) with u (3) and v (2)."""

    def inputs(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    body = {
        "__annotations__": {} if fixed else {"width": int},
        "__module__": __name__,
        "width": width,
        "key": name,
        "claims": claims or nqf.Claims(),
        "blocks": lambda self: dict(blocks or {"u": (3,), "v": (2,)}),
        "sample": sample or inputs,
        **methods,
    }
    if unit is not None:
        body["unit"] = lambda self, w, x: unit(w, x["x"])
    if forward is not None:
        body["forward"] = lambda self, W, x: forward(W, x["x"])
    if structure is not None:
        body["structure"] = lambda self, x: structure(self, x["x"])
    return dataclass(frozen=True)(type(name.title().replace("-", ""), (nqf.Layer,), body))()


@pytest.fixture
def layer():
    """Makes a layer: ``layer("key", unit=..., structure=..., claims=...)``."""
    return make


@pytest.fixture
def units():
    """Makes a layer of units v·φ(u·x): ``units("key", torch.tanh, slope=1.0)``; with a slope it declares A = ½ slope off(x)."""

    def build(name, phi, slope=None, **more):
        if slope is not None:
            more["structure"] = lambda self, x: nqf.quadratic("i,ni,o->no", "u", x, "v", scale=slope)
        return make(name, forward=lambda W, x: phi(x @ W["u"]) @ W["v"].mT, **more)

    return build


@pytest.fixture
def no_time(monkeypatch):
    """Gives the checks of profile dev no time beyond their first examples; the verification is begun all the same."""
    from nqf_registry.verify import profiles

    monkeypatch.setitem(profiles.PROFILES, "dev", profiles.Profile("dev", 8, 2, -1.0))
    monkeypatch.setattr(importlib.import_module("nqf_registry.verify.suite"), "timed", lambda context: None)


@pytest.fixture
def setting():
    """A layer at some inputs, ready for the residuals."""
    from nqf_registry.verify.setting import Setting

    def build(subject, n=4, seed=0, scale=1.0):
        x = subject.sample(n, torch.Generator().manual_seed(seed))
        return Setting(subject, {name: t * scale if t.is_floating_point() else t for name, t in x.items()})

    return build


@pytest.fixture
def normal():
    """Normal weights of a setting: ``normal(setting, size, seed)`` is (p, d), with count (count, p, d)."""

    def draw(at, size=1.0, seed=0, count=None):
        generator = torch.Generator().manual_seed(seed)
        shape = (at.p, at.d) if count is None else (count, at.p, at.d)
        return size * torch.randn(*shape, generator=generator, dtype=torch.float64)

    return draw
