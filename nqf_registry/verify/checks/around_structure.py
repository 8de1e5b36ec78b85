"""What ``structure-matrix`` asks beside the numbers: whether they are a sample's own, and the gradient that of f."""

from __future__ import annotations

import torch

from nqf_registry.layer import declares
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.residuals.gradient import gradient
from nqf_registry.verify.residuals.linearised import linearised
from nqf_registry.verify.residuals.one_by_one import one_by_one
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import DIFFERENCES, EQUAL

WRITTEN = ("pullback", "linearise")  # gradients that a layer writes itself

_ALONE = "Count axes from the end and reduce over a sample's own axes only: no mean over the batch, no squeeze."
_LINEARISE = "linearise(W, x) gives f(W) and the gradient of Σ cotangent · f by W; check transposes and factors."
_GRADIENT = (
    "Training follows autograd: look for detach, .item(), numpy, no_grad, torch.tensor(…) of a value, or an autograd function "
    "whose backward is wrong."
)


def around(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> Measurement | None:
    """The measurement that fails, None where nothing is wrong."""
    parts = [name for name in declared if name not in WRITTEN]
    gap, part, sample = one_by_one(setting, parts, context.rays(draw, setting, 2, salt=7))
    if gap > EQUAL:
        said = f"{part}(x) of sample {sample} is another when the sample is alone in x (relative difference {gap:.1e})"
        details = {"part": part, "source": "calls with one sample", "said": said, "advice": _ALONE}
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
