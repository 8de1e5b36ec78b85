"""What hypothesis draws: an instance, a width, inputs, weights and a permutation, as a few integers that shrink.

Weights and inputs come from seeds, not from lists of floats: a list of floats drawn by hypothesis is mostly zeros and round
numbers, on which much holds that is false. The draw shrinks to the smallest width and the first seeds; ``simplify`` then zeroes
and rounds the weights themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

import torch
from hypothesis import strategies as st
from torch import Tensor

from nqf_registry.verify.setting import Undecided

RANDOM = 3  # random permutations of one example


@dataclass(frozen=True)
class Draw:
    """One example, before anything is made of it.

    Attributes:
        instance: which of the layer and its variants.
        width: number of neurons.
        samples: number of inputs.
        inputs: seed of the inputs.
        weights: seed of the weights.
        factor: size of the weights in units of the layer's length scale.
        neuron: which neuron is singled out, counted modulo the width.
    """

    instance: int = 0
    width: int = 1
    samples: int = 4
    inputs: int = 0
    weights: int = 0
    factor: float = 1.0
    neuron: int = 0


def draws(
    instances: int, widths: Sequence[int], settings: int, factors: Sequence[float] = (1.0,), samples: Sequence[int] = (4, 1)
) -> st.SearchStrategy[Draw]:
    """Draws over the given choices; every choice shrinks towards its first."""
    return st.builds(
        Draw,
        instance=st.integers(0, instances - 1),
        width=st.sampled_from(list(widths)),
        samples=st.sampled_from(list(samples)),
        inputs=st.integers(0, settings - 1),
        weights=st.integers(0, 2**16),
        factor=st.sampled_from(list(factors)),
        neuron=st.integers(0, max(widths) - 1),
    )


def simpler(draw: Draw, widths: Sequence[int], factors: Sequence[float], samples: Sequence[int]) -> Iterator[Draw]:
    """Draws that are simpler than this one in one field, the simplest first: fewer neurons, then the first of each choice."""
    simplest = Draw(0, draw.width, samples[0], 0, 0, factors[0], 0)
    yield from (replace(draw, width=width) for width in widths if width < draw.width)
    for field in fields(Draw):
        if getattr(draw, field.name) != getattr(simplest, field.name):
            yield replace(draw, **{field.name: getattr(simplest, field.name)})


def gaussian_weights(p: int, d: int, size: float, generator: torch.Generator) -> Tensor:
    """Normal weights (p, d) of a given size, rounded to sixteenths of it and never zero, so that they print in few digits."""
    grid = (16 * torch.randn(p, d, generator=generator, dtype=torch.float64)).round()
    return size * torch.where(grid == 0, torch.ones_like(grid), grid) / 16


def permutations(d: int, generator: torch.Generator) -> list[list[int]]:
    """Every exchange of neighbours, which generate all permutations, a turn of all neurons by one, and random ones."""
    identity = list(range(d))
    exchanges = [[*identity[:i], i + 1, i, *identity[i + 2 :]] for i in range(d - 1)]
    if d < 3:
        return exchanges
    return [*exchanges, [*identity[1:], 0], *(torch.randperm(d, generator=generator).tolist() for _ in range(RANDOM))]


def simplify(weights: Tensor, size: float, fails: Callable[[Tensor], bool], tries: int = 120) -> Tensor:
    """Zeroes neurons, rows and entries of failing weights (p, d) and rounds the rest, as long as they go on failing."""
    p, d = weights.shape
    left = tries

    def attempt(candidate: Tensor) -> bool:
        nonlocal weights, left
        if left <= 0 or bool((candidate == weights).all()):
            return False
        left -= 1
        try:
            failed = fails(candidate)
        except Undecided:  # simplified so far that there is nothing left to measure
            return False
        if failed:
            weights = candidate
        return failed

    for axis, count in ((1, d), (0, p)):
        for index in range(count):
            candidate = weights.clone()
            candidate.select(axis, index).zero_()
            attempt(candidate)
    if p * d <= 64:
        for a in range(p):
            for i in range(d):
                candidate = weights.clone()
                candidate[a, i] = 0
                attempt(candidate)
    for grid in (1.0, 0.5, 0.25):
        rounded = size * grid * (weights / (size * grid)).round()
        if attempt(rounded):
            break
    return weights
