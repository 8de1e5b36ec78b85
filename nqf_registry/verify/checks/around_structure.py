"""What ``structure-matrix`` asks beside the numbers: whether there can be any, are a sample's own, and the gradient is f's."""

from __future__ import annotations

import torch

from nqf_registry.layer import declares
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome
from nqf_registry.verify.residuals.gradient import gradient
from nqf_registry.verify.residuals.linearised import linearised
from nqf_registry.verify.residuals.one_by_one import one_by_one
from nqf_registry.verify.residuals.smoothness import smoothness
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import DIFFERENCES, EQUAL, KINK

WRITTEN = ("pullback", "linearise")  # gradients that a layer writes itself

_ALONE = "Count axes from the end and reduce over a sample's own axes only: no mean over the batch, no squeeze."
_LINEARISE = "linearise(W, x) gives f(W) and the gradient of Σ cotangent · f by W; check transposes and factors."
_GRADIENT = (
    "Training follows autograd: look for detach, .item(), numpy, no_grad, torch.tensor(…) of a value, or an autograd function "
    "whose backward is wrong."
)


# What should hold of a part that is compared with something else than the measured expansion.
_EXPECTED = {
    "gradient": "the gradient that autograd gives is that of f, as differences of f along rays give it",
    "pullback": "the declared pullback is the gradient of Σ cotangent · f that autograd gives",
    "linearise": "linearise gives the outputs of forward and the gradient of autograd",
    "alone": "what is declared for a sample is the same whether it is alone in x or among others",
}


def expected_of(outcome: Outcome) -> str:
    """What should have held, by the part that failed; "" where nothing did, or the measured expansion should."""
    if not outcome.failed or outcome.worst is None:
        return ""
    return _EXPECTED.get(outcome.worst.details.get("expects", outcome.worst.details.get("part", "")), "")


def require_expansion(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> None:
    """Refuses a comparison with derivatives that f does not have at W = 0, where differences give some number all the same.

    Raises:
        Undecided: saying which are missing.
    """
    order = 2 if {"structure", "cross"} & set(declared) else 1 if "linear" in declared else 0
    if not order:
        return
    kinks = smoothness(setting, setting.zero, *context.rays(draw, setting, 2))
    seen = [kinks.hole, *(kinks.sides[: order + 1]), *(kinks.forms[1 : order + 1]), *(kinks.drift[: order + 1])]
    if any(value > KINK for value in seen):
        raise Undecided(
            f"f has no derivative of order {order} at W = 0 ({kinks.worst[1]}), so no quadratic form is right for it and "
            "there is nothing to compare with. See smoothness first; structure-matrix decides once f is smooth."
        )


def around(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> Measurement | None:
    """The measurement that fails, None where nothing is wrong."""
    parts = [name for name in declared if name not in WRITTEN]
    gap, part, sample = one_by_one(setting, parts, context.rays(draw, setting, 2, salt=7))
    if gap > EQUAL:
        said = f"{part}(x) of sample {sample} is another when the sample is alone in x (relative difference {gap:.1e})"
        details = {"part": part, "source": "calls with one sample", "said": said, "advice": _ALONE, "expects": "alone"}
        data = {"part": part, "sample": sample}
        return Measurement(gap, EQUAL, counterexample=lambda: context.describe(draw, setting, **data), details=details)
    W = context.weights(draw, setting, salt=9) / 4
    seen = gradient(setting, W, context.rays(draw, setting, 4, salt=8), context.seed + draw.weights)
    if seen is None or seen.residual <= DIFFERENCES:
        return _written(context, draw, setting)
    said = f"the slope of Σ c f along a ray is {seen.autograd:.6g} by autograd and {seen.differences:.6g} by differences of f"
    numbers = {"autograd": seen.autograd, "differences": seen.differences}
    return Measurement(
        seen.residual,
        DIFFERENCES,
        counterexample=lambda: context.describe(draw, setting, W, part="gradient", **numbers),
        details={"part": "gradient", "source": "differences", "said": said, "advice": _GRADIENT},
    )


def _written(context: Context, draw: Draw, setting: Setting) -> Measurement | None:
    """The same of a linearise that the layer writes, at weights of about the length scale."""
    if not declares(setting.layer, "linearise"):
        return None
    W = torch.stack([context.weights(draw, setting, salt) for salt in (0, 11)])
    value, gradient_gap = linearised(setting, W, context.seed + draw.weights)
    gap = max(value, gradient_gap)
    if gap <= EQUAL:
        return None
    what = ("outputs", "forward's") if value > EQUAL else ("gradient", "that of autograd")
    said = f"the {what[0]} of linearise differ from {what[1]} (relative difference {gap:.1e})"
    return Measurement(
        gap,
        EQUAL,
        counterexample=lambda: context.describe(draw, setting, W[0], part="linearise"),
        details={"part": "linearise", "source": "autograd", "said": said, "advice": _LINEARISE},
    )
