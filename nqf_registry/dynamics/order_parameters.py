"""A quadratic form on its order parameters: what replaces W, at a cost that does not depend on the width.

Source: arXiv 2608.13335, Theorem 2 and appendix B.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod, sqrt
from typing import Any

import torch
from torch import Tensor

from nqf_registry.couplings import Blocks, Coupling, Weights, layout
from nqf_registry.dynamics.closed_set import Component, components, reduced
from nqf_registry.dynamics.general_form import GeneralForm
from nqf_registry.dynamics.rotation import rotated
from nqf_registry.errors import InvalidInput
from nqf_registry.expansion import expand
from nqf_registry.quadratic_form import QuadraticForm
from nqf_registry.structure import Structure, dense

State = dict[str, Tensor]

LARGEST = 2**27  # numbers in an A(x) that has to be derived


@dataclass(frozen=True)
class ClosedSet:
    r"""Which numbers stand for W: P L by component, see :mod:`nqf_registry.dynamics.rotation`.

    Attributes:
        blocks: shapes of one neuron's blocks.
        parts: the components.
        inert: blocks that A(x) does not reach; they are left out.
        general: whether μ enters, as it does without ZGZ.
    """

    blocks: Blocks
    parts: tuple[Component, ...]
    inert: tuple[str, ...]
    general: bool

    def start(self, W: Weights) -> State:
        r"""What stands for weights W, blocks (R, \*shape, d): a copy in blocks (R, \*shape without folded axes, d′)."""
        state: State = {}
        for part in self.parts:
            flat = [_flat(W[name], part.batched[name], self._plain(part, name), part.folded[name]) for name in part.blocks]
            Z = rotated(torch.cat(flat, -2), self.general)  # (R, batch, p, d′)
            pieces = Z.split([block.shape[-2] for block in flat], -2)
            for name, piece in zip(part.blocks, pieces, strict=True):
                order = (*part.batched[name], *self._plain(part, name))
                piece = piece.reshape(len(piece), *(self.blocks[name][a] for a in order), piece.shape[-1])
                back = [1 + sorted(order).index(a) for a in order]
                state[name] = torch.movedim(piece, list(range(1, 1 + len(order))), back).clone(
                    memory_format=torch.contiguous_format
                )
        return {name: state[name] for name in self.blocks if name in state}

    def moments(self, state: Weights) -> dict[tuple[str, ...], Tensor]:
        """M of each component by the names of its blocks, (R, batch, p, p), from a state."""
        return {blocks: S @ S.mT for blocks, S in self.stacked(state).items()}

    def moments_of(self, W: Weights) -> dict[tuple[str, ...], Tensor]:
        """The same from weights of the layer, of any width."""
        found = {}
        for part in self.parts:
            flat = [_flat(W[name], part.batched[name], self._plain(part, name), part.folded[name]) for name in part.blocks]
            S = torch.cat(flat, -2)
            found[part.blocks] = S @ S.mT
        return found

    def stacked(self, state: Weights) -> dict[tuple[str, ...], Tensor]:
        """The blocks of each component of a state on top of each other, (R, batch, p, d′)."""
        return {
            part.blocks: torch.cat([_flat(state[name], *self._kept(part, name), ()) for name in part.blocks], -2)
            for part in self.parts
        }

    def unit(self, component: int, vectors: Tensor) -> State:
        """The state whose one component is vectors (batch, p, d′), every other being zero; undone by :meth:`stacked`."""
        state: State = {}
        shapes = self.shapes
        for position, part in enumerate(self.parts):
            place = 0
            for name in part.blocks:
                (batched, plain), kept = self._kept(part, name), shapes[name]
                if position != component:
                    state[name] = vectors.new_zeros(1, *kept, vectors.shape[-1])
                    continue
                rows = prod(kept[a] for a in plain)
                order = (*batched, *plain)
                piece = vectors[:, place : place + rows].reshape(1, *(kept[a] for a in order), vectors.shape[-1])
                state[name] = torch.movedim(piece, list(range(1, 1 + len(order))), [1 + a for a in order])
                place += rows
        return state

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of the blocks of a state, without replicas and neurons: those of the layer without their folded axes."""
        return {
            name: tuple(size for axis, size in enumerate(self.blocks[name]) if axis not in part.folded[name])
            for part in self.parts
            for name in part.blocks
        }

    def size(self, component: int) -> tuple[int, int]:
        """How many M a component has, and how many rows each: (batch, p)."""
        part = self.parts[component]
        first = part.blocks[0]
        rows = sum(prod(self.blocks[name][a] for a in self._plain(part, name)) for name in part.blocks)
        return prod(self.blocks[first][a] for a in part.batched[first]), rows

    def _kept(self, part: Component, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The batched and the plain axes of a block of a state, which lacks the folded ones."""
        kept = [a for a in range(len(self.blocks[name])) if a not in part.folded[name]]
        return tuple(kept.index(a) for a in part.batched[name]), tuple(kept.index(a) for a in self._plain(part, name))

    def describe(self) -> dict[str, Any]:
        """The closed set in words and numbers, for a manifest."""
        parts = [
            {
                "blocks": list(part.blocks),
                "folded": {name: list(axes) for name, axes in part.folded.items() if axes},
                "batched": {name: list(axes) for name, axes in part.batched.items() if axes},
            }
            for part in self.parts
        ]
        return {"components": parts, "inert": list(self.inert), "mean": self.general}

    def _plain(self, part: Component, name: str) -> tuple[int, ...]:
        return part.plain(name, len(self.blocks[name]))


def closed_set(form: QuadraticForm) -> ClosedSet:
    """The smallest closed set of a layer's quadratic form, declared throughout (see :func:`declared`)."""
    structures = [_nonzero(part) for part in (form.structure, form.cross) if part is not None]
    general = bool(form.linear) or (form.cross is not None and bool(_nonzero(form.cross).terms))
    blocks = form.layer.blocks()
    found, inert = components(structures, form.linear, blocks, general)
    return ClosedSet(blocks, tuple(found), inert, general)


def reduce(form: QuadraticForm, chosen: ClosedSet) -> GeneralForm:
    """A layer's quadratic form, declared throughout, on the state of its closed set; √d times its first column is μ."""
    assert form.structure is not None
    structure, cross = _nonzero(form.structure), None if form.cross is None else _nonzero(form.cross)
    if cross is not None and cross.terms:
        structure, cross = structure - cross, reduced(cross, chosen.parts, chosen.blocks)
    else:
        cross = None
    return GeneralForm(reduced(structure, chosen.parts, chosen.blocks), form.offset, form.linear, cross, sqrt(form.layer.width))


def declared(form: QuadraticForm) -> QuadraticForm:
    """The form itself where the layer declares all of it, else with the parts it leaves out derived by autodiff.

    Raises:
        InvalidInput: A(x) would have to be derived and is too large for that.
    """
    if form.structure is not None:
        return form
    layer, p = form.layer, form.layer.n_params
    n = len(next(iter(form.x.values())))
    if n * p * p > LARGEST:
        raise InvalidInput(
            f"{layer.key} does not declare its whole quadratic form, and to derive it for {n} samples takes {n} × {p} × {p} "
            f"numbers (the limit is {LARGEST}); declare structure(x), or give fewer samples."
        )
    found = expand(layer, form.x)
    if layer.claims.zgz:
        return replace(form, offset=found.offset, structure=dense(found.diagonal).bind(layer.blocks()))
    shapes = layer.blocks()
    linear = {
        name: found.linear[..., where].reshape(*found.linear.shape[:2], *shapes[name]) for name, where in layout(shapes).items()
    }
    return replace(
        form,
        offset=found.offset,
        structure=dense(found.diagonal).bind(shapes),
        linear=linear,
        cross=dense(found.cross).bind(shapes),
    )


def _flat(block: Tensor, batched: Sequence[int], plain: Sequence[int], folded: Sequence[int]) -> Tensor:
    """A block (R, *shape, d) as (R, batch, plain, folded · d)."""
    order = [1 + a for a in (*batched, *plain, *folded)]
    block = torch.movedim(block, order, list(range(1, 1 + len(order))))
    sizes = block.shape[1:-1]
    batch, rows = prod(sizes[: len(batched)]), prod(sizes[len(batched) : len(batched) + len(plain)])
    return block.reshape(len(block), batch, rows, -1)


def _nonzero(structure: Structure) -> Structure:
    """Without the couplings that are written as zero, such as a B that a layer declares because it must."""
    kept = (term for term in structure.terms if (term.scale if isinstance(term, Coupling) else bool(term.tensor.any())))
    return replace(structure, terms=tuple(kept))
