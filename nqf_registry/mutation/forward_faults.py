"""Faults of what a layer computes, while what it declares stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares
from nqf_registry.mutation.mutants import Mutant, altered

Forward = Callable[[Weights, Inputs], Tensor]
Fault = Callable[[Forward, Weights, Inputs], Tensor]

ZERO = ("zero-gradient-at-zero",)
FORM = ("structure-matrix", "remainder-order")
SEEDS = 3


def forward_faults(layer: Layer) -> list[Mutant]:
    """The mutants of any layer."""
    found = [
        _mutant(layer, "neurons weighted by index", _indexed, ("permutation-symmetry", *FORM)),
        _mutant(layer, "neuron ignored", _without_last, ("permutation-symmetry", *FORM)),
        _mutant(layer, "output doubled", lambda f, W, x: 2 * f(W, x), FORM),
        _mutant(layer, "kink inside", _kinked(_reached(layer)), ("smoothness",)),
        _mutant(layer, "kink added", lambda f, W, x: f(W, x) + 0.1 * _first(W).abs().sum(), ("smoothness",)),
        _mutant(layer, "bias inside", _biased, ZERO),
        _mutant(layer, "gate that does not vanish", lambda f, W, x: f(W, x) + 0.1 * _first(W).sum(), ZERO),
        _mutant(layer, "neurons coupled", lambda f, W, x: f(W, x) + 0.1 * _first(W).sum() ** 2, (*ZERO, *FORM)),
        _mutant(layer, "noise", lambda f, W, x: f(W, x) * (1 + 1e-6 * torch.rand(())), ("determinism",)),
        _mutant(layer, "state", _counting(), ("determinism",)),
        _mutant(layer, "weights written to", _writing_weights, ("determinism",)),
        _mutant(layer, "not finite at zero", _not_finite, ("finiteness",)),
        _mutant(layer, "single precision inside", _single, ("permutation-symmetry", *FORM), undecided=True),
        _mutant(layer, "samples mixed", lambda f, W, x: _mixed(f(W, x)), ("determinism",)),
    ]
    if any(port.integer is False for port in layer.ports().values()):
        found.append(_mutant(layer, "inputs written to", _writing_inputs, ("determinism",)))
    if declares(layer, "offset"):
        found.append(_mutant(layer, "constant added", lambda f, W, x: f(W, x) + 0.1, FORM))
    if layer.claims.exact or layer.claims.sign_symmetric:
        checks = ("remainder-order", "sign-symmetry")
        found.append(_mutant(layer, "cubic term", lambda f, W, x: f(W, x) + 0.1 * (_first(W) ** 3).sum(), checks))
    return found


def _mutant(layer: Layer, kind: str, fault: Fault, expected: tuple[str, ...], undecided: bool = False) -> Mutant:
    original: Any = type(layer).forward

    def forward(self: Layer, W: Weights, x: Inputs) -> Tensor:
        return fault(lambda weights, inputs: original(self, weights, inputs), W, x)

    more: dict[str, Any] = {}
    if layer.batched:  # a fault sees one replica, whatever the layer takes
        more["batched"] = False

        def forward_one(self: Layer, W: Weights, x: Inputs) -> Tensor:
            def f(weights: Weights, inputs: Inputs) -> Tensor:
                return original(self, {name: block[None] for name, block in weights.items()}, inputs)[0]

            return fault(f, W, x)

        forward = forward_one
    for name in ("pullback", "linearise"):  # what is written for the right layer is no part of this fault
        if hasattr(type(layer), name):
            more[name] = getattr(Layer, name, None)
    return Mutant(kind, altered(layer, forward=forward, **more), expected, undecided)


def _first(W: Weights) -> Tensor:
    """The first parameter of every neuron, (d,)."""
    block = next(iter(W.values()))
    return block.reshape(-1, block.shape[-1])[0]


def _reached(layer: Layer) -> str:
    """A block that f depends on when the neurons are small: the first whose change is felt."""
    generator = torch.Generator().manual_seed(0)
    x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(4, generator).items()}
    W = {
        name: 0.1 * torch.randn(*shape, layer.width, generator=generator, dtype=torch.float64)
        for name, shape in layer.blocks().items()
    }
    with torch.no_grad():
        value = layer(W, x)
        felt = {name: float((layer({**W, name: 2 * W[name]}, x) - value).abs().max()) for name in W}
    return max(felt, key=lambda name: felt[name])


def _indexed(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return f({name: block * (1 + 0.01 * torch.arange(block.shape[-1], dtype=block.dtype)) for name, block in W.items()}, x)


def _without_last(f: Forward, W: Weights, x: Inputs) -> Tensor:
    kept = {name: block * (torch.arange(block.shape[-1]) < block.shape[-1] - 1).to(block.dtype) for name, block in W.items()}
    return f(kept, x)


def _kinked(name: str) -> Fault:
    return lambda f, W, x: f({**W, name: W[name] + 0.3 * W[name].abs()}, x)


def _biased(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return f({name: block + 0.1 for name, block in W.items()}, x)


def _counting() -> Fault:
    calls = [0]

    def fault(f: Forward, W: Weights, x: Inputs) -> Tensor:
        calls[0] += 1
        return f(W, x) * (1 + 1e-9 * calls[0])

    return fault


def _writing_weights(f: Forward, W: Weights, x: Inputs) -> Tensor:
    next(iter(W.values())).mul_(1.0001)
    return f(W, x)


def _writing_inputs(f: Forward, W: Weights, x: Inputs) -> Tensor:
    next(t for t in x.values() if t.is_floating_point()).mul_(1.0001)
    return f(W, x)


def _not_finite(f: Forward, W: Weights, x: Inputs) -> Tensor:
    size = sum(block.square().sum() for block in W.values())
    return f(W, x) * (size / size)


def _single(f: Forward, W: Weights, x: Inputs) -> Tensor:
    coarse = {name: t.float() if t.is_floating_point() else t for name, t in x.items()}
    return f({name: block.float() for name, block in W.items()}, coarse).double()


def _mixed(value: Tensor) -> Tensor:
    return value + 0.01 * value.mean(0)
