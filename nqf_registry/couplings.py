"""The terms a structure matrix is a sum of: einsum couplings between blocks, and explicit matrices.

A term is a form in one neuron, Σ left·coefficients·right, kept as its einsum operands. Every operation contracts those operands
in the cheapest order, found once per set of shapes, so p × p appears only where it is asked for by name.

Letters: the author of a layer uses lower-case ones; the upper-case ones below are added here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import opt_einsum
import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput

NEURON, REPLICA, LEFT, RIGHT = "Z", "R", "X", "Y"
FRESH = "ABCDEFGHIJ"

Blocks = Mapping[str, tuple[int, ...]]
Weights = Mapping[str, Tensor]


@lru_cache(maxsize=4096)
def _plan(spec: str, shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[tuple[int, ...], str], ...]:
    """The cheapest pairwise order of a contraction, as (positions to pop, einsum of those) steps."""
    strategy = "optimal" if len(shapes) <= 6 else "auto"
    steps = opt_einsum.contract_path(spec, *shapes, shapes=True, optimize=strategy)[1].contraction_list
    return tuple((tuple(step[0]), step[2]) for step in steps)


def contract(spec: str, *operands: Tensor) -> Tensor:
    """``torch.einsum`` in the cheapest pairwise order, which is worked out once for each set of shapes."""
    if len(operands) <= 2:
        return torch.einsum(spec, *operands)
    pending = list(operands)
    for positions, step in _plan(spec, tuple(tuple(t.shape) for t in operands)):
        pending.append(torch.einsum(step, *(pending.pop(i) for i in positions)))
    return pending[0]


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a block that an integer input picks, one row a sample; made by :func:`nqf_registry.rows`."""

    block: str
    index: Tensor  # (n,) integers


def pick(block: Tensor, axis: int, which: Rows) -> Tensor:
    """The picked rows along one axis.

    Unlike an index in brackets it takes no negative number. Looking at the index first would cost a pass over it, and on a
    GPU a wait, at every call.

    Raises:
        InvalidInput: a row is not there.
    """
    try:
        return block.index_select(axis, which.index)
    except (IndexError, RuntimeError):  # torch raises the one on the first axis and the other elsewhere
        size = block.shape[axis]
        if not bool(((which.index < 0) | (which.index >= size)).any()):
            raise
        raise _out_of_range(which, size) from None


def _out_of_range(which: Rows, size: int) -> InvalidInput:
    low, high = (int(t) for t in which.index.aminmax())
    return InvalidInput(
        f"nqf.rows picks rows {low} to {high} of block {which.block!r}, which has {size}; rows count from 0 to {size - 1}."
    )


def _name(side: str | Rows) -> str:
    return side if isinstance(side, str) else side.block


