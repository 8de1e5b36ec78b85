"""What is measured of A(x) on a layer's own samples: which blocks it couples, its rank, and whether it has a known form.

Everything here is a fact: whole numbers, names, or digits rounded so far that the last bits of another machine do not show.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from torch import Tensor

from nqf_registry.couplings import Blocks, layout
from nqf_registry.errors import InvalidInput
from nqf_registry.expansion import expand
from nqf_registry.layer import Inputs, Layer, cast, declares
from nqf_registry.structure import Structure, dense

SEED = 0
SAMPLES = 8  # enough to tell a generic zero from a structural one
_ENTRIES = 3e7  # floats that a dense A(x) may take
_ZERO = 1e-10  # of the largest entry; below it lies the rounding of float64
_DIGITS = 6


def samples_of(layer: Layer, n: int = SAMPLES) -> dict[str, Tensor]:
    """The layer's own samples that the catalogue is measured on, floating ones in float64."""
    return cast(layer.sample(n, torch.Generator().manual_seed(SEED)), torch.float64)


def structure_of(layer: Layer, x: Inputs) -> Structure:
    """Ā(x) as the layer declares it, or as autodiff says where the layer leaves it out.

    Raises:
        InvalidInput: it is left out, and p is too large for autodiff's dense one.
    """
    if declares(layer, "structure"):
        own: Any = layer
        return own.structure(x)
    if not measurable(layer):
        raise InvalidInput(
            f"{layer.key} declares no structure, and p = {layer.n_params:,} is too large to derive a dense A(x); declare "
            "structure(x), or choose smaller sizes."
        )
    return dense(expand(layer, x).diagonal).bind(layer.blocks())


def measurable(layer: Layer) -> int:
    """How many samples a dense A(x) may be formed for; 0 where p is too large for one."""
    return min(SAMPLES, int(_ENTRIES // (layer.n_params**2 * max(1, layer.n_outputs()))))


def structure_facts(layer: Layer) -> dict[str, Any]:
    """The facts of A(x).

    Returns:
        - ``couplings``: the pairs of blocks with a non-zero entry, "u-v"; ``inert``: the blocks in none of them.
        - ``inert_parameters``: how many of the p parameters A does not reach; ``components``: into how many groups the others
          fall that A leaves unconnected.
        - ``bipartite``: whether the blocks are the two sides of a layer, incoming and outgoing.
        - ``rank``: the smallest and the largest over samples and outputs; ``signature``: every pair (positive, negative) that
          occurs.
        - ``diagonal``: whether A is; ``kronecker``: None, or the size r of a factor I_r and the axis of each block it acts on.
        - ``sparsity``: the fraction of entries that are zero on every sample and output.
        - ``fingerprint``: Tr[W Wᵀ A(x)] at a fixed W on the first samples, to six digits: a changed coefficient shows.
        - ``declared``: whether the layer writes A itself; ``samples``: how many were looked at.

        Of a layer whose p is too large for a dense A only the fingerprint.
    """
    n = measurable(layer)
    facts: dict[str, Any] = {"declared": declares(layer, "structure"), "samples": n}
    if n == 0:
        facts["fingerprint"] = fingerprint(structure_of(layer, samples_of(layer, 3)).evaluate(fixed_weights(layer)))
        return facts
    x = samples_of(layer, max(n, 3))
    structure = structure_of(layer, x)
    A = structure.dense(torch.float64)  # (n, k, p, p)
    if not bool(torch.isfinite(A).all()):
        return {**facts, "finite": False}
    blocks = layer.blocks()
    size = A.abs().amax((0, 1))
    present = size > _ZERO * float(size.max().clamp_min(1e-300))  # (p, p)
    couplings, inert = _block_couplings(blocks, present)
    eigenvalues = torch.linalg.eigvalsh((A + A.mT) / 2)  # (n, k, p)
    bound = _ZERO * eigenvalues.abs().amax(-1, keepdim=True).clamp_min(1e-300)
    positive, negative = (eigenvalues > bound).sum(-1).flatten().tolist(), (eigenvalues < -bound).sum(-1).flatten().tolist()
    ranks = [a + b for a, b in zip(positive, negative, strict=True)]
    reached = present.any(0)
    return {
        **facts,
        "couplings": couplings,
        "inert": inert,
        "inert_parameters": int((~reached).sum()),
        "components": _components(present[reached][:, reached]),
        "bipartite": _bipartite(couplings),
        "rank": [min(ranks), max(ranks)],
        "signature": sorted({(a, b) for a, b in zip(positive, negative, strict=True)}),
        "diagonal": bool(reached.any()) and not bool(present.fill_diagonal_(False).any()),
        "kronecker": kronecker_factor(blocks, A.flatten(0, 1), [name for name in blocks if name not in inert]),
        "sparsity": round(float((size <= _ZERO * float(size.max().clamp_min(1e-300))).double().mean()), 4),
        "fingerprint": fingerprint(structure.evaluate(fixed_weights(layer))),
    }


def general_facts(layer: Layer) -> dict[str, Any]:
    """What a layer without ZGZ has beside A, measured by autodiff.

    Returns:
        - ``linear``: the blocks in which g is not zero; ``cross``: the pairs of blocks that B couples, "u-v".

        Of a layer whose p is too large for dense matrices nothing.
    """
    n = measurable(layer)
    if n == 0:
        return {}
    found = expand(layer, samples_of(layer, n))
    size = max(float(part.abs().max()) for part in (found.linear, found.diagonal, found.cross))
    bound = _ZERO * max(size, 1e-300)
    slices = layout(layer.blocks())
    g, B = found.linear.abs().amax((0, 1)) > bound, found.cross.abs().amax((0, 1)) > bound  # (p,), (p, p)
    couplings, _ = _block_couplings(layer.blocks(), B)
    return {"linear": [name for name in slices if bool(g[slices[name]].any())], "cross": couplings}


def fixed_weights(layer: Layer) -> dict[str, Tensor]:
    """The W that fingerprints are taken at: half-size normal entries from a fixed seed."""
    return layer.random(torch.Generator().manual_seed(SEED), 0.5, torch.float64)


def fingerprint(values: Tensor, count: int = 3) -> list[float | None]:
    """The first rows of (n, k) values, outputs added with unequal weights, to six digits; None for what is not finite."""
    weights = 1 / (1 + torch.arange(values.shape[-1], dtype=torch.float64))
    rows = (values[:count].double() @ weights).tolist()
    largest = max((abs(v) for v in rows if v == v), default=0.0)
    return [rounded(v) if abs(v) > _ZERO * largest else (0.0 if v == v else None) for v in rows]


def rounded(value: float) -> float | None:
    """To six significant digits; None for what is not finite."""
    return float(f"{value:.{_DIGITS}g}") if abs(value) < float("inf") else None


def _block_couplings(blocks: Blocks, present: Tensor) -> tuple[list[str], list[str]]:
    slices = layout(blocks)
    names = list(blocks)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i:] if bool(present[slices[a], slices[b]].any())]
    touched = {name for pair in pairs for name in pair}
    return [f"{a}-{b}" for a, b in pairs], [name for name in names if name not in touched]


