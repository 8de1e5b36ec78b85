"""Register, prove, catalogue, compose and train neural layers as quadratic forms in their order parameters.

Every public name is imported at its first use, so that ``import nqf_registry`` costs no torch.
"""

import sys

from nqf_registry.exports import LazyPackage

__version__ = "0.1.0"

_EXPORTS = {
    "Activation": "nqf_registry.activations",
    "Check": "nqf_registry.verify.report",
    "Claims": "nqf_registry.layer",
    "Composition": "nqf_registry.compose.graph",
    "Compressed": "nqf_registry.train.models",
    "ContestedKey": "nqf_registry.errors",
    "Data": "nqf_registry.train.data",
    "Diverged": "nqf_registry.errors",
    "Expansion": "nqf_registry.expansion",
    "Graph": "nqf_registry.compose.builder",
    "GraphError": "nqf_registry.errors",
    "GrowthRates": "nqf_registry.dynamics.growth",
    "InvalidInput": "nqf_registry.errors",
    "Layer": "nqf_registry.layer",
    "LayerError": "nqf_registry.errors",
    "LeadingForm": "nqf_registry.leading_form",
    "NQF": "nqf_registry.train.models",
    "NQFError": "nqf_registry.errors",
    "OrderParameters": "nqf_registry.train.models",
    "Original": "nqf_registry.train.models",
    "PluginError": "nqf_registry.errors",
    "Port": "nqf_registry.layer",
    "QuadraticForm": "nqf_registry.quadratic_form",
    "Reference": "nqf_registry.references",
    "Registry": "nqf_registry.registry",
    "Report": "nqf_registry.verify.report",
    "Run": "nqf_registry.train.runs",
    "StorageError": "nqf_registry.errors",
    "Structure": "nqf_registry.structure",
    "UnknownKey": "nqf_registry.errors",
    "WorkFailed": "nqf_registry.errors",
    "activation": "nqf_registry.activations",
    "activations": "nqf_registry.activations",
    "analyze": "nqf_registry.modules.analysis",
    "as_tokens": "nqf_registry.tokens",
    "compare": "nqf_registry.train.compare",
    "default_registry": "nqf_registry.registry",
    "dense": "nqf_registry.structure",
    "digits": "nqf_registry.train.digits",
    "expand": "nqf_registry.expansion",
    "find_neurons": "nqf_registry.modules.find",
    "fixed_normal": "nqf_registry.fixed_weights",
    "from_module": "nqf_registry.modules.adapter",
    "growth_rates": "nqf_registry.dynamics.growth",
    "GrowthSpectrum": "nqf_registry.dynamics.spectrum",
    "growth_spectrum": "nqf_registry.dynamics.spectrum",
    "sketch": "nqf_registry.sketched",
    "half_saturation": "nqf_registry.dynamics.growth",
    "hookimpl": "nqf_registry.hookspecs",
    "leading_form": "nqf_registry.leading_form",
    "load_composition": "nqf_registry.compose.spec",
    "load_data": "nqf_registry.train.data",
    "mnist": "nqf_registry.train.mnist",
    "quadratic": "nqf_registry.structure",
    "quadratic_form": "nqf_registry.quadratic_form",
    "replay": "nqf_registry.verify.replay",
    "require_choice": "nqf_registry.choices",
    "require_positive": "nqf_registry.choices",
    "resume": "nqf_registry.train.resume",
    "rows": "nqf_registry.structure",
    "teacher": "nqf_registry.train.teacher",
    "train": "nqf_registry.train.loop",
    "verdict": "nqf_registry.verify.verdict",
    "verify": "nqf_registry.verify.suite",
}

__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]

sys.modules[__name__].__class__ = LazyPackage
