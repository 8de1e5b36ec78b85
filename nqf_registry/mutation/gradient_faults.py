"""Faults of the gradient, written or taken by autograd, while f and what is declared of it stay right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares
from nqf_registry.mutation.kink_faults import reached
from nqf_registry.mutation.mutants import Forward, Mutant, altered, computing

EXPECTED = ("structure-matrix",)
SMALL = 0.01

Change = Callable[[dict[str, Tensor]], dict[str, Tensor]]


def gradient_faults(layer: Layer) -> list[Mutant]:
    """The mutants of any layer, and of a gradient that it writes itself."""
    name = reached(layer)
    found = [
        Mutant("gradient cut", computing(layer, _detached(name)), EXPECTED, description="a block detached in forward"),
        Mutant("backward × 1.01", computing(layer, _steeper), EXPECTED, description="f right, what autograd gives off by 1 %"),
    ]
    if not (declares(layer, "pullback") or declares(layer, "linearise")):
        return found
    last = list(layer.blocks())[-1]
    changes: list[tuple[str, Change, str]] = [
        ("gradient × 1.01", lambda g: {block: (1 + SMALL) * part for block, part in g.items()}, "the written gradient"),
        ("gradient of one block wrong", lambda g: {**g, last: -g[last]}, "its last block with the other sign"),
        (
            "gradient of one neuron wrong",
            lambda g: {block: _without_last(part) for block, part in g.items()},
            "its last is zero",
        ),
    ]
    return found + [Mutant(kind, _written(layer, change), EXPECTED, description=what) for kind, change, what in changes]


def _detached(name: str) -> Any:
    return lambda f, W, x: f({**W, name: W[name].detach()}, x)


def _steeper(f: Forward, W: Weights, x: Inputs) -> Tensor:
    value = f(W, x)
    return value.detach() + (1 + SMALL) * (value - value.detach())


def _without_last(part: Tensor) -> Tensor:
    part = part.clone()
    part[..., -1] = 0
    return part


def _written(layer: Layer, change: Change) -> Layer:
    """The layer with its own gradient changed, in whichever way it writes it."""
    original: Any = type(layer)

    def pullback(self: Layer, W: Weights, x: Inputs, cotangent: Tensor) -> dict[str, Tensor]:
        return change(dict(original.pullback(self, W, x, cotangent)))

    def linearise(self: Layer, W: Weights, x: Inputs) -> tuple[Tensor, Callable[[Tensor], dict[str, Tensor]]]:
        value, pull = original.linearise(self, W, x)
        return value, lambda cotangent: change(dict(pull(cotangent)))

    methods = {"pullback": pullback, "linearise": linearise}
    return altered(layer, **{name: method for name, method in methods.items() if declares(layer, name)})
