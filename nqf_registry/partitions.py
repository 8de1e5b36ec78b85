"""Partitions λ ⊢ k: how the k factors of one term of an expansion fall on distinct neurons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import factorial, prod

Partition = tuple[int, ...]


def partitions(order: int, most: int | None = None) -> Iterator[Partition]:
    """Every way to write an order as a sum of positive parts, largest first.

    Args:
        order: k, at least 1.
        most: at most so many parts; a term can fall on no more neurons than there are.

    Example:
        >>> list(partitions(3))
        [(3,), (2, 1), (1, 1, 1)]
        >>> list(partitions(4, most=2))
        [(4,), (3, 1), (2, 2)]
    """

    def below(rest: int, largest: int, slots: int) -> Iterator[Partition]:
        if rest == 0:
            yield ()
            return
        if slots == 0:
            return
        for part in range(min(rest, largest), 0, -1):
            for tail in below(rest - part, part, slots - 1):
                yield (part, *tail)

    return below(order, order, order if most is None else most)


def symmetry_factor(partition: Partition) -> int:
    """Π c_j! · Π m_r!, with c_j the parts and m_r how often each size of part occurs.

    The mixed derivative by m distinct neurons, c_j times by the j-th, divided by this number is the tensor T_λ in
    Σ over ordered tuples of distinct neurons of T_λ[w_{i1}^{⊗c1}, …, w_{im}^{⊗cm}]: the first product is Taylor's, and each set
    of neurons occurs in Π m_r! orders that put the same powers on the same neurons.

    Example:
        >>> symmetry_factor((2,)), symmetry_factor((1, 1)), symmetry_factor((2, 2, 1))
        (2, 2, 8)
    """
    return prod(factorial(part) for part in partition) * prod(factorial(count) for count in Counter(partition).values())


def label(partition: Partition) -> str:
    """A partition as it stands in a report: "2+1"."""
    return "+".join(map(str, partition))
