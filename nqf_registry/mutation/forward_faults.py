"""Faults of the value that a layer computes, while what it declares stays as it was."""

from __future__ import annotations

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares
from nqf_registry.mutation.mutants import Fault, Forward, Mutant, computing, first

ZERO = ("zero-gradient-at-zero",)
FORM = ("structure-matrix", "remainder-order")
SYMMETRY = ("permutation-symmetry",)
STRENGTH = 0.1


def forward_faults(layer: Layer) -> list[Mutant]:
    """The mutants of any layer, and those that its width and its claims allow."""

    def made(kind: str, fault: Fault, expected: tuple[str, ...], what: str, undecided: bool = False) -> Mutant:
        return Mutant(kind, computing(layer, fault), expected, undecided, what)

    def plus(kind: str, term: Fault, expected: tuple[str, ...], what: str) -> Mutant:
        return made(kind, lambda f, W, x: f(W, x) + STRENGTH * term(f, W, x), expected, f"+ {STRENGTH} {what}")

    found = [
        made("neurons weighted by index", _indexed, (*SYMMETRY, *FORM), "w_i (1 + i/100)"),
        made("neuron ignored", _without_last, (*SYMMETRY, *FORM), "the last neuron counts as zero"),
        made("output doubled", lambda f, W, x: 2 * f(W, x), FORM, "2 f"),
        made("output off by 10⁻⁶", lambda f, W, x: (1 + 1e-6) * f(W, x), FORM, "(1 + 10⁻⁶) f"),
        made("bias inside", _biased, ZERO, "f(W + 0.1)"),
        plus("gate that does not vanish", lambda f, W, x: first(W).sum(), ZERO, "Σ w_i"),
        plus("neurons coupled", lambda f, W, x: first(W).sum() ** 2, (*ZERO, *FORM), "(Σ w_i)²"),
        made("not finite at zero", _not_finite, ("finiteness",), "f |W|² / |W|²"),
        made("single precision inside", _single, (*SYMMETRY, *FORM), "f in float32", undecided=True),
        made("values rounded", _rounded, (*SYMMETRY, *FORM), "f to four decimals", undecided=True),
    ]
    if layer.resized(4).width == 4:
        found += [
            plus("neurons coupled in third order", _third_order, ZERO, "Σ w_i Σ w_j², linear in w_i where others are not zero"),
            plus("neurons in a ring", _ring, SYMMETRY, "Σ w_i² w_{i+1}², symmetric up to three neurons"),
            plus("fourth order weighted by index", _indexed_quartic, SYMMETRY, "Σ i w_i⁴"),
        ]
    if declares(layer, "offset"):
        found.append(made("constant added", lambda f, W, x: f(W, x) + STRENGTH, FORM, f"f + {STRENGTH}"))
    if layer.claims.exact or layer.claims.sign_symmetric:
        checks = ("remainder-order", "sign-symmetry")
        found.append(plus("cubic term", lambda f, W, x: (first(W) ** 3).sum(), checks, "Σ w_i³"))
        found.append(plus("term of order five", lambda f, W, x: (first(W) ** 5).sum(), checks, "Σ w_i⁵"))
    if layer.claims.exact:
        found.append(plus("term of order four", lambda f, W, x: (first(W) ** 4).sum(), ("remainder-order",), "Σ w_i⁴"))
    return found


def _indexed(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return f({name: block * (1 + 0.01 * torch.arange(block.shape[-1], dtype=block.dtype)) for name, block in W.items()}, x)


def _without_last(f: Forward, W: Weights, x: Inputs) -> Tensor:
    kept = {name: block * (torch.arange(block.shape[-1]) < block.shape[-1] - 1).to(block.dtype) for name, block in W.items()}
    return f(kept, x)


def _biased(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return f({name: block + 0.1 for name, block in W.items()}, x)


def _not_finite(f: Forward, W: Weights, x: Inputs) -> Tensor:
    size = sum(block.square().sum() for block in W.values())
    return f(W, x) * (size / size)


def _single(f: Forward, W: Weights, x: Inputs) -> Tensor:
    coarse = {name: t.float() if t.is_floating_point() else t for name, t in x.items()}
    return f({name: block.float() for name, block in W.items()}, coarse).double()


def _rounded(f: Forward, W: Weights, x: Inputs) -> Tensor:
    return (f(W, x) * 1e4).round() / 1e4


def _third_order(f: Forward, W: Weights, x: Inputs) -> Tensor:
    a = first(W)
    return a.sum() * (a**2).sum()


def _ring(f: Forward, W: Weights, x: Inputs) -> Tensor:
    a = first(W) ** 2
    return (a * a.roll(1)).sum()


def _indexed_quartic(f: Forward, W: Weights, x: Inputs) -> Tensor:
    a = first(W)
    return (a**4 * torch.arange(len(a), dtype=a.dtype)).sum()
