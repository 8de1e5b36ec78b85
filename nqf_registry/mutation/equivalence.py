"""Whether a mutant is the layer itself in other words: by comparing what both do and declare, not by verifying either.

A mutant that does what the layer does cannot be caught, and need not be. The comparison is slow and obvious on purpose, and
owes nothing to the verifier.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Layer, declares

SEEDS = 6
WIDTHS = (1, 2, 3, 5)
SAMPLES = (1, 4)
PARTS = ("structure", "linear", "cross")
TOLERANCE = 1e-13


def comparisons(layer: Layer, mutant: Layer) -> int:
    """How many comparisons found both equal; 0 where one found them different."""
    if layer.claims != mutant.claims:
        return 0
    count = 0
    for one, other, x, W in _settings(layer, mutant):
        if not _same_calls(one, other, W, x):
            return 0
        count += 1
        for part in (*PARTS, "offset"):
            if declares(one, part) != declares(other, part):
                return 0
            if declares(one, part):
                if not _alike(_declared(one, part, x), _declared(other, part, x)):
                    return 0
                count += 1
        a, b = (_gradient(own, W, x) for own in (one, other))
        if a.keys() != b.keys() or not all(_alike(a[name], b[name]) for name in a):
            return 0
        count += 1
    return count


def _settings(layer: Layer, mutant: Layer) -> Iterator[tuple[Layer, Layer, dict[str, Tensor], dict[str, Tensor]]]:
    """Both at several widths, with inputs and weights, zero ones among them."""
    widths = [w for w in WIDTHS if layer.resized(w).width == w] or [layer.width]
    for width in widths:
        one, other = layer.resized(width), mutant.resized(width)
        for seed in range(SEEDS):
            for n in SAMPLES:
                generator = torch.Generator().manual_seed(seed)
                x = {name: t.double() if t.is_floating_point() else t for name, t in one.sample(n, generator).items()}
                again = other.sample(n, torch.Generator().manual_seed(seed))
                if x.keys() != again.keys() or not all(torch.equal(x[name], again[name].to(x[name].dtype)) for name in x):
                    yield one, other, {}, {}
                yield one, other, x, one.random(generator, 10.0 ** (1 - seed), torch.float64)
        yield one, other, x, one.zeros(torch.float64)


def _same_calls(one: Layer, other: Layer, W: dict[str, Tensor], x: dict[str, Tensor]) -> bool:
    """Whether both give the same bits, called twice and with a replica axis, and leave W, x and torch's generator alone."""
    if not x:  # they draw different inputs
        return False
    replicas = {name: torch.stack([block, 0.5 * block]) for name, block in W.items()}
    for weights in (W, W, replicas):
        given, inputs = ({name: t.clone() for name, t in tensors.items()} for tensors in (weights, x))
        with torch.no_grad():
            expected = one({name: t.clone() for name, t in weights.items()}, {name: t.clone() for name, t in x.items()})
            before = torch.get_rng_state()
            value = other(given, inputs)
        untouched = all(torch.equal(given[name], weights[name]) for name in weights)
        untouched = untouched and all(torch.equal(inputs[name], x[name]) for name in x)
        if not (untouched and torch.equal(before, torch.get_rng_state()) and _equal(value, expected)):
            return False
    return True


def _gradient(layer: Any, W: dict[str, Tensor], x: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradients against one random cotangent: by autograd, and as the layer writes them, by name."""
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    with torch.enable_grad():
        out = layer(leaves, x)
    cotangent = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=out.dtype)
    found: dict[str, Tensor] = {}
    if out.requires_grad:
        grads = torch.autograd.grad(out, list(leaves.values()), cotangent, allow_unused=True)
        found = {f"autograd {name}": g for name, g in zip(leaves, grads, strict=True) if g is not None}
    if declares(layer, "linearise"):
        value, pull = layer.linearise(W, x)
        found |= {"linearise": value} | {f"linearise {name}": g for name, g in pull(cotangent).items()}
    if declares(layer, "pullback"):
        lead = layer.batched
        V = {name: block[None] for name, block in W.items()} if lead else W
        found |= {f"pullback {name}": g for name, g in layer.pullback(V, x, cotangent[None] if lead else cotangent).items()}
    return found


def _declared(layer: Any, part: str, x: dict[str, Tensor]) -> Tensor:
    value = getattr(layer, part)(x)
    if part in ("structure", "cross"):
        return value.dense(torch.float64)
    if part == "linear":
        return torch.cat([block.reshape(-1).double() for _, block in sorted(value.items())]) if value else torch.zeros(0)
    with contextlib.suppress(AttributeError):
        return value.double()
    return torch.tensor(float(value), dtype=torch.float64)


def _equal(a: Tensor, b: Tensor) -> bool:
    """Bit by bit."""
    return a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)


def _alike(a: Tensor, b: Tensor) -> bool:
    """To the rounding of sums in another order."""
    return a.shape == b.shape and bool(((a - b).abs() <= TOLERANCE * b.abs().max().clamp_min(1e-300)).all())
