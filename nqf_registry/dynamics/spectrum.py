"""Distinct growth rates with their multiplicities, also where p is so large that an eigenspace is never written out.

Where Y = Y₀ ⊗ I_r, each block giving one of its axes to I_r (the entries of an attention head, say), every rate comes r times.
That is measured with two vectors, and then Y₀ alone is searched: vectors of which one slice is not zero.

Source: arXiv 2608.13335, section 4 and appendix A for x_avg ⊗ I.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from nqf_registry.dynamics.eigenpairs import top_eigenpairs
from nqf_registry.dynamics.growth import Cotangent, GrowthOperator, squared_cotangent
from nqf_registry.errors import InvalidInput
from nqf_registry.reached import inert_parts

SAME = 1e-6  # rates this close, relative to the largest, are one rate
ZERO = 1e-11  # what is left of a zero after rounding, relative to the size of Y along a random vector
MOST = 64  # eigenpairs searched at once
DENSE = 4096  # rows of a matrix that is formed at most
GRADIENTS = 32  # and where it takes so many gradients at most
TRIED = 64  # ways of giving axes to I_r that are tried for each r


@dataclass(frozen=True)
class GrowthSpectrum:
    """The fastest distinct growth rates.

    Attributes:
        rates: distinct eigenvalues λ of Y that are positive, descending; W grows as e^{λt} along their modes.
        multiplicities: how many modes of one neuron have each rate.
        inert: blocks, and slices of packed ones, that Y does not reach.
        couplings: the pairs of blocks that Y couples, "u-v".
        identity: r of Y = Y₀ ⊗ I_r; 1 where there is none.
        axes: by block, the axis that I_r acts on.
        complete: whether there are no further positive rates.
    """

    rates: tuple[float, ...]
    multiplicities: tuple[int, ...]
    inert: tuple[str, ...]
    couplings: tuple[str, ...]
    identity: int
    axes: dict[str, int]
    complete: bool

    def __str__(self) -> str:
        if not self.rates:
            return "no mode grows"
        parts = [f"{rate:.4g}" + (f" (×{m})" if m > 1 else "") for rate, m in zip(self.rates, self.multiplicities, strict=True)]
        return ", ".join(parts) + ("" if self.complete else ", …")


def growth_spectrum(
    layer: Any, data: Any, count: int = 8, cotangent: Cotangent = squared_cotangent, tolerance: float = 1e-9
) -> GrowthSpectrum:
    """The ``count`` largest distinct positive eigenvalues of Y = (4/m) Σ (y − f(0)) A(x), and how often each occurs.

    Args:
        layer: a layer.
        data: anything with training inputs ``x`` and targets ``y`` (n, k).
        count: how many distinct rates.
        cotangent: derivative of the mean loss by the outputs, for another loss than the squared one.
        tolerance: relative accuracy of the eigenvalues.

    Raises:
        InvalidInput: count is no positive number, or this is a composition, whose modes span all its weights.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("multi-head-attention", dim=3, d_v=2, n_out=1, width=2)
        >>> x = layer.sample(4, torch.Generator().manual_seed(0))
        >>> found = growth_spectrum(layer, nqf.Data(x, torch.ones(4, 1)))
        >>> found.multiplicities, found.identity, found.inert
        ((2,), 2, ('K', 'Q'))
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count < MOST:
        raise InvalidInput(f"count is how many distinct rates, 1 to {MOST - 1}; got {count!r}.")
    operator = GrowthOperator(layer, data.x, data.y, cotangent)
    if operator.neurons is None:
        raise InvalidInput("growth_spectrum takes a layer; the modes of a composition are growth_rates(composition, data, k).")
    parts = _Parts(operator)
    if parts.scale == 0.0:
        return GrowthSpectrum((), (), tuple(operator.shapes), (), 1, {}, True)
    r, axes = parts.identity()
    rows = parts.slice_of(axes, 0)  # the coordinates of Y₀

    def small(v: np.ndarray) -> np.ndarray:
        whole = np.zeros(operator.size)
        whole[rows] = v.reshape(-1)
        return operator.matvec(whole)[rows]

    dense = _dense(parts, axes, r) if len(rows) <= min(DENSE, GRADIENTS * operator.together * r) else None
    wanted = count + 1  # the last group found may have more copies
    while True:
        values = top_eigenpairs(small, len(rows), min(wanted, len(rows)), tolerance)[0] if dense is None else dense
        bound = SAME * max(float(values[0]), ZERO * parts.scale)
        positive = values[values > max(bound, ZERO * parts.scale)]
        groups = _grouped(positive, bound)
        exhausted = len(positive) < len(values) or len(values) == len(rows)
        if exhausted or len(groups) > count or wanted >= MOST:
            break
        wanted = min(2 * wanted, MOST)
    kept = groups[:count] if exhausted or len(groups) > count else groups[:-1]
    return GrowthSpectrum(
        tuple(rate for rate, _ in kept),
        tuple(r * copies for _, copies in kept),
        inert_parts(parts.reached),
        parts.couplings(),
        r,
        axes if r > 1 else {},
        exhausted and len(kept) == len(groups),
    )


