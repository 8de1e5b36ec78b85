"""The verifier: residuals that return numbers, checks that draw examples for them, and the report.

Every public name is imported at its first use, so that a residual by itself needs no hypothesis.
"""

import sys

from nqf_registry.exports import LazyPackage

_EXPORTS = {
    "SUITE": "nqf_registry.verify.suite",
    "Check": "nqf_registry.verify.report",
    "Report": "nqf_registry.verify.report",
    "verdict": "nqf_registry.verify.verdict",
    "verify": "nqf_registry.verify.suite",
}

__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]

sys.modules[__name__].__class__ = LazyPackage
