"""The gradient of the squared loss of a quadratic form without a sum over samples.

f is linear in the contractions T of its blocks over the neurons, f = f(0) + 𝓛 T, for the two-layer perceptron T_io = Σ u_i v_o.
So under the full-batch squared loss the derivative by T is (2/n) (𝓛*𝓛 T − 𝓛*(y − f(0))), and 𝓛*𝓛 and 𝓛*(y − f(0)) are worked
out once. Output axes that T has itself, such as o, keep apart.

For linear networks these are the input and the input-output correlations of A. Saxe, J. McClelland, S. Ganguli (2014).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import torch
from torch import Tensor

from nqf_registry.couplings import Coupling, Weights, contract
from nqf_registry.structure import Structure
from nqf_registry.train.gradients import Gradient, Product

LARGEST = 2**25  # numbers in 𝓛 and in 𝓛*𝓛


@dataclass(frozen=True)
class Term:
    """One coupling as a product of matrices: T = U Vᵀ summed over neurons.

    Attributes:
        names: the left block and the right one.
        letters: what their axes are called in the spec.
        shared: letters of both, which T has once.
        left: letters of the left block alone.
        right: letters of the right block alone.
        columns: letters of T that are no output's.
        own: letters of T that are an output's, in the order of the output.
        places: where those stand in the output.
        sizes: of every letter.
    """

    names: tuple[str, str]
    letters: tuple[str, str]
    shared: str
    left: str
    right: str
    columns: str
    own: str
    places: tuple[int, ...]
    sizes: dict[str, int]

    def count(self, letters: str) -> int:
        """How many index values some letters have together."""
        return prod(self.sizes[a] for a in letters)

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """Of T as the matrices give it, (shared, left, right)."""
        return self.count(self.shared), self.count(self.left), self.count(self.right)

    @cached_property
    def table(self) -> tuple[int, int]:
        """Of T as 𝓛 takes it, (columns, outputs)."""
        return self.count(self.columns), self.count(self.own)

    @cached_property
    def plain(self) -> tuple[bool, bool]:
        """Whether the axes of either block stand as its matrix wants them, the shared ones first."""
        return self.letters[0] == self.shared + self.left, self.letters[1] == self.shared + self.right

    @cached_property
    def in_order(self) -> bool:
        """Whether T need only be reshaped from the one to the other."""
        return self.shared + self.left + self.right == self.columns + self.own


def terms_of(structure: Structure, shapes: dict[str, tuple[int, ...]]) -> list[Term] | None:
    """The couplings of a structure as products, None where one is none or where their outputs do not line up.

    Args:
        structure: A(x).
        shapes: of the blocks that the couplings name, without the neuron axis.
    """
    found = []
    for coupling in structure.terms:
        if not isinstance(coupling, Coupling) or not (isinstance(coupling.left, str) and isinstance(coupling.right, str)):
            return None  # a dense matrix has no factors; picked rows are few beside all products of rows
        left, right, outs = coupling.letters[0], coupling.letters[-1], coupling.output[1:]
        sizes = coupling.sizes()
        for side, name in zip((left, right), coupling.names, strict=True):
            sizes.update(zip(side, shapes[name], strict=True))
        own = [a for a in outs if a in left + right]
        if any(a in word for word in coupling.letters[1:-1] for a in own):
            return None  # then 𝓛 differs by output
        shared = "".join(a for a in left if a in right)
        term = Term(
            coupling.names,
            (left, right),
            shared,
            "".join(a for a in left if a not in shared),
            "".join(a for a in right if a not in shared),
            "".join(a for a in dict.fromkeys(left + right) if a not in own),
            "".join(own),
            tuple(outs.index(a) for a in own),
            sizes,
        )
        found.append(term)
    return found if len({term.places for term in found}) == 1 else None


@dataclass(frozen=True, eq=False)
class Statistics:
    """What the loss of a quadratic form keeps of its samples.

    Attributes:
        terms: the couplings.
        square: (2/n) 𝓛*𝓛, (columns, columns).
        target: (2/n) 𝓛*(y − f(0)), (columns, outputs of T).
    """

    terms: Sequence[Term]
    square: Tensor
    target: Tensor

    def gradient(self, W: Weights) -> Gradient:
        """∇L at weights (R, *shape, d). Where a single coupling links two blocks, the larger's is a product, and first."""
        if len(self.terms) == 1 and self.terms[0].names[0] != self.terms[0].names[1]:
            return self._single(W)
        factors = [self._factors(term, W) for term in self.terms]
        T = torch.cat([_columns(term, U @ V.mT) for term, (U, V) in zip(self.terms, factors, strict=True)], 1)
        K = torch.matmul(self.square, T) - self.target  # (R, columns, outputs)
        total = {name: torch.zeros_like(block) for name, block in W.items()}
        parts = K.split([term.table[0] for term in self.terms], 1)
        for term, (U, V), part in zip(self.terms, factors, parts, strict=True):
            k = _uncolumned(term, part)
            for side, value in ((0, k @ V), (1, k.mT @ U)):
                name = term.names[side]
                total[name] += _back(term, side, value, W[name].shape)
        return total

    def _single(self, W: Weights) -> Gradient:
        """One coupling of two blocks, in as few operations as it takes: at small sizes each costs more than its arithmetic."""
        term = self.terms[0]
        left, right = term.names
        U, V = self._factors(term, W)  # (R, shared, left, d), (R, shared, right, d)
        if len(U) == 1 and U.shape[1] == 1 and term.in_order:
            u, v = U[0], V[0]
            T = torch.mm(u[0], v[0].mT).view(term.table)
            k = torch.addmm(self.target, self.square, T, beta=-1).view(1, *term.shape[1:])
        else:
            u, v = U.flatten(0, 1), V.flatten(0, 1)
            T = _columns(term, torch.bmm(u, v.mT).view(-1, *term.shape))
            k = _uncolumned(term, torch.matmul(self.square, T).sub_(self.target)).flatten(0, 1)
        sides = ((0, left, k, v), (1, right, k.mT, u))
        (_, first, k1, other1), (side, second, k2, other2) = sides if U.numel() >= V.numel() else sides[::-1]
        formed = _back(term, side, torch.bmm(k2, other2), W[second].shape)
        if term.plain[1 - side]:  # the rule adds it to the block without forming it
            return {first: Product(k1, other1, W[first].shape), second: formed}
        return {first: _back(term, 1 - side, torch.bmm(k1, other1), W[first].shape), second: formed}

    @staticmethod
    def _factors(term: Term, W: Weights) -> tuple[Tensor, Tensor]:
        return _matrix(term, 0, W[term.names[0]]), _matrix(term, 1, W[term.names[1]])


