"""Faults of the partition: two neurons declared as one, stacked in the same blocks or side by side in blocks of their own."""

from __future__ import annotations

import dataclasses
from math import prod
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares
from nqf_registry.mutation.mutants import Mutant, altered, without_gradient
from nqf_registry.structure import Structure, dense

EXPECTED = ("minimality",)


def partition_faults(layer: Layer) -> list[Mutant]:
    """The mutants of a layer whose width is free and whose neurons are not coupled at second order; right in all else."""
    if layer.resized(2).width != 2 or not layer.claims.zgz:
        return []
    return [
        Mutant("two neurons as one", _paired(layer, True), EXPECTED, description="each block stacked with another neuron's"),
        Mutant(
            "two neurons side by side",
            _paired(layer, False),
            EXPECTED,
            description="one neuron has the blocks of two, by other names",
        ),
    ]


def _paired(layer: Layer, stacked: bool) -> Layer:
    original: Any = type(layer)

    def blocks(self: Layer) -> dict[str, tuple[int, ...]]:
        own = original.blocks(self)
        if stacked:
            return {name: (2, *shape) for name, shape in own.items()}
        return {f"{name}_{half}": shape for half in (1, 2) for name, shape in own.items()}

    def half(W: Weights, name: str, which: int) -> Tensor:
        return W[name][which] if stacked else W[f"{name}_{which + 1}"]

    def whole(self: Layer) -> Layer:
        """The layer as it was, of twice as many neurons."""
        return dataclasses.replace(layer, width=2 * self.width)  # type: ignore[type-var]

    def forward(self: Layer, W: Weights, x: Inputs) -> Tensor:
        return whole(self)({name: torch.cat([half(W, name, 0), half(W, name, 1)], -1) for name in original.blocks(self)}, x)

    def structure(self: Layer, x: Inputs) -> Structure:
        own: Any = whole(self)
        A = own.structure(x).dense()
        p = A.shape[-1]
        twice = A.new_zeros(*A.shape[:-2], 2 * p, 2 * p)
        for place in _places([prod(shape) for shape in own.blocks().values()], stacked):
            twice[..., place[:, None], place] = A
        return dense(twice)

    methods: dict[str, Any] = {"blocks": blocks, "forward": forward, "batched": False, **without_gradient(layer)}
    for name in ("linear", "variants"):
        if declares(layer, name):
            methods[name] = None
    if declares(layer, "structure"):
        methods["structure"] = structure
    if declares(layer, "cross"):  # zero, as the layer claims
        methods["cross"] = lambda self, x: 0.0 * structure(self, x)
    if declares(layer, "offset"):
        methods["offset"] = lambda self, x: original.offset(whole(self), x)
    return altered(layer, **methods)


def _places(sizes: list[int], stacked: bool) -> list[Tensor]:
    """Where the parameters of either half stand in the neuron of two."""
    if not stacked:
        return [torch.arange(sum(sizes)) + half * sum(sizes) for half in range(2)]
    starts = [2 * sum(sizes[:i]) for i in range(len(sizes))]
    return [
        torch.cat([start + half * size + torch.arange(size) for start, size in zip(starts, sizes, strict=True)])
        for half in range(2)
    ]
