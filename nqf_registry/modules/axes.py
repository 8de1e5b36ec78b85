"""Axes of tensors as products of factors, and which factors are one and the same: the algebra behind finding neurons.

An axis of size 12 that a view cuts into (3, 4) has two factors, and a matrix product says that the inner axes of both sides are
the same. Factors are found by splitting when a view asks for it, and united when an operation says that two axes run together.
What an operation singles out by position (a slice, an axis of the input, of the output) is *fixed*: it cannot be permuted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

Dim = tuple[int, ...]  # factors of an axis, outermost first; () for an axis of size 1, or one along which nothing changes


class Axes:
    """All factors that a traced module has, with their sizes."""

    def __init__(self) -> None:
        self._size: list[int] = []
        self._parent: list[int] = []
        self._parts: dict[int, Dim] = {}
        self._fixed: dict[int, str] = {}

    def new(self, size: int, fixed: str = "") -> Dim:
        """A new axis of one factor.

        Args:
            size: how long it is; an axis of size 1 has no factor.
            fixed: why it cannot be permuted, "" where it may be.
        """
        if size == 1:
            return ()
        atom = len(self._size)
        self._size.append(size)
        self._parent.append(atom)
        if fixed:
            self._fixed[atom] = fixed
        return (atom,)

    def size(self, dim: Dim) -> int:
        """The product of the factors."""
        return prod(self._size[atom] for atom in dim)

    def leaves(self, dim: Iterable[int]) -> Dim:
        """The factors as they are split and united by now."""
        found: list[int] = []
        for atom in dim:
            root = self._root(atom)
            found += self.leaves(self._parts[root]) if root in self._parts else (root,)
        return tuple(found)

    def reason(self, atom: int) -> str:
        """Why a factor cannot be permuted; "" where nothing speaks against it."""
        return self._fixed.get(self._root(atom), "")

    def fix(self, dim: Iterable[int], reason: str) -> None:
        """Marks all factors of an axis as what cannot be permuted."""
        for atom in self.leaves(dim):
            self._fixed.setdefault(atom, reason)

    def unite(self, one: Dim, other: Dim, reason: str = "two axes run together whose factors do not match") -> Dim:
        """Says that two axes are the same; an axis without factors is the same as any.

        Returns:
            The axis.
        """
        left, right = list(self.leaves(one)), list(self.leaves(other))
        if not left or not right:
            return one or other
        if self.size(tuple(left)) != self.size(tuple(right)):
            self.fix(left + right, reason)
            return one
        while left and right:
            a, b = left.pop(0), right.pop(0)
            if a == b:
                continue
            small, large = sorted((self._size[a], self._size[b]))
            if small == large:
                self._join(a, b)
            elif large % small == 0:
                short, long, rest = (a, b, right) if self._size[a] == small else (b, a, left)
                head, tail = self._split(long, small)
                rest.insert(0, tail)
                self._join(short, head)
            else:
                self.fix([a, b, *left, *right], reason)
                break
        return one

    def reshaped(self, dims: Sequence[Dim], shape: Sequence[int], reason: str) -> list[Dim]:
        """The axes of a tensor after a view of it, with factors split where the view cuts them."""
        rest = [atom for dim in dims for atom in self.leaves(dim)]
        found: list[Dim] = []
        for size in shape:
            taken: list[int] = []
            missing = size
            while missing > 1:
                if not rest:
                    break
                atom = rest.pop(0)
                have = self._size[atom]
                if missing % have == 0:
                    taken.append(atom)
                    missing //= have
                elif have % missing == 0:
                    head, tail = self._split(atom, missing)
                    taken.append(head)
                    rest.insert(0, tail)
                    missing = 1
                else:
                    self.fix([atom, *taken, *rest], reason)
                    return [self.new(size, reason) for size in shape]
            found.append(tuple(taken))
        return found

    def _root(self, atom: int) -> int:
        while self._parent[atom] != atom:
            self._parent[atom] = self._parent[self._parent[atom]]
            atom = self._parent[atom]
        return atom

    def _join(self, a: int, b: int) -> None:
        a, b = self._root(a), self._root(b)
        if a == b:
            return
        self._parent[b] = a
        if b in self._fixed:
            self._fixed.setdefault(a, self._fixed[b])

    def _split(self, atom: int, size: int) -> tuple[int, int]:
        """Cuts a factor into an outer one of this size and the rest."""
        reason = self._fixed.get(atom, "")
        (head,), (tail,) = self.new(size, reason), self.new(self._size[atom] // size, reason)
        self._parts[atom] = (head, tail)
        return head, tail