@dataclass(frozen=True, eq=False)
class Coupling:
    """scale · Σ left·coefficients·right over all letters that the output lacks; A is the symmetric part of its matrix."""

    letters: tuple[str, ...]  # one string an operand, left first, right last
    output: str  # "n" and the output letters
    left: str | Rows
    coefficients: tuple[Tensor, ...]
    right: str | Rows
    scale: float = 1.0

    @property
    def names(self) -> tuple[str, str]:
        """The names of the left and the right block."""
        return _name(self.left), _name(self.right)

    def rank_of(self, side: int) -> int:
        """How many axes the block on one side (0 left, 1 right) has, without its neuron axis."""
        return len(self.letters[-side])

    def _coefficients(self, like: Tensor) -> tuple[Tensor, ...]:
        return tuple(c.to(like.dtype) for c in self.coefficients)

    def _operand(self, W: Weights, side: int) -> tuple[str, Tensor]:
        """Letters and tensor of one side, with its neuron axis and, if the weights have it, the replica axis."""
        which, letters = (self.left, self.right)[side], self.letters[-side]
        block = W[_name(which)]
        replicas = REPLICA if block.ndim == len(letters) + 2 else ""
        if isinstance(which, Rows):
            block = pick(block, len(replicas), which)
        return replicas + letters + NEURON, block

    def sizes(self) -> dict[str, int]:
        """The sizes of the letters that the coefficients and picked rows fix."""
        known = {
            a: s
            for word, c in zip(self.letters[1:-1], self.coefficients, strict=True)
            for a, s in zip(word, c.shape, strict=True)
        }
        for which in (self.left, self.right):
            if isinstance(which, Rows):
                known["n"] = which.index.shape[0]
        return known

    def fit(self, blocks: Blocks) -> dict[str, int]:
        """The size of every letter, given the shapes of the blocks.

        Raises:
            InvalidInput: a block has another size than a coefficient, or than the other block, under the same letter.
        """
        sizes = self.sizes()
        for side, (name, which) in enumerate(zip(self.names, (self.left, self.right), strict=True)):
            picked = isinstance(which, Rows)  # then the first axis of the block is what the index counts
            for letter, size in list(zip(self.letters[-side], blocks[name], strict=True))[picked:]:
                if sizes.setdefault(letter, size) != size:
                    raise InvalidInput(
                        f"The structure gives the letter {letter!r} size {sizes[letter]}, block {name!r} is {blocks[name]}."
                    )
        return sizes

    def counts(self, blocks: Blocks) -> tuple[int, int]:
        """The numbers n of samples and k of outputs; raises as :meth:`fit` does."""
        sizes = self.fit(blocks)
        return sizes["n"], prod(sizes[a] for a in self.output[1:])

    def _outputs(self, value: Tensor) -> Tensor:
        """Joins the output axes into the last one: (..., n, *outs) to (..., n, k)."""
        lead = value.shape[: value.ndim - len(self.output) + 1]
        return value.reshape(*lead, prod(value.shape[len(lead) :]))

    def _cotangent(self, cotangent: Tensor, W: Weights) -> Tensor:
        """Splits the last axis of (..., n, k) into the output axes of the spec."""
        sizes = self.sizes()
        for side in (0, 1):
            word, block = self._operand(W, side)
            sizes.update(zip(word, block.shape, strict=True))
        return cotangent.reshape(*cotangent.shape[:-1], *(sizes[a] for a in self.output[1:]))

    def evaluate(self, W: Weights) -> Tensor:
        """Tr[W Wᵀ A], (n, k) or (R, n, k)."""
        (left, u), (right, v) = self._operand(W, 0), self._operand(W, 1)
        replicas = REPLICA if REPLICA in left else ""
        spec = ",".join((left, *self.letters[1:-1], right)) + "->" + replicas + self.output
        return self.scale * self._outputs(contract(spec, u, *self._coefficients(u), v))

    def _partial(self, W: Weights, side: int, cotangent: Tensor | None) -> Tensor:
        """Derivative by one side; summed against a cotangent (..., n, k), or by sample and output where that is None."""
        other, value = self._operand(W, 1 - side)
        target, block = self._operand(W, side)
        replicas = REPLICA if REPLICA in target else ""
        words, tensors = [*self.letters[1:-1], other], [*self._coefficients(value), value]
        if cotangent is None:
            for position, letter in enumerate(
                sorted(set(self.output[1:]) & set(target))
            ):  # an output axis is a block axis too: a diagonal
                fresh = FRESH[position]
                words.append(letter + fresh)
                size = dict(zip(target, block.shape, strict=True))[letter]
                tensors.append(torch.eye(size, dtype=block.dtype, device=block.device))
                target = target.replace(letter, fresh)
            out = replicas + self.output + "".join(a for a in target if a not in replicas + "n")
        else:
            words.append(replicas + self.output)
            tensors.append(self._cotangent(cotangent.to(block.dtype), W))
            out = target
        for letter, size in zip(target, block.shape, strict=True):
            if letter not in "".join(words):  # a letter of this side alone: the form sums over it
                words.append(letter)
                tensors.append(block.new_ones(size))
        return self.scale * contract(",".join(words) + "->" + out, *tensors)

    def add_pullback(self, W: Weights, cotangent: Tensor, into: dict[str, Tensor]) -> None:
        """Adds Σ cotangent · ∂ Tr[W Wᵀ A] / ∂W to the blocks of ``into``."""
        for side, which in enumerate((self.left, self.right)):
            part = self._partial(W, side, cotangent)
            name = _name(which)
            if isinstance(which, Rows):
                into[name].index_add_(1 if part.ndim == len(self.letters[-side]) + 2 else 0, which.index, part)
            else:
                into[name] += part

    def add_apply(self, W: Weights, into: dict[str, Tensor]) -> None:
        """Adds A W, by sample and output, to the blocks of ``into``: (n, k, *block, d)."""
        for side, which in enumerate((self.left, self.right)):
            part = self._partial(W, side, None) / 2
            outs = len(self.output)
            part = part.reshape(part.shape[0], prod(part.shape[1:outs]), *part.shape[outs:])  # (n, k, *letters, d)
            name = _name(which)
            if isinstance(which, Rows):
                samples = torch.arange(len(which.index), device=part.device)
                # the row axis of the block was replaced by n: put each sample's part back on its own row
                into[name].movedim(2, 1).index_put_((samples, which.index), part, accumulate=True)
            else:
                into[name] += part

    def _basis(self, side: int, shape: tuple[int, ...], like: Tensor) -> tuple[str, Tensor]:
        """The identity of one block, with its letters and one letter (X or Y) for the flat parameter."""
        which, letters, flat = (self.left, self.right)[side], self.letters[-side], (LEFT, RIGHT)[side]
        eye = torch.eye(prod(shape), dtype=like.dtype, device=like.device).reshape(prod(shape), *shape)
        return flat + letters, pick(eye, 1, which) if isinstance(which, Rows) else eye

    def _matrix(self, blocks: Blocks, like: Tensor, cotangent: Tensor | None) -> Tensor:
        """The block matrix left × right of the form: (n, *outs, p_left, p_right), or (p_left, p_right) against a cotangent."""
        (left, u), (right, v) = (self._basis(side, blocks[name], like) for side, name in enumerate(self.names))
        words, tensors = [left, *self.letters[1:-1], right], [u, *self._coefficients(like), v]
        out = self.output + LEFT + RIGHT
        if cotangent is not None:
            sizes = {**self.sizes(), **dict(zip(left, u.shape, strict=True)), **dict(zip(right, v.shape, strict=True))}
            words.append(self.output)
            tensors.append(cotangent.reshape(-1, *(sizes[a] for a in self.output[1:])))
            out = LEFT + RIGHT
        return self.scale * contract(",".join(words) + "->" + out, *tensors)

    def add_dense(self, blocks: Blocks, slices: Mapping[str, slice], into: Tensor) -> None:
        """Adds A to (n, k, p, p)."""
        part = self._matrix(blocks, into, None)
        part = part.reshape(part.shape[0], prod(part.shape[1:-2]), *part.shape[-2:]) / 2
        left, right = (slices[name] for name in self.names)
        into[..., left, right] += part
        into[..., right, left] += part.mT

    def add_weighted(self, blocks: Blocks, slices: Mapping[str, slice], cotangent: Tensor, into: Tensor) -> None:
        """Adds Σ cotangent · A to (p, p)."""
        part = self._matrix(blocks, into, cotangent) / 2
        left, right = (slices[name] for name in self.names)
        into[left, right] += part
        into[right, left] += part.mT

    def contract(self, M: Tensor, blocks: Blocks, slices: Mapping[str, slice]) -> Tensor:
        """Tr[M A] for a symmetric M (p, p): (n, k)."""
        (left, right), (lname, rname) = (self.letters[0], self.letters[-1]), self.names
        part = M[slices[lname], slices[rname]].reshape((*blocks[lname], *blocks[rname]))
        axis = len(blocks[lname])
        if isinstance(self.left, Rows) and isinstance(self.right, Rows):
            for which, name in ((self.left, lname), (self.right, rname)):
                pick(torch.empty(blocks[name][0], device=M.device), 0, which)  # the brackets below would take a negative row
            part, word = part.movedim(axis, 1)[self.left.index, self.right.index], left + right[1:]
        elif isinstance(self.left, Rows):
            part, word = pick(part, 0, self.left), left + right
        elif isinstance(self.right, Rows):
            part, word = pick(part, axis, self.right), left + right
        else:
            word = left + right
        spec = ",".join((word, *self.letters[1:-1])) + "->" + self.output
        return self.scale * self._outputs(contract(spec, part, *self._coefficients(M)))


