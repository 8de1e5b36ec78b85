"""Claims that are false: each is made only where the layer itself is seen not to keep it."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor

from nqf_registry.layer import Layer
from nqf_registry.mutation.mutants import Mutant, altered

SEEDS = 3


def claim_faults(layer: Layer) -> list[Mutant]:
    """The mutants that claim more than the layer keeps."""
    found = []
    if not layer.claims.sign_symmetric and _changes_with_sign(layer):
        found.append(
            _claiming(layer, "false claim: even in each neuron", ("sign-symmetry", "remainder-order"), sign_symmetric=True)
        )
    if not layer.claims.exact and _is_no_quadratic(layer):
        found.append(_claiming(layer, "false claim: exact", ("remainder-order",), exact=True))
    if not layer.claims.zgz:
        found.append(_claiming(layer, "false claim: zero gradient at zero", ("zero-gradient-at-zero",), zgz=True))
    if not layer.claims.smooth:
        found.append(_claiming(layer, "false claim: smooth", ("smoothness",), smooth=True))
    if not layer.claims.symmetric:
        found.append(_claiming(layer, "false claim: symmetric", ("permutation-symmetry",), symmetric=True))
    return found


def _claiming(layer: Layer, kind: str, expected: tuple[str, ...], **claims: bool) -> Mutant:
    what = f"claims.{next(iter(claims))} = True where it does not hold"
    return Mutant(kind, altered(layer, claims=dataclasses.replace(layer.claims, **claims)), expected, description=what)


def _draws(layer: Layer) -> list[tuple[dict[str, Tensor], dict[str, Tensor]]]:
    found = []
    for seed in range(SEEDS):
        generator = torch.Generator().manual_seed(seed)
        x = {name: t.double() if t.is_floating_point() else t for name, t in layer.sample(4, generator).items()}
        found.append((layer.random(generator, 1.0, torch.float64), x))
    return found


def _changes_with_sign(layer: Layer) -> bool:
    """Whether f changes when the first neuron changes its sign."""
    for W, x in _draws(layer):
        flipped = {name: torch.cat([-block[..., :1], block[..., 1:]], -1) for name, block in W.items()}
        value, other = layer(W, x), layer(flipped, x)
        if float((value - other).abs().max()) > 1e-6 * float(value.abs().max()):
            return True
    return False


def _is_no_quadratic(layer: Layer) -> bool:
    """Whether third differences of f along lines through zero do not vanish."""
    for W, x in _draws(layer):
        values = [layer({name: t * block for name, block in W.items()}, x) for t in (0.0, 1.0, 2.0, 3.0)]
        third = values[3] - 3 * values[2] + 3 * values[1] - values[0]
        if float(third.abs().max()) > 1e-6 * max(float(v.abs().max()) for v in values):
            return True
    return False
