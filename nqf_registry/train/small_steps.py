"""Steps of one small quadratic form by BLAS itself: at these sizes a call of torch costs more than the product that it makes.

The same four products as :mod:`nqf_registry.train.fused`, in the memory of the same tensors. BLAS counts columns first, so a
block (rows, d) in row order is its transpose to it, and everything is written for transposes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from scipy.linalg import get_blas_funcs
from threadpoolctl import ThreadpoolController
from torch import Tensor

from nqf_registry.train.optimizers import GradientDescent, Momentum, Nesterov, Optimizer, Slots
from nqf_registry.train.statistics import Statistics

Step = Callable[[int], None]

LARGEST = 200_000  # multiplications of a product, up to which BLAS alone was measured to be quicker than torch (1 to 4 times)


def are_small(statistics: Statistics, rule: Optimizer, shapes: dict[str, tuple[int, ...]], device: torch.device) -> bool:
    """Whether steps are so small, and of a kind, that :func:`small_steps` takes them.

    Args:
        statistics: of the samples.
        rule: the rule.
        shapes: of the trained blocks, (R, *shape, d).
        device: where they lie.
    """
    terms = statistics.terms
    if device.type != "cpu" or len(terms) != 1 or not isinstance(rule, GradientDescent | Momentum | Nesterov):
        return False
    term = terms[0]
    if not all(term.plain) or not term.in_order or term.shape[0] > 1 or set(shapes) != set(term.names):
        return False
    if len(list(rule.lr)) > 1 or len(list(rule.weight_decay)) > 1 or any(shape[0] != 1 for shape in shapes.values()):
        return False
    _, rows, columns = term.shape
    width = shapes[term.names[0]][-1]
    return max(rows * columns * width, term.table[0] ** 2 * term.table[1]) <= LARGEST


def small_steps(
    statistics: Statistics, rule: Optimizer, state: dict[str, Tensor], slots: Slots
) -> tuple[Step, Callable[[], None]]:
    """A function that takes one step, and one to call after the last, for what :func:`are_small` accepts.

    Args:
        statistics: of the samples.
        rule: the rule.
        state: the trained blocks (1, *shape, d), updated in place.
        slots: what the rule remembers, updated in place.
    """
    term = statistics.terms[0]
    left, right = term.names
    _, rows, columns = term.shape
    held = {left: (state[left], rows), right: (state[right], columns)}
    own = {name: _transposed(block, height) for name, (block, height) in held.items()}
    velocity = {name: _transposed(slots["velocity"][name], held[name][1]) for name in held} if slots else {}
    gemm: Any = get_blas_funcs("gemm", dtype=own[left].dtype)
    axpy: Any = get_blas_funcs("axpy", dtype=own[left].dtype)
    square = np.asfortranarray(statistics.square.numpy().T)
    target = np.asfortranarray(statistics.target.numpy().T)
    table, shape = term.table[::-1], (columns, rows)
    [lr], [decay], beta = rule.lr, rule.weight_decay, rule.momentum
    kept, nesterov, same = 1 - lr * decay, isinstance(rule, Nesterov), left == right
    u, v = own[left], own[right]
    limits = _controller().limit(limits=torch.get_num_threads(), user_api="blas")  # as many threads as torch is given

    def factor() -> np.ndarray:
        """Kᵀ, (columns, rows)."""
        T = gemm(1.0, v, u, trans_a=1)
        if table != shape:
            T = T.reshape(table, order="F")
        K = gemm(1.0, T, square, -1.0, target)
        return K if table == shape else K.reshape(shape, order="F")

    def descend(count: int) -> None:
        nonlocal u, v
        K = factor()
        if same:
            u = v = gemm(-lr, u, K + K.T, kept, u)
            return
        new = gemm(-lr, u, K, kept, v, trans_b=1)
        u = gemm(-lr, v, K, kept, u, overwrite_c=1)
        v = new

    def roll(count: int) -> None:
        nonlocal u, v
        K = factor()
        if same:
            K = np.asfortranarray(K + K.T)
        gemm(1.0, v, K, beta, a, overwrite_c=1)
        if not same:
            gemm(1.0, u, K, beta, b, overwrite_c=1, trans_b=1)
        if decay:
            _add(axpy, a, u, decay)
            if not same:
                _add(axpy, b, v, decay)
        if nesterov:  # the gradient once more, before either block moves
            new_u, new_v = gemm(-lr, v, K, kept, u), v if same else gemm(-lr, u, K, kept, v, trans_b=1)
            u, v = new_u, new_u if same else new_v
        step = -lr * beta if nesterov else -lr
        _add(axpy, u, a, step)
        if not same:
            _add(axpy, v, b, step)

    def scheduled(step: Step) -> Step:
        def take(count: int) -> None:
            nonlocal lr, kept
            [lr] = rule.rates(count)
            kept = 1 - lr * decay
            step(count)

        return step if rule.schedule is None else take

    def finish() -> None:
        limits.restore_original_limits()
        for name, at in ((left, u), (right, v)):
            if at is not own[name]:
                own[name][...] = at

    if velocity:
        a, b = velocity[left], velocity[right]
        return scheduled(roll), finish
    return scheduled(descend), finish


@functools.cache
def _controller() -> ThreadpoolController:
    """The BLAS that this process has loaded; finding it takes a millisecond."""
    return ThreadpoolController()


def _transposed(block: Tensor, height: int) -> np.ndarray:
    """The transpose (d, rows) of a block (1, *shape, d), in its own memory and in column order."""
    return block.detach().view(height, -1).numpy().T


def _add(axpy: Any, target: np.ndarray, direction: np.ndarray, alpha: float) -> None:
    """Target ← target + alpha · direction, in place."""
    axpy(direction.ravel(order="F"), target.ravel(order="F"), a=alpha)
