"""A layer seen through random combinations: small enough to be measured where the layer itself is not.

The blocks of a neuron move in a few random directions, w = E c with E drawn once, and the outputs are seen as a few random
sums, S f(E C). What a layer promises of every W and every output, such as symmetry, zero gradient at zero and the order of a
remainder, its sketch keeps; and what fails for a layer fails for nearly every sketch of it: a polynomial in w that is not zero
is zero only on a set of directions of measure zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, Weights, Workspace

DIRECTIONS = 3
NEURONS = 4
OUTPUTS = 6
POSITIONS = 4  # of a sequence
_FIRST: Any = ([0], [0])


@dataclass(frozen=True)
class Sketch(Layer):
    """S f(E C): a layer of which each block moves in a few directions, seen through a few sums of its outputs.

    Attributes:
        width: neurons that move, as many as ``inner`` was given; the others are zero where the layer's own width is fixed.
        inner: the layer, at that width where its width is free.
        directions: E by block (directions, *shape).
        sums: S (K, outputs), None where all outputs are seen.
        room: the layer's kept weights, where it has some.
        cut: the length of the sequences among the inputs, and to how many positions they are cut; None where they are not.
    """

    width: int = field(init=False)
    neurons: int = NEURONS
    inner: Layer = field(repr=False, compare=False, kw_only=True)
    directions: Mapping[str, Tensor] = field(repr=False, compare=False, kw_only=True)
    sums: Tensor | None = field(repr=False, compare=False, kw_only=True)
    cut: tuple[int, int] | None = field(default=None, repr=False, compare=False, kw_only=True)

    room: Workspace | None = field(default=None, repr=False, compare=False, kw_only=True)

    batched = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", self.neurons)

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """Coordinates of each block along its directions."""
        return {name: (len(drawn),) for name, drawn in self.directions.items()}

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Inputs of the layer, cut to a few positions."""
        return _shortened(self.inner.sample(n, generator), self.cut)

    def forward(self, W: Weights, x: Inputs) -> Tensor:
        """(n, outputs), or (R, n, outputs): replica by replica, since each takes the memory of the whole layer."""
        first = next(iter(W.values()))
        if first.ndim == 2:
            return self._one(W, x)
        return torch.stack([self._one({name: block[r] for name, block in W.items()}, x) for r in range(len(first))])

    def _one(self, W: Weights, x: Inputs) -> Tensor:
        whole = {name: torch.tensordot(self.directions[name].to(c), c, dims=_FIRST) for name, c in W.items()}
        if self.room is None or not all(map(_plain, whole.values())):
            return self._seen(self.inner.forward(whole, x))
        views = [self.room.blocks[name][..., : self.width] for name in whole]
        try:
            for view, block in zip(views, whole.values(), strict=True):
                view.copy_(block)
            return self._seen(self.room.evaluate(x)).clone()
        finally:  # a call leaves nothing behind
            for view in views:
                view.zero_()

    def _seen(self, out: Tensor) -> Tensor:
        return out if self.sums is None else out @ self.sums.to(out)

    @property
    def footprint(self) -> int:
        """Numbers in the weights of the layer itself."""
        return self.inner.footprint


