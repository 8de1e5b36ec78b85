"""Which other checks one example breaks, so that the failure that follows from theirs says where to look first."""

from __future__ import annotations

import contextlib

from nqf_registry.verify.checks import (
    permutation_symmetry,
    sign_symmetry,
    smoothness,
    structure_matrix,
    zero_gradient_at_zero,
)
from nqf_registry.verify.context import Context
from nqf_registry.verify.guard import contained
from nqf_registry.verify.report import FAIL, OBSERVED, UNDECIDED, Check
from nqf_registry.verify.single import Single
from nqf_registry.verify.strategies import Draw

# In this order: each can be the reason of those after it.
_SAID = {
    permutation_symmetry: "f tells its neurons apart, and an expansion takes them as alike",
    smoothness: "with a kink at zero there is no quadratic form",
    zero_gradient_at_zero: "a part of first order, or neurons that are coupled, is in f and not in the expansion",
    structure_matrix: "a part of what is declared is wrong",
    sign_symmetry: "a neuron is not even",
}


def elsewhere(context: Context, draw: Draw) -> str:
    """What the checks that an expansion rests on say of one example, "" where all of them hold.

    They measure that example alone, so that a replay of it says the same. What is broken and was never claimed counts where the
    expansion assumes it all the same.
    """
    found: list[str] = []
    for module, said in _SAID.items():
        with contextlib.suppress(Exception), contained():
            check = module.check(Single.at(context, draw))
            if _matters(context, check):
                undecided = check.status == UNDECIDED
                found.append(f"{check.name} ({'it could not be decided' if undecided else said})")
    if not found:
        return ""
    return (
        f"This follows from what {' and '.join(found)} {'says' if len(found) == 1 else 'say'} of the same example: begin there."
    )


def _matters(context: Context, check: Check) -> bool:
    """Whether the remainder may follow from what a check saw."""
    if check.status == FAIL:
        return True
    if check.status == OBSERVED:
        return check.counterexample is not None and check.name in (permutation_symmetry.NAME, smoothness.NAME)
    return False
