"""The nine checks, each a file of its own: draws, a residual, and the sentence that follows."""

from __future__ import annotations

from collections.abc import Callable

from nqf_registry.verify.checks import (
    determinism,
    finiteness,
    minimality,
    permutation_symmetry,
    remainder_order,
    sign_symmetry,
    smoothness,
    structure_matrix,
    zero_gradient_at_zero,
)
from nqf_registry.verify.context import Context
from nqf_registry.verify.report import Check

# In the order in which they run: whether f is a function comes first, since nothing else means anything without it.
CHECKS: dict[str, Callable[[Context], Check]] = {
    "determinism": determinism.check,
    "finiteness": finiteness.check,
    "permutation-symmetry": permutation_symmetry.check,
    "zero-gradient-at-zero": zero_gradient_at_zero.check,
    "smoothness": smoothness.check,
    "structure-matrix": structure_matrix.check,
    "remainder-order": remainder_order.check,
    "sign-symmetry": sign_symmetry.check,
    "minimality": minimality.check,
}
