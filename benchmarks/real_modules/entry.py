"""One row of the table: a module as its package makes it, and the units that a person would declare."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nqf_registry.modules.call import Output, module_call
from nqf_registry.modules.find import Neurons
from nqf_registry.modules.partition import declared, orders, permuted


@dataclass(frozen=True)
class Units:
    """A partition as it is declared by hand.

    Attributes:
        patterns: by parameter, an einops pattern with the neuron first after the arrow.
        sizes: lengths of the factors of packed axes.
    """

    patterns: Mapping[str, str]
    sizes: Mapping[str, int] = field(default_factory=dict)

    def acts_as(self, found: Neurons, parameters: Mapping[str, Tensor]) -> bool:
        """Whether a permutation of these units moves every parameter as the same permutation of the found ones does."""
        mine = declared(self.patterns, parameters, self.sizes)
        if mine.width != found.width:
            return False
        return all(
            all(torch.equal(p, permuted(found.partition, parameters, order)[name]) for name, p in moved.items())
            for order in orders(mine.width)
            for moved in [permuted(mine, parameters, order)]
        )


@dataclass(frozen=True)
class Entry:
    """A real layer.

    Attributes:
        name: in the table.
        make: the module and an example of its inputs.
        units: every group of interchangeable units that a person sees in it; none where there are none.
        package: whose it is.
        output: which of several outputs.
    """

    name: str
    make: Callable[[], tuple[nn.Module, Any]]
    units: Sequence[Units]
    package: str = "torch.nn"
    output: Output = None

    def distinct_parameters(self, module: nn.Module, example: Any) -> dict[str, Tensor]:
        """Parameters of which no two numbers are the same, so that every permutation shows."""
        call, _ = module_call(module, example, self.output)
        found, start = {}, 0
        for name, p in call.parameters.items():
            found[name] = torch.arange(start, start + p.numel(), dtype=torch.float64).reshape(p.shape)
            start += p.numel()
        return found


def draw(*shape: int) -> Tensor:
    """Normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def tokens(high: int, *shape: int) -> Tensor:
    """Integers below ``high``, each as often as the others."""
    return (torch.arange(math.prod(shape)) % high).reshape(shape)
