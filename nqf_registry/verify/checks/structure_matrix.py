"""``structure-matrix``: the declared Ā(x), g(x), B(x) and f(0) are the measured ones, a declared pullback the gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import declares
from nqf_registry.verify.context import Context, parameter_name
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.matrix_free import measure_along, one_neuron_rays, too_large
from nqf_registry.verify.measured import Measured
from nqf_registry.verify.patterns import pattern
from nqf_registry.verify.report import NOT_APPLICABLE, OBSERVED, UNDECIDED, Check
from nqf_registry.verify.residuals.pullback import pullback
from nqf_registry.verify.residuals.structure_matrix import Gap, compare
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import AUTODIFF, DIFFERENCES

NAME = "structure-matrix"
SINGLE_PRECISION = 1e-5  # an error below it comes from float32 rather than from a wrong formula
PARTS = ("structure", "linear", "cross", "offset", "pullback")


def check(context: Context) -> Check:
    """Runs the check at every width and several inputs; a layer that declares nothing is told what was derived."""
    declared = [name for name in PARTS if declares(context.layer, name)]

    def measure(draw: Draw) -> Measurement | None:
        setting = context.exact_setting(draw)
        if too_large(setting):
            return _matrix_free(context, draw, setting, declared)
        seen = context.measured(draw)
        gaps = _gaps(setting, seen, [name for name in declared if name != "pullback"])
        if "pullback" in declared:
            gaps["pullback"] = _pullback(context, draw, setting)
        if not gaps:
            return None
        asymmetry = asymmetry_of(setting) if "structure" in declared else 0.0
        part, gap = max(gaps.items(), key=lambda pair: pair[1].residual)
        said = _said(setting, part, gap)
        residual = gap.residual
        if asymmetry > AUTODIFF:
            said = f"the declared A is not symmetric (|A − Aᵀ| is {asymmetry:.1e} of |A|)" + (
                f", and {said}" if residual > seen.error else ""
            )
            residual = max(residual, asymmetry)
        source = "autograd" if part == "pullback" else seen.source
        advice = _advice(part, residual)
        if asymmetry > AUTODIFF and _symmetric_part_is_right(setting, seen):
            advice = _SYMMETRIC
        elif gap.residual > max(AUTODIFF, seen.error) and part != "pullback":
            advice = f"{_pattern(setting, seen, part)}{advice}"
        details = {"part": part, "source": source, "said": said, "advice": advice} | {
            f"{name}_residual": g.residual for name, g in gaps.items()
        }
        return Measurement(
            residual,
            max(AUTODIFF, seen.error),
            counterexample=lambda: _counterexample(context, draw, setting, part, gap),
            details=details,
        )

    if not declared:
        return _derived(context)
    outcome = context.run(measure, every_width=True, samples=(4,), share=0.5)
    return context.conclude(
        NAME,
        outcome,
        True,
        holds=f"what is declared ({', '.join(declared)}) equals what is measured, at every width, sample and output",
        broken="{said}, measured by {source}",
        advice="{advice}",
    )


_ADVICE = {
    "structure": "Ā is half the Hessian block of one neuron at zero; check factors of ½, transposes and Kronecker factors.",
    "linear": "g is the gradient of f by one neuron at W = 0; check its factors and signs.",
    "cross": "B is half the second derivative by two different neurons at W = 0; check factors of ½ and transposes.",
    "offset": "offset(x) describes the f(0) that forward has and is not added to it; leave it out where f(0) = 0.",
    "pullback": "pullback is the gradient of Σ cotangent · f by W; check transposes and factors.",
}


_SYMMETRIC = "Its symmetric part is right: give (A + Aᵀ) / 2, half of each entry on either side of the diagonal."


def _advice(part: str, residual: float) -> str:
    if residual < SINGLE_PRECISION:
        return (
            "It agrees to single precision only: verification runs in float64, so make the constants that "
            f"{part}(x) uses with x's dtype."
        )
    return _ADVICE[part]


def asymmetry_of(setting: Setting) -> float:
    """|A − Aᵀ| / |A| of what a layer declares."""
    return setting.layer.structure(setting.x).asymmetry()  # type: ignore[attr-defined]


def declared_part(setting: Setting, name: str, like: Tensor) -> Tensor:
    """One declared part, dense and in float64, of the shape of the measured one."""
    own: Any = setting.layer
    if name == "structure" or name == "cross":
        return getattr(own, name)(setting.x).dense(torch.float64).expand_as(like)
    if name == "linear":
        given = own.linear(setting.x)
        n, k = like.shape[:2]
        parts = [
            given[block].reshape(n, k, -1) if block in given else like.new_zeros(n, k, int(torch.Size(shape).numel()))
            for block, shape in setting.layer.blocks().items()
        ]
        return torch.cat([part.to(torch.float64) for part in parts], -1)
    value = own.offset(setting.x)
    number = value if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    return number.to(torch.float64).expand_as(like)


def _measured_parts(setting: Setting, seen: Measured) -> dict[str, tuple[Tensor, Tensor]]:
    """By name, what was measured, and the size that its errors are measured against."""
    expansion, size, s = seen.expansion, setting.spread, setting.scale
    return {
        "structure": (expansion.diagonal, size / s**2),
        "linear": (expansion.linear, size / s),
        "cross": (expansion.cross, size / s**2),
        "offset": (expansion.offset, size),
    }


def _symmetric_part_is_right(setting: Setting, seen: Measured) -> bool:
    measured, size = _measured_parts(setting, seen)["structure"]
    declared = declared_part(setting, "structure", measured)
    return compare((declared + declared.mT) / 2, measured, size).residual <= max(AUTODIFF, seen.error)


def _pattern(setting: Setting, seen: Measured, part: str) -> str:
    """What the errors of one part have in common, as a sentence and a space, or ""."""
    measured, size = _measured_parts(setting, seen)[part]
    found = pattern(declared_part(setting, part, measured), measured, size, max(AUTODIFF, seen.error))
    return f"{found} " if found else ""


def _gaps(setting: Setting, seen: Measured, declared: list[str]) -> dict[str, Gap]:
    measured = _measured_parts(setting, seen)
    here = [name for name in declared if name != "cross" or setting.d > 1]  # a single neuron has no other to be coupled to
    return {name: compare(declared_part(setting, name, measured[name][0]), *measured[name]) for name in here}


def _pullback(context: Context, draw: Draw, setting: Setting) -> Gap:
    """The gap of the declared gradient, at weights of about the length scale, where the layer is not its quadratic form."""
    return pullback(setting, context.weights(draw, setting), context.seed + draw.weights)


_TITLES = {"structure": "Ā", "linear": "g", "cross": "B", "offset": "f(0)"}


def _said(setting: Setting, part: str, gap: Gap) -> str:
    if part == "pullback":
        parameter, neuron = gap.place
        return (
            f"the pullback by {parameter_name(setting.layer, parameter)} of neuron {neuron} at width {setting.d} is declared "
            f"{gap.declared:.6g} and autograd gives {gap.measured:.6g}{_ratio(gap)} ({_size(gap)})"
        )
    sample, output, *indices = gap.place
    entry = f"[{', '.join(parameter_name(setting.layer, i) for i in indices)}]" if indices else ""
    return (
        f"{_TITLES[part]}{entry} of sample {sample}, output {output} at width {setting.d} is declared "
        f"{gap.declared:.6g} and measured {gap.measured:.6g}{_ratio(gap)} ({_size(gap)})"
    )


def _size(gap: Gap) -> str:
    """How far off; an error relative to nothing is told as it is."""
    return f"relative error {gap.residual:.1e}" if gap.relative else f"off by {abs(gap.declared - gap.measured):.3g}"


def _ratio(gap: Gap) -> str:
    """A hint where declared and measured stand in a simple ratio."""
    if gap.measured and gap.declared:
        ratio = gap.declared / gap.measured
        for value, text in ((2.0, "twice"), (0.5, "half"), (-1.0, "minus"), (4.0, "four times"), (0.25, "a quarter of")):
            if abs(ratio - value) < 1e-6:
                return f", {text} the truth"
    return ""


def _counterexample(context: Context, draw: Draw, setting: Setting, part: str, gap: Gap) -> dict[str, Any]:
    if part == "pullback":
        parameter, neuron = gap.place
        return context.describe(
            draw,
            setting,
            context.weights(draw, setting),
            part=part,
            entry=[parameter_name(setting.layer, parameter)],
            neuron=neuron,
            declared=gap.declared,
            measured=gap.measured,
        )
    sample, output, *indices = gap.place
    entry = [parameter_name(setting.layer, i) for i in indices]
    found = {
        "part": part,
        "sample": sample,
        "output": output,
        "entry": entry,
        "declared": gap.declared,
        "measured": gap.measured,
    }
    return context.describe(draw, setting, **found)


def _derived(context: Context) -> Check:
    """What is said of a layer that declares no structure."""
    draw = Draw(0, context.layer.width, 4)
    try:
        setting = context.exact_setting(draw)
        seen = context.measured(draw)
    except Exception as reason:
        status = NOT_APPLICABLE if context.facts.finite is False else UNDECIDED
        return Check(NAME, status, message=f"no structure is declared, and none could be derived: {reason}")
    A = seen.expansion.diagonal
    zero = float((A.abs().amax((-1, -2)) * setting.scale**2 / setting.spread).max()) <= DIFFERENCES
    what = "A = 0" if zero else f"A is {setting.p} × {setting.p} of rank {int(torch.linalg.matrix_rank(A, rtol=1e-9).max())}"
    message = f"no structure is declared; it was derived by {seen.source}: {what}."
    return Check(NAME, OBSERVED, examples=1, message=message, details={"source": seen.source, "derived": True})


def _matrix_free(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> Measurement:
    """The same along random rays, for a layer whose p × p matrices are over the memory budget; B is not looked at."""
    context.notes[f"A is {setting.p} × {setting.p}: it was compared along random rays of one neuron, not entry by entry"] = None
    seen = measure_along(setting, one_neuron_rays(setting, context.seed + draw.weights))
    own: Any = setting.layer
    blocks = setting.layer.unstack(seen.rays)
    size, s = setting.spread, setting.scale
    gaps: dict[str, Gap] = {}
    if "structure" in declared:
        gaps["structure"] = compare(
            own.structure(setting.x).evaluate(blocks).movedim(0, -1), seen.curvature.movedim(0, -1), size / s**2
        )
    if "linear" in declared:
        given = own.linear(setting.x)
        slopes = [
            torch.einsum("nkp,qp->qnk", g.flatten(2).to(torch.float64), blocks[name][..., 0].flatten(1))
            for name, g in given.items()
        ]
        total = torch.stack(slopes).sum(0) if slopes else torch.zeros_like(seen.slope)
        gaps["linear"] = compare(total.movedim(0, -1), seen.slope.movedim(0, -1), size / s)
    if "offset" in declared:
        gaps["offset"] = compare(declared_part(setting, "offset", setting.offset), setting.offset, size)
    if "pullback" in declared:
        gaps["pullback"] = _pullback(context, draw, setting)
    asymmetry = asymmetry_of(setting) if "structure" in declared else 0.0
    part, gap = max(gaps.items(), key=lambda pair: pair[1].residual)
    if part == "pullback":
        return Measurement(
            max(gap.residual, asymmetry),
            max(AUTODIFF, seen.error),
            counterexample=lambda: _counterexample(context, draw, setting, part, gap),
            details={
                "part": part,
                "source": "autograd",
                "said": _said(setting, part, gap),
                "advice": _advice(part, gap.residual),
            },
        )
    sample, output = gap.place[:2]
    said = (
        f"{_TITLES[part]} of sample {sample}, output {output} is {gap.declared:.6g} along a ray and measured {gap.measured:.6g}"
    )
    data = {"part": part, "sample": sample, "output": output, "declared": gap.declared, "measured": gap.measured}
    return Measurement(
        max(gap.residual, asymmetry),
        seen.error,
        counterexample=lambda: context.describe(draw, setting, **data),
        details={
            "part": part,
            "source": seen.source,
            "said": f"{said}{_ratio(gap)} ({_size(gap)})",
            "advice": _advice(part, gap.residual),
        },
    )
