"""Residuals: pure functions of a setting and weights that return numbers. No hypothesis, no pytest, no verdicts.

Every name is imported at its first use.

Example:
    >>> import torch, nqf_registry as nqf
    >>> from nqf_registry.verify.residuals import Setting, sign_symmetry
    >>> layer = nqf.default_registry().get("two-layer-mlp", activation="tanh")
    >>> setting = Setting(layer, layer.sample(4, torch.Generator().manual_seed(0)))
    >>> residual, neuron = sign_symmetry(setting, layer.random(torch.Generator().manual_seed(1)))
    >>> residual < 1e-12                                          # v tanh(u·x) is even
    True
"""

import sys

from nqf_registry.exports import LazyPackage

_EXPORTS = {
    "Setting": "nqf_registry.verify.setting",
    "Undecided": "nqf_registry.verify.setting",
    "compare": "nqf_registry.verify.residuals.structure_matrix",
    "determinism": "nqf_registry.verify.residuals.determinism",
    "finiteness": "nqf_registry.verify.residuals.finiteness",
    "gaps_along": "nqf_registry.verify.residuals.structure_along_rays",
    "gradient": "nqf_registry.verify.residuals.gradient",
    "linearised": "nqf_registry.verify.residuals.linearised",
    "measure": "nqf_registry.verify.measured",
    "measure_along": "nqf_registry.verify.matrix_free",
    "minimality": "nqf_registry.verify.residuals.minimality",
    "one_by_one": "nqf_registry.verify.residuals.one_by_one",
    "permutation_symmetry": "nqf_registry.verify.residuals.permutation_symmetry",
    "pullback": "nqf_registry.verify.residuals.pullback",
    "quadratic_polynomial": "nqf_registry.verify.residuals.remainder_order",
    "remainder_slope": "nqf_registry.verify.residuals.remainder_order",
    "sign_symmetry": "nqf_registry.verify.residuals.sign_symmetry",
    "smoothness": "nqf_registry.verify.residuals.smoothness",
    "zero_gradient": "nqf_registry.verify.residuals.zero_gradient_at_zero",
}

__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]

sys.modules[__name__].__class__ = LazyPackage
