"""Faults of smoothness: of every order up to three, within one neuron and between neurons."""

from __future__ import annotations

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights
from nqf_registry.mutation.mutants import Fault, Forward, Mutant, computing, first

EXPECTED = ("smoothness",)
STRENGTH = 0.1
SLOPE = 0.3


def kink_faults(layer: Layer) -> list[Mutant]:
    """The mutants that are not three times differentiable."""

    def plus(term: Fault) -> Layer:
        return computing(layer, lambda f, W, x: f(W, x) + STRENGTH * term(f, W, x))

    name = reached(layer)
    found = [
        Mutant("kink inside", computing(layer, _inside(name)), EXPECTED, description=f"w + {SLOPE} |w| for one block"),
        Mutant("kink added", plus(lambda f, W, x: first(W).abs().sum()), EXPECTED, description=f"+ {STRENGTH} Σ |w|"),
        Mutant(
            "kink of second order", plus(lambda f, W, x: _odd_square(first(W))), EXPECTED, description=f"+ {STRENGTH} Σ w |w|"
        ),
        Mutant(
            "kink of third order",
            plus(lambda f, W, x: (first(W).abs() ** 3).sum()),
            EXPECTED,
            description=f"+ {STRENGTH} Σ |w|³",
        ),
    ]
    if layer.n_params > 1:
        found.append(
            Mutant(
                "largest of a neuron's parameters",
                plus(_largest_parameter),
                EXPECTED,
                description=f"+ {STRENGTH} Σ_i max_a w_ai², even along every ray",
            )
        )
    if layer.resized(2).width == 2:
        found.append(
            Mutant(
                "largest of the neurons",
                plus(lambda f, W, x: (first(W) ** 2).amax()),
                EXPECTED,
                description=f"+ {STRENGTH} max_i w_i², symmetric and even along every ray",
            )
        )
    return found


def reached(layer: Layer) -> str:
    """A block that f depends on when the neurons are small: the one whose change is felt most."""
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


def _inside(name: str) -> Fault:
    return lambda f, W, x: f({**W, name: W[name] + SLOPE * W[name].abs()}, x)


def _odd_square(a: Tensor) -> Tensor:
    return (a * a.abs()).sum()


def _largest_parameter(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return torch.cat([block.reshape(-1, block.shape[-1]) for block in W.values()]).square().amax(0).sum()
