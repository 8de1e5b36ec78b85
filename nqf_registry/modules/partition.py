"""The neurons of a module as einops patterns: which axes of its parameters belong to them, and both ways between the two forms.

A pattern such as ``"o d -> d o"`` names the axes of a parameter, and after the arrow the neuron first, then the shape of one
neuron's part. A packed axis is written in factors, ``"(t h k) m -> h t k m"``. A Layer has the neuron last, so that a part
(d, *shape) becomes the block (*shape, d).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from einops import EinopsError, rearrange
from torch import Tensor

from nqf_registry.errors import InvalidInput

_NAME = r"[A-Za-z_]\w*"
_SIDE = re.compile(rf"^\s*(?:(?:{_NAME}|\(\s*{_NAME}(?:\s+{_NAME})*\s*\))\s*)+$")


@dataclass(frozen=True)
class Partition:
    """The parameters that make up the neurons of a module.

    Attributes:
        patterns: by parameter, an einops pattern.
        sizes: lengths of the named factors; those that follow from the parameters' shapes need not be given.
        width: d, the number of neurons.
        shapes: by parameter, the shape of one neuron's part.
    """

    patterns: Mapping[str, str]
    sizes: Mapping[str, int]
    width: int
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def blocks(self, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Parameters as blocks (*shape, d)."""
        return {name: self.block(name, parameters[name]) for name in self.patterns}

    def block(self, name: str, parameter: Tensor) -> Tensor:
        """One parameter as a block (*shape, d)."""
        return rearrange(parameter, self.patterns[name], **self._lengths(name)).movedim(0, -1)

    def parameter(self, name: str, block: Tensor) -> Tensor:
        """One block as the parameter it came from."""
        left, right = self.patterns[name].split("->")
        return rearrange(block.movedim(-1, 0), f"{right} -> {left}", **self._lengths(name))

    def _lengths(self, name: str) -> dict[str, int]:
        used = set(re.findall(_NAME, self.patterns[name]))
        return {factor: size for factor, size in self.sizes.items() if factor in used}


def declared(
    patterns: Mapping[str, str], parameters: Mapping[str, Tensor], sizes: Mapping[str, int] | None = None
) -> Partition:
    """A partition as it is declared.

    Args:
        patterns: by parameter, an einops pattern with the neuron first after the arrow.
        parameters: of the module.
        sizes: lengths of the factors of packed axes.

    Raises:
        InvalidInput: a parameter is unknown, a pattern is none or does not fit its parameter, or the parameters disagree about
            the number of neurons.

    Example:
        >>> import torch
        >>> found = declared({"weight": "(t h k) m -> h t k m"}, {"weight": torch.zeros(24, 5)}, {"t": 3, "h": 2})
        >>> found.width, found.shapes
        (2, {'weight': (3, 4, 5)})
    """
    if not isinstance(patterns, Mapping) or not patterns:
        raise InvalidInput(
            f"neurons must be a dict of einops patterns by parameter, such as {{'fc1.weight': 'd i -> d i'}}; got {patterns!r}."
        )
    known, widths, shapes, neurons = dict(sizes or {}), {}, {}, set()
    for name, pattern in patterns.items():
        if name not in parameters:
            raise InvalidInput(f"the module has no parameter {name!r}; it has {', '.join(parameters) or 'none'}.")
        neuron = _neuron(name, pattern)
        used = {factor: size for factor, size in known.items() if factor in re.findall(_NAME, pattern)}
        try:
            part = rearrange(parameters[name].detach(), pattern, **used)
        except EinopsError as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise InvalidInput(
                f"the pattern {pattern!r} does not fit {name} with the shape {tuple(parameters[name].shape)}: {reason} "
                "Factors of a packed axis get their lengths by sizes=, such as sizes={'h': 8}."
            ) from error
        widths[name] = part.shape[0]
        neurons.add(neuron)
        shapes[name] = tuple(part.shape[1:])
    if len(set(widths.values())) > 1:
        raise InvalidInput(f"the parameters must have one number of neurons; the patterns give {widths}.")
    width = next(iter(widths.values()))
    return Partition(dict(patterns), known | dict.fromkeys(neurons, width), width, shapes)


def _neuron(name: str, pattern: object) -> str:
    """The name of the neuron axis of a pattern."""
    left, arrow, right = pattern.partition("->") if isinstance(pattern, str) else ("", "", "")
    factors = re.findall(_NAME, left)
    if (
        not arrow
        or not (_SIDE.match(left) and _SIDE.match(right))
        or len(set(factors)) != len(factors)
        or sorted(factors) != sorted(re.findall(_NAME, right))
        or right.strip().startswith("(")
    ):
        raise InvalidInput(
            f"the pattern of {name} must name its axes, then after an arrow the neuron first and the same axes again, such as "
            f"'o d -> d o' or '(t h k) m -> h t k m'; got {pattern!r}."
        )
    return re.findall(_NAME, right)[0]


def permuted(partition: Partition, parameters: Mapping[str, Tensor], order: Tensor) -> dict[str, Tensor]:
    """The parameters with the neurons in another order; those outside the partition as they are."""
    found = dict(parameters)
    for name in partition.patterns:
        found[name] = partition.parameter(name, partition.block(name, parameters[name]).index_select(-1, order))
    return found


def orders(width: int, most: int = 24, seed: int = 0) -> list[Tensor]:
    """Permutations to try: exchanges of neighbours, all or as many as given, and random ones."""
    generator = torch.Generator().manual_seed(seed)
    pairs = range(width - 1) if width - 1 <= most else torch.randperm(width - 1, generator=generator)[:most].tolist()
    found = []
    for i in pairs:
        order = torch.arange(width)
        order[[i, i + 1]] = order[[i + 1, i]]
        found.append(order)
    return [*found, *(torch.randperm(width, generator=generator) for _ in range(2))]
