"""Faults of the partition: two neurons declared as one."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares
from nqf_registry.mutation.mutants import Mutant, altered, without_gradient
from nqf_registry.structure import Structure, dense


def partition_faults(layer: Layer) -> list[Mutant]:
    """The mutant of a layer whose width is free; none where f depends on the number of neurons beside their weights."""
    if layer.resized(2).width != 2 or not layer.claims.zgz:
        return []
    what = "each block twice as long, half as many neurons"
    return [Mutant("two neurons as one", _paired(layer), ("minimality",), description=what)]


def _paired(layer: Layer) -> Layer:
    original: Any = type(layer)

    def blocks(self: Layer) -> dict[str, tuple[int, ...]]:
        return {name: (2, *shape) for name, shape in original.blocks(self).items()}

    def whole(self: Layer) -> Layer:
        """The layer as it was, of twice as many neurons."""
        return dataclasses.replace(layer, width=2 * self.width)  # type: ignore[type-var]

    def forward(self: Layer, W: Weights, x: Inputs) -> Tensor:
        return whole(self)({name: torch.cat([block[0], block[1]], -1) for name, block in W.items()}, x)

    def structure(self: Layer, x: Inputs) -> Structure:
        own: Any = whole(self)
        A = own.structure(x).dense()
        sizes = [int(torch.Size(shape).numel()) for shape in own.blocks().values()]
        twice = A.new_zeros(*A.shape[:-2], 2 * A.shape[-1], 2 * A.shape[-1])
        for half in range(2):
            index, start = [], 0
            for size in sizes:
                index += range(2 * start + half * size, 2 * start + (half + 1) * size)
                start += size
            place = torch.tensor(index)
            twice[..., place[:, None], place] = A
        return dense(twice)

    methods: dict[str, Any] = {"blocks": blocks, "forward": forward, "batched": False, **without_gradient(layer)}
    for name in ("structure", "linear", "cross", "offset", "variants"):
        if declares(layer, name):
            methods[name] = None
    if declares(layer, "structure"):
        methods["structure"] = structure
    if declares(layer, "offset"):
        methods["offset"] = lambda self, x: original.offset(whole(self), x)
    return altered(layer, **methods)