@dataclass(frozen=True, eq=False)
class Matrix:
    """An explicit structure matrix (n, k, p, p), taken as it is: an asymmetric one is not symmetrised."""

    tensor: Tensor

    def _stack(self, W: Weights, blocks: Blocks) -> Tensor:
        return stack(W, blocks)

    def evaluate(self, W: Weights, blocks: Blocks) -> Tensor:
        """Tr[W Wᵀ A] through M = W Wᵀ, whose cost does not grow with p² × d."""
        S = self._stack(W, blocks)
        return torch.einsum("nkpq,...pq->...nk", self.tensor.to(S.dtype), S @ S.mT)

    def pullback(self, W: Weights, cotangent: Tensor, blocks: Blocks) -> dict[str, Tensor]:
        """Σ cotangent · (A + Aᵀ) W."""
        S = self._stack(W, blocks)
        H = torch.einsum("...nk,nkpq->...pq", cotangent.to(S.dtype), self.tensor.to(S.dtype))
        return unstack((H + H.mT) @ S, blocks)

    def apply(self, W: Weights, blocks: Blocks) -> dict[str, Tensor]:
        """A W by sample and output."""
        S = self._stack(W, blocks)
        return unstack(torch.einsum("nkpq,qd->nkpd", self.tensor.to(S.dtype), S), blocks)


def layout(blocks: Blocks) -> dict[str, slice]:
    """Where each block lies in the stacked p."""
    slices, start = {}, 0
    for name, shape in blocks.items():
        slices[name] = slice(start, start + prod(shape))
        start += prod(shape)
    return slices


def stack(W: Weights, blocks: Blocks) -> Tensor:
    """Blocks (..., *shape, d) to (..., p, d), each row-major, in the order of ``blocks``."""
    parts = []
    for name, shape in blocks.items():  # reshape rather than flatten: a block may be one number, of shape ()
        lead = W[name].shape[: W[name].ndim - len(shape) - 1]
        parts.append(W[name].reshape(*lead, prod(shape), W[name].shape[-1]))
    return torch.cat(parts, -2)


def unstack(S: Tensor, blocks: Blocks) -> dict[str, Tensor]:
    """(..., p, d) to blocks (..., *shape, d); the inverse of :func:`stack`."""
    return {name: S[..., where, :].reshape(*S.shape[:-2], *blocks[name], S.shape[-1]) for name, where in layout(blocks).items()}
