"""The largest eigenvalues of a symmetric linear map, every copy of a repeated one among them.

Lanczos sees one vector of an eigenspace; further copies of its eigenvalue come only through rounding, and some never do. So
what was found is set aside and the rest is searched again, until nothing larger is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import ArpackError, ArpackNoConvergence, LinearOperator, eigsh

from nqf_registry.errors import InvalidInput

Map = Callable[[np.ndarray], np.ndarray]

SMALL = 32  # up to this size the dense eigensolver is the faster one
DENSE = 10  # and where more than one in so many eigenvalues is wanted
ROUNDING = 1e-12  # eigenvalues this much larger, relative to the largest, are no larger


def top_eigenpairs(matvec: Map, size: int, k: int, tolerance: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """The k largest eigenvalues of a symmetric map, descending, and their eigenvectors as columns (size, k).

    Args:
        matvec: the map.
        size: of its vectors.
        k: how many; at most ``size`` are returned.
        tolerance: relative accuracy of the eigenvalues; 0 is machine precision.

    Raises:
        InvalidInput: the iteration does not converge.
    """
    k = min(k, size)
    if size <= max(SMALL, DENSE * k):
        matrix = np.stack([matvec(e) for e in np.eye(size)], 1)
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
        return values[::-1][:k], vectors[:, ::-1][:, :k]
    random = np.random.default_rng(0)
    if not np.any(matvec(random.standard_normal(size))):  # the map is zero, which ARPACK takes for an error
        return np.zeros(k), np.eye(size)[:, :k]
    values, vectors = _lanczos(matvec, random.standard_normal(size), k, tolerance)
    if k == 1:  # the largest eigenvalue is in every start vector
        return values, vectors
    below = -2 * (np.abs(values).max() + abs(_lowest(matvec, random.standard_normal(size))))
    scale = abs(below) / 2
    while True:
        # sets what was found below the rest, so that its largest eigenvalue is the next one
        found = vectors

        def rest(v: np.ndarray, found: np.ndarray = found) -> np.ndarray:
            inside = found @ (found.T @ v)
            moved = matvec(v - inside)
            return moved - found @ (found.T @ moved) + below * inside

        start = random.standard_normal(size)
        start -= found @ (found.T @ start)
        start /= np.linalg.norm(start)
        image = rest(start)
        shift = float(start @ image)
        if np.linalg.norm(image - shift * start) <= ROUNDING * scale:  # the rest is a multiple of one: any vector will do
            more, directions = np.array([shift]), start[:, None]
        else:
            more, directions = _lanczos(rest, start, min(k, 4), tolerance)
        smallest = np.sort(values)[::-1][k - 1] if len(values) >= k else -np.inf
        larger = more > smallest + (ROUNDING + tolerance) * scale
        if len(values) >= k and not larger.any():
            break
        directions = directions[:, larger]
        directions = directions - found @ (found.T @ directions)
        values = np.concatenate([values, more[larger]])
        vectors = np.concatenate([found, np.linalg.qr(directions)[0]], 1)
    order = np.argsort(-values, kind="stable")[:k]
    return values[order], vectors[:, order]


def _lanczos(matvec: Map, start: np.ndarray, k: int, tolerance: float, which: str = "LA") -> tuple[np.ndarray, np.ndarray]:
    """Extreme eigenpairs, the largest first: k of them, or as many as converged."""
    operator: Any = LinearOperator((len(start), len(start)), matvec=matvec, dtype=np.float64)  # pyright: ignore[reportCallIssue]
    solve: Any = eigsh  # its stubs take no tolerance between 0 and 1
    try:
        values, vectors = solve(operator, k=k, which=which, v0=start, tol=tolerance)
    except ArpackNoConvergence as error:
        values, vectors = error.eigenvalues, error.eigenvectors
        if not len(values):
            raise InvalidInput(
                f"the {k} fastest modes are too close together to be told apart; ask for another number."
            ) from None
    except ArpackError as error:
        raise InvalidInput(f"the fastest modes cannot be computed: {error}; ask for another number of modes.") from None
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]


def _lowest(matvec: Map, start: np.ndarray) -> float:
    """The smallest eigenvalue, roughly."""
    return float(_lanczos(matvec, start, 1, 1e-2, "SA")[0][0])
