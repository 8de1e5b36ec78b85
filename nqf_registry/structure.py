"""Structure matrices A(x) as sums of einsum couplings, never p × p unless asked for.

A layer writes its structure as the form of one neuron. With u and v blocks of that neuron,
``quadratic("i,ni,o->no", "u", x, "v")`` is Σ_i u_i x_i v_o, whose matrix is A = ½ [[0, x], [xᵀ, 0]] for each output o.

Source: arXiv 2608.13335, Theorem 1 and Table 3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nqf_registry.arguments import check_cotangent, check_samples, check_weights
from nqf_registry.coupling_spec import coupling_of, finite_number
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

    def __radd__(self, other: int) -> Structure:
        return self if isinstance(other, int) and other == 0 else NotImplemented  # sum(structures) starts from 0

    def __mul__(self, factor: float) -> Structure:
        factor = finite_number(factor, "the factor of a structure")
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
        try:
            values = [t.evaluate(W) if isinstance(t, Coupling) else t.evaluate(W, self._bound) for t in self.terms]
        except Exception:  # looked at only now, because this is called at every step
            self._diagnose(W)
            raise
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
        if self.blocks is not None:
            replicas = check_weights("A(x)", self.blocks, W)
            check_cotangent("A(x)", cotangent, self.shape if replicas is None else (replicas, *self.shape))
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
        if check_weights("A(x)", self._bound, W) is not None:
            shapes = {name: tuple(block.shape) for name, block in W.items()}
            raise InvalidInput(f"apply takes blocks (*shape, d) without a replica axis; got {shapes}.")
        n, k = self.shape
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
        blocks, slices, (n, k), p = self._bound, layout(self._bound), self.shape, self.n_params
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
        check_cotangent("A(x)", cotangent, self.shape)
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
                A = term.tensor.double()
                scale = float(A.abs().max())
                worst = max(worst, float((A - A.mT).abs().max()) / scale if scale else 0.0)
        return worst

    def spectrum(self) -> Tensor:
        """Eigenvalues of A(x), ascending: (n, k, p), for small p."""
        return torch.linalg.eigvalsh(self.dense(torch.float64))

    def rank(self, tolerance: float = 1e-10) -> Tensor:
        """Rank of A(x): (n, k) integers; an eigenvalue counts above ``tolerance`` times the largest."""
        size = self.spectrum().abs()
        return (size > tolerance * size.amax(-1, keepdim=True).clamp_min(1e-300)).sum(-1)

    def sparsity(self, tolerance: float = 1e-12) -> float:
        """The fraction of entries of A(x) that are zero on every sample and output, for small p.

        Raises:
            InvalidInput: there is no sample.
        """
        return float((self._magnitude() <= tolerance).double().mean())

    def coupling_graph(self, level: str = "block", tolerance: float = 1e-12) -> networkx.Graph:
        """The graph of non-zero couplings: isolated nodes are inert at quadratic order.

        Args:
            level: "block" for one node a block, "parameter" for one node a parameter, named (block, flat index).
            tolerance: couplings up to this fraction of the largest count as zero.

        Raises:
            InvalidInput: another level, or there is no sample.
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
        check_samples("which entries of A(x) are zero", self.shape[0])
        size = self.dense(torch.float64).abs().amax((0, 1))
        return size / size.max().clamp_min(1e-300)

    def _diagnose(self, W: Weights) -> None:
        """Names what is wrong with weights that could not be evaluated."""
        if self.blocks is not None:
            check_weights("A(x)", self.blocks, W)

    @cached_property
    def shape(self) -> tuple[int, int]:
        """The numbers n of samples and k of outputs, the same for every term."""
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
        index: (n,) integers of any width, rows of the block's first axis, from 0.

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
    return Rows(block, index.long())  # an index of uint8 is a mask to torch


def quadratic(spec: str, *operands: str | Rows | Tensor, scale: float = 1.0) -> Structure:
    r"""The form scale · Σ left·coefficients·right of one neuron, as a structure matrix.

    Args:
        spec: an einsum over (left, \*coefficients, right) in lower-case letters. ``n`` is the sample axis and starts the
            output; further output letters are output axes. A letter repeated in both blocks is the Kronecker identity:
            attention's x_avg ⊗ I is ``"ad,nd,ao->no"`` on V and v.
        *operands: the name of the left block (or :func:`rows` of it), the coefficient tensors, the right block. With the same
            block on both sides A is the symmetric part of the form's matrix.
        scale: a factor of the whole form, a finite number; what training has to reach is a coefficient.

    Raises:
        InvalidInput: the spec and the operands do not fit, or the scale is no finite number; the message says where.

    Example:
        >>> import torch, nqf_registry as nqf
        >>> x = torch.tensor([[1.0, 2.0]])
        >>> A = nqf.quadratic("i,ni,o->no", "u", x, "v").bind({"u": (2,), "v": (1,)})
        >>> A.dense()[0, 0]
        tensor([[0.0000, 0.0000, 0.5000],
                [0.0000, 0.0000, 1.0000],
                [0.5000, 1.0000, 0.0000]])
    """
    return Structure((coupling_of(spec, operands, scale),))


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
