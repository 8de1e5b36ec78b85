"""Faults of calling: a layer that is no function of its weights and one sample, or that touches what is not its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights
from nqf_registry.mutation.mutants import Fault, Forward, Mutant, altered, computing, without_gradient

EXPECTED = ("determinism",)


def call_faults(layer: Layer) -> list[Mutant]:
    """The mutants of any layer."""
    faults: list[tuple[str, Fault, str]] = [
        ("noise", lambda f, W, x: f(W, x) * (1 + 1e-6 * torch.rand(())), "f × (1 + 10⁻⁶ rand)"),
        ("state", _counting(), "f grows by 10⁻⁹ a call"),
        ("random numbers drawn", _drawing, "torch.rand is called and not used"),
        ("torch seeded", _seeding, "torch.manual_seed(0) in forward"),
        ("weights written to", _writing_weights, "a block of W multiplied in place"),
        ("samples mixed", lambda f, W, x: _mixed(f(W, x)), "the mean over the batch added"),
        ("number of samples inside", lambda f, W, x: f(W, x) * (1 + 0.01 * _samples(x)), "f depends on n"),
        ("a sample alone differs", lambda f, W, x: f(W, x) * (1.01 if _samples(x) == 1 else 1.0), "f × 1.01 where n = 1"),
    ]
    floating = any(port.integer is False for port in layer.ports().values())
    if floating:
        faults.append(("inputs written to", _writing_inputs, "an input multiplied in place"))
    found = [Mutant(kind, computing(layer, fault), EXPECTED, description=what) for kind, fault, what in faults]
    found.append(
        Mutant(
            "inputs drawn elsewhere", altered(layer, sample=_undrawn(layer)), EXPECTED, description="sample ignores generator"
        )
    )
    if layer.batched:
        mixed = altered(layer, forward=_mixing_replicas(layer), **without_gradient(layer))
        found.append(Mutant("replicas mixed", mixed, EXPECTED, description="the mean over replicas added"))
    return found


def _samples(x: Inputs) -> int:
    return next(iter(x.values())).shape[0]


def _counting() -> Fault:
    calls = [0]

    def fault(f: Forward, W: Weights, x: Inputs) -> Tensor:
        calls[0] += 1
        return f(W, x) * (1 + 1e-9 * calls[0])

    return fault


def _drawing(f: Forward, W: Weights, x: Inputs) -> Tensor:
    torch.rand(())
    return f(W, x)


def _seeding(f: Forward, W: Weights, x: Inputs) -> Tensor:
    torch.manual_seed(0)
    return f(W, x)


def _writing_weights(f: Forward, W: Weights, x: Inputs) -> Tensor:
    next(iter(W.values())).mul_(1.0001)
    return f(W, x)


def _writing_inputs(f: Forward, W: Weights, x: Inputs) -> Tensor:
    next(t for t in x.values() if t.is_floating_point()).mul_(1.0001)
    return f(W, x)


def _mixed(value: Tensor) -> Tensor:
    return value + 0.01 * value.mean(0)


def _undrawn(layer: Layer) -> Any:
    original = type(layer).sample
    calls = [0]

    def sample(self: Layer, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        calls[0] += 1
        return original(self, n, torch.Generator().manual_seed(calls[0]))

    return sample


def _mixing_replicas(layer: Layer) -> Any:
    original = type(layer).forward

    def forward(self: Layer, W: Weights, x: Inputs) -> Tensor:
        value = original(self, W, x)
        return value + 0.01 * value.mean(0, keepdim=True) if value.ndim == 3 else value

    return forward
