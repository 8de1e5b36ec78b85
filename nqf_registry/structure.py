"""Structure matrices A(x) as sums of einsum couplings, never p × p unless asked for.

A layer writes its structure as the form of one neuron. With u and v blocks of that neuron,
``quadratic("i,ni,o->no", "u", x, "v")`` is Σ_i u_i x_i v_o, whose matrix is A = ½ [[0, x], [xᵀ, 0]] for each output o.

Source: arXiv 2608.13335, Theorem 1 and Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nqf_registry.couplings import Blocks, Coupling, Matrix, Rows, Weights, layout, unstack
from nqf_registry.errors import InvalidInput

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True, eq=False)
class Structure:
    """A(x) for n samples and k outputs, a sum of couplings between the blocks of one neuron.

    Attributes:
        terms: the couplings and explicit matrices that add up to A.
        blocks: name and shape of each block of one neuron; a layer fills it in, and what needs it says so.
    """

    terms: tuple[Coupling | Matrix, ...]
    blocks: Blocks | None = None

    def __add__(self, other: Structure) -> Structure:
        if not isinstance(other, Structure):
            return NotImplemented
        return Structure(self.terms + other.terms, self.blocks or other.blocks)

    def __mul__(self, factor: float) -> Structure:
        scaled = (
            replace(t, scale=t.scale * factor) if isinstance(t, Coupling) else replace(t, tensor=t.tensor * factor)
            for t in self.terms
        )
        return replace(self, terms=tuple(scaled))

    __rmul__ = __mul__

    def __neg__(self) -> Structure:
        return self * -1.0

    def __sub__(self, other: Structure) -> Structure:
        return self + -other

    def bind(self, blocks: Blocks) -> Structure:
        """The same structure, knowing the blocks of its layer.

        Raises:
            InvalidInput: a coupling names a block that the layer lacks, or with axes of other number or size; or the terms
                disagree on the numbers of samples and outputs.
        """
        counts = []
        for term in self.terms:
            if isinstance(term, Matrix):
                p = sum(prod(shape) for shape in blocks.values())
                if term.tensor.shape[-1] != p:
                    raise InvalidInput(
                        f"nqf.dense holds {term.tensor.shape[-1]} × {term.tensor.shape[-1]} matrices, the blocks have p = {p}."
                    )
                counts.append((term.tensor.shape[0], term.tensor.shape[1]))
                continue
            for side, name in enumerate(term.names):
                if name not in blocks:
                    raise InvalidInput(f"The structure couples a block {name!r}; the blocks are {', '.join(blocks)}.")
                if len(blocks[name]) != term.rank_of(side):
                    raise InvalidInput(
                        f"The structure writes block {name!r} with letters {term.letters[-side]!r}, but its shape is "
                        f"{blocks[name]}: give one letter an axis."
                    )
            counts.append(term.counts(blocks))
        if len(set(counts)) > 1:  # broadcasting would hide it until the gradient
            raise InvalidInput(
                f"The terms of the structure differ in samples and outputs (n, k): {', '.join(map(str, counts))}."
            )
        return replace(self, blocks=dict(blocks))

    @property
    def _bound(self) -> Blocks:
        if self.blocks is None:
            raise InvalidInput(
                "This structure does not know the shapes of its blocks; take it from a layer, or call bind(blocks) first."
            )
        return self.blocks

    @property
    def n_params(self) -> int:
        """p, the number of parameters of one neuron."""
        return sum(prod(shape) for shape in self._bound.values())

    def evaluate(self, W: Weights) -> Tensor:
        r"""Tr[W Wᵀ A(x)] = Σ_i w_iᵀ A(x) w_i.

        Args:
            W: blocks (\*shape, d), or (R, \*shape, d) with a leading replica axis.

        Returns:
            (n, k), or (R, n, k).
        """
        values = [t.evaluate(W) if isinstance(t, Coupling) else t.evaluate(W, self._bound) for t in self.terms]
        total = values[0]
        for value in values[1:]:
            total = total + value
        return total

    def pullback(self, W: Weights, cotangent: Tensor) -> dict[str, Tensor]:
        """Gradient by W of Σ cotangent · Tr[W Wᵀ A], that is 2 (Σ cotangent · A) W.

        Args:
            W: blocks, with or without a leading replica axis.
            cotangent: (n, k), or (R, n, k) as the weights.
        """
        total = {name: torch.zeros_like(block) for name, block in W.items()}
        for term in self.terms:
            if isinstance(term, Coupling):
                term.add_pullback(W, cotangent, total)
            else:
                for name, part in term.pullback(W, cotangent, self._bound).items():
                    total[name] += part
        return total

    def apply(self, W: Weights) -> dict[str, Tensor]:
        r"""A(x) W for every sample and output: blocks (n, k, \*shape, d), for W without a replica axis.

        Raises:
            InvalidInput: the blocks have a replica axis.
        """
        for name, shape in self._bound.items():
            if W[name].ndim != len(shape) + 1:
                raise InvalidInput(
                    f"apply takes blocks (*shape, d) without a replica axis; block {name!r} is {tuple(W[name].shape)}."
                )
        n, k = self._sizes()
        total = {name: block.new_zeros(n, k, *block.shape) for name, block in W.items()}
        for term in self.terms:
            if isinstance(term, Coupling):
                term.add_apply(W, total)
            else:
                for name, part in term.apply(W, self._bound).items():
                    total[name] += part
        return total

    def contract(self, M: Tensor) -> Tensor:
        """Tr[M A(x)] for an order parameter M (p, p): (n, k)."""
        blocks = self._bound
        p = self.n_params
        if tuple(M.shape) != (p, p):
            raise InvalidInput(f"M must be ({p}, {p}), p being the number of parameters of one neuron; got {tuple(M.shape)}.")
        M, slices = (M + M.mT) / 2, layout(blocks)
        values = [
            t.contract(M, blocks, slices) if isinstance(t, Coupling) else torch.einsum("nkpq,pq->nk", t.tensor.to(M.dtype), M)
            for t in self.terms
        ]
        return torch.stack(values).sum(0)

    def dense(self, dtype: torch.dtype | None = None) -> Tensor:
        """A(x) as (n, k, p, p), for small p.

        Raises:
            InvalidInput: the structure does not know its blocks.
        """
        blocks, slices, (n, k), p = self._bound, layout(self._bound), self._sizes(), self.n_params
        total = torch.zeros(n, k, p, p, dtype=dtype or self._dtype(), device=self._device())
        for term in self.terms:
            if isinstance(term, Coupling):
                term.add_dense(blocks, slices, total)
            else:
                total += term.tensor.to(total.dtype)
        return total

    def weighted(self, cotangent: Tensor) -> Tensor:
        """Σ over samples and outputs of cotangent (n, k) · A(x): one (p, p) matrix, for small p."""
        blocks, slices, p = self._bound, layout(self._bound), self.n_params
        total = cotangent.new_zeros(p, p)
        for term in self.terms:
            if isinstance(term, Coupling):
                term.add_weighted(blocks, slices, cotangent, total)
            else:
                total += torch.einsum("nkpq,nk->pq", term.tensor.to(total.dtype), cotangent)
        return total

    def asymmetry(self) -> float:
        """Largest |A − Aᵀ| over largest |A| of the explicit matrices; couplings are symmetric by construction."""
        worst = 0.0
        for term in self.terms:
            if isinstance(term, Matrix) and term.tensor.numel():
                scale = float(term.tensor.abs().max())
                worst = max(worst, float((term.tensor - term.tensor.mT).abs().max()) / scale if scale else 0.0)
        return worst

    def spectrum(self) -> Tensor:
        """Eigenvalues of A(x), ascending: (n, k, p), for small p."""
        return torch.linalg.eigvalsh(self.dense(torch.float64))

    def rank(self, tolerance: float = 1e-10) -> Tensor:
        """Rank of A(x): (n, k) integers; an eigenvalue counts above ``tolerance`` times the largest."""
        size = self.spectrum().abs()
        return (size > tolerance * size.amax(-1, keepdim=True).clamp_min(1e-300)).sum(-1)

    def sparsity(self, tolerance: float = 1e-12) -> float:
        """The fraction of entries of A(x) that are zero on every sample and output, for small p."""
        return float((self._magnitude() <= tolerance).double().mean())

    def coupling_graph(self, level: str = "block", tolerance: float = 1e-12) -> networkx.Graph:
        """The graph of non-zero couplings: isolated nodes are inert at quadratic order.

        Args:
            level: "block" for one node a block, "parameter" for one node a parameter, named (block, flat index).
            tolerance: couplings up to this fraction of the largest count as zero.

        Raises:
            InvalidInput: another level.
        """
        import networkx as nx

        size, slices = self._magnitude(), layout(self._bound)
        graph = nx.Graph()
        if level == "block":
            graph.add_nodes_from(slices)
            for a, rows_ in slices.items():
                for b, columns in slices.items():
                    if float(size[rows_, columns].max()) > tolerance:
                        graph.add_edge(a, b)
        elif level == "parameter":
            names = [(name, i) for name, where in slices.items() for i in range(where.stop - where.start)]
            graph.add_nodes_from(names)
            graph.add_edges_from((names[i], names[j]) for i, j in torch.nonzero(size > tolerance).tolist() if i <= j)
        else:
            raise InvalidInput(f"level must be 'block' or 'parameter', got {level!r}.")
        return graph

    def _magnitude(self) -> Tensor:
        size = self.dense(torch.float64).abs().amax((0, 1))
        return size / size.max().clamp_min(1e-300)

    def _sizes(self) -> tuple[int, int]:
        """The numbers n and k, the same for every term."""
        term = self.terms[0]
        return (term.tensor.shape[0], term.tensor.shape[1]) if isinstance(term, Matrix) else term.counts(self._bound)

    def _dtype(self) -> torch.dtype:
        for term in self.terms:
            for tensor in (term.tensor,) if isinstance(term, Matrix) else term.coefficients:
                if tensor.is_floating_point():
                    return tensor.dtype
        return torch.get_default_dtype()

    def _device(self) -> torch.device:
        for term in self.terms:
            if isinstance(term, Matrix):
                return term.tensor.device
            for tensor in term.coefficients:
                return tensor.device
            for side in (term.left, term.right):
                if isinstance(side, Rows):
                    return side.index.device
        return torch.device("cpu")


def rows(block: str, index: Tensor) -> Rows:
    """The rows of a block that an integer input picks, one a sample, without a one-hot.

    In the spec such an operand starts with n: ``quadratic("n,n->n", rows("u", i), rows("v", j))`` is the entry u_i v_j.

    Args:
        block: name of the block.
        index: (n,) integers, rows of the block's first axis.

    Raises:
        InvalidInput: the index is not a one-dimensional integer tensor.
    """
    if not isinstance(block, str):
        raise InvalidInput(f"nqf.rows takes the name of a block, got {type(block).__name__}.")
    if (
        not isinstance(index, Tensor)
        or index.ndim != 1
        or index.is_floating_point()
        or index.is_complex()
        or index.dtype == torch.bool
    ):
        what = f"{index.dtype} of shape {tuple(index.shape)}" if isinstance(index, Tensor) else type(index).__name__
        raise InvalidInput(f"nqf.rows needs one integer a sample, a tensor (n,), got {what}.")
    return Rows(block, index)


def quadratic(spec: str, *operands: str | Rows | Tensor, scale: float = 1.0) -> Structure:
    r"""The form scale · Σ left·coefficients·right of one neuron, as a structure matrix.

    Args:
        spec: an einsum over (left, \*coefficients, right) in lower-case letters. ``n`` is the sample axis and starts the
            output; further output letters are output axes. A letter repeated in both blocks is the Kronecker identity:
            attention's x_avg ⊗ I is ``"ad,nd,ao->no"`` on V and v.
        *operands: the name of the left block (or :func:`rows` of it), the coefficient tensors, the right block. With the same
            block on both sides A is the symmetric part of the form's matrix.
        scale: a factor of the whole form.

    Raises:
        InvalidInput: the spec and the operands do not fit; the message says where.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> A = nqf.quadratic("i,ni,o->no", "u", x, "v").bind({"u": (2,), "v": (1,)})
        >>> A.dense()[0, 0]
        tensor([[0.0000, 0.0000, 0.5000],
                [0.0000, 0.0000, 1.0000],
                [0.5000, 1.0000, 0.0000]])
    """
    words, arrow, output = spec.replace(" ", "").partition("->")
    letters = tuple(words.split(","))

    def wrong(what: str) -> InvalidInput:
        return InvalidInput(f"nqf.quadratic({spec!r}, …): {what}")

    if not arrow or not output.startswith("n"):
        raise wrong("the output must be written, and start with the sample axis n, as in '->n' or '->no'.")
    if len(operands) < 2 or len(letters) != len(operands):
        raise wrong(f"the spec has {len(letters)} operands, {len(operands)} were given; write left, coefficients, right.")
    left, *coefficients, right = operands
    for side, word in ((left, letters[0]), (right, letters[-1])):
        if not isinstance(side, str | Rows):
            raise wrong(f"the first and the last operand are blocks by name (or nqf.rows), got {type(side).__name__}.")
        if isinstance(side, Rows) and not word.startswith("n"):
            raise wrong(f"picked rows have one row a sample, so their letters start with n; got {word!r}.")
        if isinstance(side, str) and "n" in word:
            raise wrong(f"a block has no sample axis, but block {side!r} is written with n.")
        if len(set(word)) != len(word):
            raise wrong(f"each axis of a block has a letter of its own; got {word!r}.")
    bad = sorted({a for word in (*letters, output) for a in word if not ("a" <= a <= "z")})
    if bad:
        raise wrong(f"only lower-case letters are allowed, got {''.join(bad)!r}.")
    if len(set(output)) != len(output):
        raise wrong("a letter appears twice in the output.")
    sizes: dict[str, int] = {}
    for side in (left, right):
        if isinstance(side, Rows) and sizes.setdefault("n", len(side.index)) != len(side.index):
            raise wrong(f"one side picks {sizes['n']} rows, the other {len(side.index)}; both pick one row a sample.")
    for word, tensor in zip(letters[1:-1], coefficients, strict=True):
        if not isinstance(tensor, Tensor):
            raise wrong(f"a coefficient is a tensor, got {type(tensor).__name__}.")
        if tensor.ndim != len(word):
            raise wrong(f"the coefficient {word!r} has shape {tuple(tensor.shape)}.")
        for letter, size in zip(word, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise wrong(f"the letter {letter!r} has size {sizes[letter]} in one operand and {size} in another.")
    for letter in output:
        if letter not in "".join(letters):
            raise wrong(f"the output letter {letter!r} is in no operand.")
    assert isinstance(left, str | Rows) and isinstance(right, str | Rows)
    return Structure(
        (Coupling(letters, output, left, tuple(c for c in coefficients if isinstance(c, Tensor)), right, float(scale)),)
    )


def dense(tensor: Tensor) -> Structure:
    """An explicit A(x), (n, p, p) or (n, k, p, p), for layers whose structure no coupling writes more simply.

    It is taken as given. An asymmetric one fails the check ``structure-matrix``; it is never symmetrised silently.

    Raises:
        InvalidInput: the tensor has another number of axes, or its matrices are not square.
    """
    if not isinstance(tensor, Tensor) or tensor.ndim not in (3, 4) or tensor.shape[-1] != tensor.shape[-2]:
        what = f"shape {tuple(tensor.shape)}" if isinstance(tensor, Tensor) else type(tensor).__name__
        raise InvalidInput(f"nqf.dense needs square matrices by sample, (n, p, p) or (n, k, p, p); got {what}.")
    return Structure((Matrix(tensor if tensor.ndim == 4 else tensor[:, None]),))


__all__ = ["Rows", "Structure", "dense", "quadratic", "rows", "unstack"]