def sketch(
    layer: Layer,
    *,
    directions: int = DIRECTIONS,
    width: int = NEURONS,
    outputs: int = OUTPUTS,
    positions: int | None = POSITIONS,
    seed: int = 0,
) -> Sketch:
    """A layer seen through random combinations, with the same claims: small enough to be verified where the layer is not.

    Args:
        layer: any layer, however large.
        directions: in how many random directions a block moves; a block of fewer numbers moves in all.
        width: how many neurons move; at most the layer's.
        outputs: how many random sums of the outputs are seen; fewer outputs are seen as they are.
        positions: sequences among the inputs are cut to this length where the layer can be evaluated at it; None leaves them.
        seed: of the draws.

    Raises:
        InvalidInput: this is no layer, or a number is not positive.

    Example:
        >>> import nqf_registry as nqf
        >>> large = nqf.default_registry().get("quadratic-network", n_in=100_000, width=1000)
        >>> small = nqf.sketch(large)
        >>> small.n_params, small.width
        (3, 4)
        >>> report = nqf.verify(small)
        >>> report.passed, report.classification
        (True, 'exact-nqf')
    """
    if not isinstance(layer, Layer):
        raise InvalidInput(f"sketch takes an nqf.Layer, got {type(layer).__name__}.")
    numbers: dict[str, Any] = {"directions": directions, "width": width, "outputs": outputs, "positions": positions or 1}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InvalidInput(f"{name} must be a positive number, got {value!r}.")
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: _directions(shape, directions, generator) for name, shape in layer.blocks().items()}
    few = min(width, layer.width)
    cut = None if positions is None else _cut(layer, positions)
    x = _shortened(layer.sample(2, torch.Generator().manual_seed(0)), cut)
    with torch.no_grad():
        k = _outputs(layer, few, x)
    sums = torch.randn(k, outputs, generator=generator, dtype=torch.float64) / math.sqrt(k) if k > outputs else None
    cls = type(f"Sketch{type(layer).__name__}", (Sketch,), {"key": layer.key, "title": layer.title, "claims": layer.claims})
    inner = layer.resized(few)
    return cls(neurons=few, inner=inner, directions=drawn, sums=sums, room=inner.workspace(), cut=cut)


def described(small: Sketch) -> str:
    """What a sketch is, in words."""
    most = max(len(drawn) for drawn in small.directions.values())
    parts = [f"each block in {most} random directions", f"{small.width} neurons"]
    if small.sums is not None:
        parts.append(f"{small.sums.shape[1]} random sums of its {small.sums.shape[0]} outputs")
    if small.cut is not None:
        parts.append(f"{small.cut[1]} of {small.cut[0]} positions")
    return "measured through a sketch: " + ", ".join(parts)


def _directions(shape: tuple[int, ...], directions: int, generator: torch.Generator) -> Tensor:
    size = math.prod(shape)
    if size <= directions:
        return torch.eye(size, dtype=torch.float64).reshape(size, *shape)
    return torch.randn(directions, *shape, generator=generator, dtype=torch.float64)


def _cut(layer: Layer, positions: int) -> tuple[int, int] | None:
    """The length of sequences, a first axis after the samples, at a part of which the layer can be evaluated too."""
    x = layer.sample(2, torch.Generator().manual_seed(0))
    for size in sorted({t.shape[1] for t in x.values() if t.ndim > 1 and t.shape[1] > positions}):
        try:
            with torch.no_grad():
                _outputs(layer, 1, _shortened(x, (size, positions)))
        except Exception:  # whatever a layer raises at inputs of other sizes
            continue
        return size, positions
    return None


def _shortened(x: Inputs, cut: tuple[int, int] | None) -> dict[str, Tensor]:
    """Inputs of which every axis of the sequences' length is cut."""
    if cut is None:
        return dict(x)
    size, positions = cut
    found = {}
    for name, t in x.items():
        for axis in range(1, t.ndim):
            t = t.narrow(axis, 0, positions) if t.shape[axis] == size else t
        found[name] = t.contiguous()
    return found


def _plain(t: Tensor) -> bool:
    """Whether a tensor is float64 numbers in memory, no part of a transform and of no graph."""
    if t.dtype != torch.float64 or t.device.type != "cpu" or (torch.is_grad_enabled() and t.requires_grad):
        return False
    try:
        t.data_ptr()
    except RuntimeError:
        return False
    return True


def _outputs(layer: Layer, width: int, x: Inputs) -> int:
    small = layer.resized(width)
    W = {name: torch.zeros(*shape, width) for name, shape in small.blocks().items()}
    return small.forward(W, x).shape[-1]