def _bipartite(couplings: list[str]) -> bool:
    import networkx as nx

    graph = nx.Graph()
    for pair in couplings:
        graph.add_edge(*pair.split("-"))
    return bool(couplings) and nx.is_bipartite(graph)


def _components(present: Tensor) -> int:
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    if not len(present):
        return 0
    return int(connected_components(csr_array(present.numpy()), directed=False, return_labels=False))


def kronecker_factor(blocks: Blocks, A: Tensor, active: list[str]) -> dict[str, Any] | None:
    """The largest r with A(x) = A₀(x) ⊗ I_r, each block giving one of its axes to I_r; None where there is no r above 1.

    Args:
        blocks: names and shapes.
        A: matrices (N, p, p).
        active: the blocks that A couples; the others play no part.
    """
    slices = layout(blocks)
    bound = _ZERO * float(A.abs().max()) if A.numel() else 0.0
    if not active or bound == 0.0:
        return None
    common = set.intersection(*(set(blocks[name]) for name in active))
    for r in sorted((r for r in common if r > 1), reverse=True):
        choices = [[axis for axis, size in enumerate(blocks[name]) if size == r] for name in active]
        for axes in product(*choices):
            chosen = dict(zip(active, axes, strict=True))
            if all(
                _identity_on(A[:, slices[a], slices[b]].reshape(len(A), *blocks[a], *blocks[b]), 1 + chosen[a],
                             1 + len(blocks[a]) + chosen[b], bound)
                for i, a in enumerate(active) for b in active[i:]
            ):  # fmt: skip
                return {"size": r, "axes": chosen}
    return None


def _identity_on(block: Tensor, first: int, second: int, bound: float) -> bool:
    """Whether a block is (something) · δ in two of its axes."""
    square = block.movedim((first, second), (-2, -1))  # (..., r, r)
    diagonal = square.diagonal(dim1=-2, dim2=-1)
    alike = (diagonal - diagonal[..., :1]).abs().max() <= bound
    return bool(alike) and bool((square - torch.diag_embed(diagonal)).abs().max() <= bound)
