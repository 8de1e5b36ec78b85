"""``finiteness``: f is a finite number at W = 0, near it, and where one neuron is zero."""

from __future__ import annotations

import contextlib

import torch

from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.explanation import about_precision
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.finiteness import finiteness
from nqf_registry.verify.setting import Undecided
from nqf_registry.verify.strategies import Draw, gaussian_weights

NAME = "finiteness"


def check(context: Context) -> Check:
    """Runs the check."""

    def measure(draw: Draw) -> Measurement:
        setting = context.setting(draw)
        size = 1.0
        if context.facts.deterministic:  # a noisy layer has no length scale
            with contextlib.suppress(Undecided):
                size = setting.scale
        generator = torch.Generator().manual_seed(draw.weights)
        W = gaussian_weights(setting.p, setting.d, draw.factor * size, generator)
        bad, where = finiteness(setting, W)
        return Measurement(
            float(bad), 0.0, counterexample=lambda: context.describe(draw, setting, W, where=where), details={"where": where}
        )

    outcome = context.run(measure, every_width=True, factors=(1.0, 0.1, 1e-3), share=0.75)
    context.facts.finite = None if outcome.worst is None or (outcome.reason and not outcome.failed) else not outcome.failed
    verdict = context.conclude(
        NAME,
        outcome,
        True,
        holds="f is finite at W = 0, near it, and where one neuron is zero",
        broken="{residual} values are nan or infinite {where}",
        advice="Look for 0/0, a logarithm of zero or a norm in a denominator.",
    )
    if outcome.raised and not outcome.failed and not about_precision(verdict.cause):
        # a layer that raises at W = 0 has no value there; one that mixes dtypes may have one where it is not verified
        return context.unevaluated(NAME, verdict.cause, outcome.draw, max(1, outcome.examples))
    return verdict
