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
        if not _equal(_value(one, W, x), _value(other, W, x)):
            return 0
        count += 1
        for part in (*PARTS, "offset"):
            if declares(one, part) != declares(other, part):
                return 0
            if declares(one, part):
                if not _alike(_declared(one, part, x), _declared(other, part, x)):
                    return 0
                count += 1
        if declares(one, "pullback"):
            cotangent = torch.ones_like(_value(one, W, x))
            a, b = (own.pullback(W, x, cotangent) for own in (one, other))  # type: ignore[attr-defined]
            if not all(_alike(a[name], b[name]) for name in a):
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
                yield one, other, x, one.random(generator, 10.0 ** (1 - seed), torch.float64)
        yield one, other, x, one.zeros(torch.float64)


def _value(layer: Layer, W: dict[str, Tensor], x: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return layer({name: block.clone() for name, block in W.items()}, {name: t.clone() for name, t in x.items()})


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