def statistics(
    structure: Structure, offset: Tensor | float, y: Tensor, shapes: dict[str, tuple[int, ...]]
) -> Statistics | None:
    """The statistics of a quadratic form on samples with targets y (n, k), None where it has none or they would be too large.

    They are summed in float64, whatever the dtype of y, in which they come back.
    """
    terms = terms_of(structure, shapes)
    if not terms:
        return None
    n = len(y)
    columns = sum(term.count(term.columns) for term in terms)
    outs = structure.terms[0].output[1:]  # type: ignore[union-attr]
    sizes, own = terms[0].sizes, terms[0].own
    rest = [a for a in outs if a not in own]
    rows = n * prod(sizes[a] for a in rest)
    if max(rows * columns, columns * columns) > LARGEST:
        return None
    maps = [_map(term, coupling, n) for term, coupling in zip(terms, structure.terms, strict=True)]
    L = torch.cat(maps, 1)  # (rows, columns)
    residual = y.double() - (offset.double() if isinstance(offset, Tensor) else offset)
    residual = residual.reshape(n, *(sizes[a] for a in outs))
    order = [1 + outs.index(a) for a in rest] + [1 + outs.index(a) for a in own]
    residual = residual.permute(0, *order).reshape(rows, -1)
    square, target = L.mT @ L * (2 / n), L.mT @ residual * (2 / n)
    return Statistics(terms, square.to(y.dtype), target.to(y.dtype).contiguous())


def _map(term: Term, coupling: Any, n: int) -> Tensor:
    """𝓛 of one coupling, (n · other outputs, columns), in float64."""
    rest = "".join(a for a in coupling.output if a not in term.own)
    words, tensors = list(coupling.letters[1:-1]), [c.double() for c in coupling.coefficients]
    for letter in rest + term.columns:
        if letter not in "".join(words):
            size = n if letter == "n" else term.sizes[letter]
            like = coupling.coefficients[0] if coupling.coefficients else torch.empty(0)
            words.append(letter)
            tensors.append(torch.ones(size, dtype=torch.float64, device=like.device))
    value = contract(",".join(words) + "->" + rest + term.columns, *tensors)
    return coupling.scale * value.reshape(-1, term.count(term.columns))


def _matrix(term: Term, side: int, block: Tensor) -> Tensor:
    """A block (R, *shape, d) as (R, shared, own, d)."""
    if not term.plain[side]:
        order = [term.letters[side].index(a) for a in term.shared + (term.left, term.right)[side]]
        block = block.permute(0, *(1 + i for i in order), block.ndim - 1)
    return block.reshape(len(block), term.shape[0], term.shape[1 + side], block.shape[-1])


def _back(term: Term, side: int, value: Tensor, shape: torch.Size) -> Tensor:
    """The inverse of :func:`_matrix`."""
    if term.plain[side]:
        return value.view(shape)
    word = term.shared + (term.left, term.right)[side]
    value = value.reshape(shape[0], *(term.sizes[a] for a in word), shape[-1])
    return value.permute(0, *(1 + word.index(a) for a in term.letters[side]), value.ndim - 1).contiguous()


def _columns(term: Term, T: Tensor) -> Tensor:
    """T (R, shared, left, right) as (R, columns, outputs)."""
    if not term.in_order:
        word = term.shared + term.left + term.right
        T = T.reshape(len(T), *(term.sizes[a] for a in word)).permute(0, *(1 + word.index(a) for a in term.columns + term.own))
    return T.reshape(len(T), *term.table)


def _uncolumned(term: Term, K: Tensor) -> Tensor:
    """The inverse of :func:`_columns`."""
    word = term.shared + term.left + term.right
    if not term.in_order:
        order = term.columns + term.own
        K = K.reshape(len(K), *(term.sizes[a] for a in order)).permute(0, *(1 + order.index(a) for a in word))
    return K.reshape(len(K), *term.shape)
