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
from nqf_registry.verify.guard import guarding
from nqf_registry.verify.report import Check

# The widths below which a check has nothing to exchange.
LEAST = {permutation_symmetry.NAME: permutation_symmetry.LEAST, minimality.NAME: minimality.LEAST}

# In the order in which they run: whether f is a function comes first, since nothing else means anything without it.
# Each leaves the process, and what the layer holds, bit by bit as they were, also where it is called alone or raises.
CHECKS: dict[str, Callable[[Context], Check]] = {
    module.NAME: guarding(module.check)
    for module in (
        determinism,
        finiteness,
        permutation_symmetry,
        zero_gradient_at_zero,
        smoothness,
        structure_matrix,
        remainder_order,
        sign_symmetry,
        minimality,
    )
}
