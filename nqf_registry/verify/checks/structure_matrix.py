"""``structure-matrix``: the declared Ā(x), g(x), B(x) and f(0) are the measured ones, a declared pullback the gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import declares
from nqf_registry.verify.checks.around_structure import WRITTEN, around, expected_of, require_expansion
from nqf_registry.verify.context import Context, parameter_name
from nqf_registry.verify.declared import asymmetry_of, declared_part
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.matrix_free import too_large
from nqf_registry.verify.measured import Measured
from nqf_registry.verify.patterns import pattern
from nqf_registry.verify.report import NOT_APPLICABLE, OBSERVED, UNDECIDED, Check
from nqf_registry.verify.residuals.pullback import pullback
from nqf_registry.verify.residuals.structure_along_rays import gaps_along
from nqf_registry.verify.residuals.structure_matrix import Gap, compare
from nqf_registry.verify.setting import Setting
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import AUTODIFF, DIFFERENCES

NAME = "structure-matrix"
SINGLE_PRECISION = 1e-5  # an error below it comes from float32 rather than from a wrong formula
PARTS = ("structure", "linear", "cross", "offset", *WRITTEN)


def check(context: Context) -> Check:
    """Runs the check at every width and several inputs; a layer that declares nothing is told what was derived."""
    declared = [name for name in PARTS if declares(context.layer, name)]

    def measure(draw: Draw) -> Measurement:
        setting = context.exact_setting(draw)
        if context.facts.smooth is not True:
            require_expansion(context, draw, setting, declared)
        found = (_matrix_free if too_large(setting) else _entry_by_entry)(context, draw, setting, declared)
        return found if found.failed else around(context, draw, setting, declared) or found

    if not declared:
        return _derived(context)
    outcome = context.run(measure, every_width=True, samples=(4,), share=0.5)
    norms = _general_form(context)
    return context.conclude(
        NAME,
        outcome,
        True,
        holds=expected_of(outcome) or f"what is declared ({', '.join(declared)}) equals what is measured, {_EVERYWHERE}",
        broken="{said}",
        advice="{advice}",
        details={} if outcome.failed else norms,  # what a failure says follows from its example alone
    )


_EVERYWHERE = "at every width, sample and output"
_ADVICE = {
    "structure": "Ā is half the Hessian block of one neuron at zero; check factors of ½, transposes and Kronecker factors.",
    "linear": "g is the gradient of f by one neuron at W = 0; check its factors and signs.",
    "cross": "B is half the second derivative by two different neurons at W = 0; check factors of ½ and transposes.",
    "offset": "offset(x) describes the f(0) that forward has and is not added to it; leave it out where f(0) = 0.",
    "pullback": "pullback is the gradient of Σ cotangent · f by W; check transposes and factors.",
}


_SYMMETRIC_OR_NOT = "Give (A + Aᵀ) / 2: half of each entry on either side of the diagonal."
_SYMMETRIC = "Its symmetric part is right: give (A + Aᵀ) / 2, half of each entry on either side of the diagonal."


def _advice(part: str, residual: float) -> str:
    if residual < SINGLE_PRECISION:
        return (
            "It agrees to single precision only: verification runs in float64, so make the constants that "
            f"{part}(x) uses with x's dtype."
        )
    return _ADVICE[part]


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
        if context.facts.smooth is not True:
            require_expansion(context, draw, setting, ["structure"])
        large = too_large(setting)
        seen = context.along(draw) if large else context.measured(draw)
    except Exception as reason:
        status = NOT_APPLICABLE if context.facts.finite is False or context.facts.smooth is False else UNDECIDED
        return Check(NAME, status, message=f"no structure is declared, and none could be derived: {reason}")
    norms = _norms(context, draw, setting)
    zero = norms["A"] * setting.scale**2 <= DIFFERENCES * float(setting.spread.max())
    about = "about " if large else ""
    if zero:
        what = "A = 0"
    elif isinstance(seen, Measured):
        rank = int(torch.linalg.matrix_rank(seen.expansion.structure, rtol=1e-9).max())
        what = f"A is {setting.p} × {setting.p} of rank {rank}"
    else:
        what = f"A is {setting.p} × {setting.p} of norm {about}{norms['A']:.3g}, looked at along random rays"
    if context.facts.zgz is False:
        what += f", with A = Ā − B, |g| = {norms['g']:.3g}, |Ā| = {norms['Ā']:.3g}, |B| = {norms['B']:.3g}"
    message = f"no structure is declared; it was derived by {seen.source}: {what}."
    details = {"source": seen.source, "derived": True, "norms": norms, "matrix_free": large}
    return Check(NAME, OBSERVED, examples=1, message=message, details=details)


def _norms(context: Context, draw: Draw, setting: Setting) -> dict[str, float]:
    """The norms of g, Ā, B and A = Ā − B as measured, the largest over samples and outputs; estimates where p is large."""
    if too_large(setting):
        return context.along(draw).norms(context.seed)
    e = context.measured(draw).expansion
    parts = {"g": e.linear, "Ā": e.diagonal, "B": e.cross, "A": e.structure}
    return {name: float(value.flatten(2).norm(dim=-1).max()) for name, value in parts.items()}


def _general_form(context: Context) -> dict[str, Any]:
    """The measured g, Ā, B and A = Ā − B of a layer without ZGZ, as a note and as numbers to report."""
    if context.facts.zgz is not False:
        return {}
    draw = Draw(0, context.layer.width, 4)
    try:
        norms = _norms(context, draw, context.exact_setting(draw))
    except Exception:  # what could not be measured is told by the check itself
        return {}
    said = ", ".join(f"|{name}| = {value:.3g}" for name, value in norms.items())
    context.notes[f"the general form, with A = Ā − B, largest norms over samples and outputs: {said}"] = None
    return {"norms": norms}


def _entry_by_entry(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> Measurement:
    """The comparison of every entry, for a layer whose p × p matrices fit the memory budget."""
    seen = context.measured(draw)
    gaps = _gaps(setting, seen, [name for name in declared if name not in WRITTEN])
    if "pullback" in declared:
        gaps["pullback"] = _pullback(context, draw, setting)
    if not gaps:
        return Measurement(0.0, AUTODIFF)  # a linearise alone, and nothing was wrong with it
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
    said += f", measured by {source}"
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


def _matrix_free(context: Context, draw: Draw, setting: Setting, declared: list[str]) -> Measurement:
    """The same along random rays of one and of two neurons, for a layer whose p × p matrices are over the memory budget."""
    context.notes[f"A is {setting.p} × {setting.p}: it was compared along random rays, not entry by entry"] = None
    seen = context.along(draw)
    gaps = gaps_along(setting, seen, declared, context.seed + draw.weights)
    if "pullback" in declared:
        gaps["pullback"] = _pullback(context, draw, setting)
    if not gaps:
        return Measurement(0.0, AUTODIFF)
    asymmetry = asymmetry_of(setting) if "structure" in declared else 0.0
    part, gap = max(gaps.items(), key=lambda pair: pair[1].residual)
    tolerance = max(AUTODIFF, DIFFERENCES if seen.source == "differences" else 0.0)
    if part == "pullback":
        said, source = _said(setting, part, gap), "autograd"
        data = None
    else:
        sample, output = gap.place[:2]
        said = (
            f"{_TITLES[part]} of sample {sample}, output {output} at width {setting.d} is {gap.declared:.6g} along a ray and "
            f"measured {gap.measured:.6g}{_ratio(gap)} ({_size(gap)})"
        )
        source = seen.source
        data = {"part": part, "sample": sample, "output": output, "declared": gap.declared, "measured": gap.measured}
    said += f", measured by {source}"
    advice = _advice(part, gap.residual)
    if asymmetry > max(AUTODIFF, gap.residual):
        said, advice = f"the declared A is not symmetric (|A − Aᵀ| is {asymmetry:.1e} of |A|)", _SYMMETRIC_OR_NOT
    return Measurement(
        max(gap.residual, asymmetry),
        tolerance,
        counterexample=lambda: (
            _counterexample(context, draw, setting, part, gap) if data is None else context.describe(draw, setting, **data)
        ),
        details={"part": part, "source": source, "said": said, "advice": advice},
    )