def _dense(parts: _Parts, axes: dict[str, int], r: int) -> np.ndarray:
    """All eigenvalues of Y₀, descending: a gradient maps a vector for every pair of neurons and every position of I_r."""
    operator = parts.operator
    slices = [parts.slice_of(axes, position) for position in range(r)]
    size, columns = len(slices[0]), []
    for start in range(0, size, operator.together * r):
        chosen = np.array_split(np.arange(start, min(start + operator.together * r, size)), r)
        units = np.zeros((operator.size, max(map(len, chosen))))
        for rows, which in zip(slices, chosen, strict=True):
            units[rows[which], np.arange(len(which))] = 1.0
        images = operator.matmat(units)
        columns += [images[rows][:, : len(which)] for rows, which in zip(slices, chosen, strict=True)]
    matrix = np.concatenate(columns, 1)
    return np.linalg.eigvalsh((matrix + matrix.T) / 2)[::-1]


def _grouped(values: np.ndarray, bound: float) -> list[tuple[float, int]]:
    """Descending values as distinct ones with their counts."""
    groups: list[tuple[float, int]] = []
    for value in values.tolist():
        if groups and groups[-1][0] - value <= bound:
            groups[-1] = (groups[-1][0], groups[-1][1] + 1)
        else:
            groups.append((value, 1))
    return groups


class _Parts:
    """The blocks of a growth operator: what it reaches of them, and along which axes it is an identity."""

    def __init__(self, operator: GrowthOperator) -> None:
        self.operator, self._random = operator, np.random.default_rng(1)
        self.index: dict[str, np.ndarray] = {}
        start = 0
        for name, shape in operator.shapes.items():
            size = int(np.prod(shape))
            self.index[name] = np.arange(start, start + size).reshape(shape)
            start += size
        image = np.abs(operator.matvec(self._random.standard_normal(operator.size)))
        self.scale = float(image.max())
        self._reached = image > ZERO * self.scale
        self.reached = {name: torch.from_numpy(np.asarray(self._reached[where])) for name, where in self.index.items()}
        self.active = [name for name, reached in self.reached.items() if bool(reached.any())]

    def couplings(self) -> tuple[str, ...]:
        """The pairs of blocks that are coupled, each block moved by itself."""
        found = {}
        for i, name in enumerate(self.active):
            vector = np.zeros(self.operator.size)
            vector[self.index[name]] = self._random.standard_normal(self.index[name].shape)
            image = np.abs(self.operator.matvec(vector))
            for other in self.active[i:]:
                if image[self.index[other]].max() > ZERO * self.scale:
                    found[f"{name}-{other}"] = None
        return tuple(found)

    def identity(self) -> tuple[int, dict[str, int]]:
        """The largest r with Y = Y₀ ⊗ I_r, and the axes of the blocks that are reached."""
        common = set.intersection(*(set(self.index[name].shape) for name in self.active))
        for r in sorted((r for r in common if r > 1), reverse=True):
            choices = [[axis for axis, size in enumerate(self.index[name].shape) if size == r] for name in self.active]
            for axes in itertools.islice(itertools.product(*choices), TRIED):
                chosen = dict(zip(self.active, axes, strict=True))
                if self._is_identity(chosen, r):
                    return r, chosen
        return 1, {}

    def slice_of(self, axes: dict[str, int], position: int) -> np.ndarray:
        """The coordinates that are reached, at one position along the axes; all of them where there are no axes."""
        rows = [
            self.index[name].take(position, axes[name]).reshape(-1) if name in axes else self.index[name].reshape(-1)
            for name in self.active
        ]
        found = np.concatenate(rows)
        return found[self._reached[found]]

    def _is_identity(self, axes: dict[str, int], r: int) -> bool:
        images = []
        first = self.slice_of(axes, 0)
        numbers = self._random.standard_normal(len(first))
        for position in (0, r - 1):
            rows = self.slice_of(axes, position)
            if len(rows) != len(first):
                return False
            vector = np.zeros(self.operator.size)
            vector[rows] = numbers
            image = self.operator.matvec(vector)
            inside = image[rows].copy()
            image[rows] = 0.0
            if np.abs(image).max() > ZERO * self.scale:
                return False
            images.append(inside)
        return bool(np.abs(images[0] - images[1]).max() <= ZERO * self.scale)
