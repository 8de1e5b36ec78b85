"""``determinism``: two calls with the same W and x give the same bits, and leave W, x and the process as they were."""

from __future__ import annotations

from nqf_registry.verify.context import Context, sizes_of
from nqf_registry.verify.drive import Measurement
from nqf_registry.verify.report import Check
from nqf_registry.verify.residuals.determinism import determinism, repeated_sample
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.tolerances import EQUAL, PRECISION, SINGLE

NAME = "determinism"
_NEXT = {
    "W": "Work on copies: no operation that ends in an underscore, no out=, no assignment into W or x.",
    "random": "Take dropout and everything else that draws out of forward; what is drawn once and kept belongs into x.",
    "settings": "Leave the settings of torch and of the process alone; pass dtype and device to the calls that need them.",
    "state": "Take what one call leaves to the next out of forward: counters, caches, running statistics, buffers.",
    "samples": "Reduce over a sample's own axes only: no mean over the batch, no batch norm in training mode.",
    "replicas": "Count axes from the end and reduce over none but the neurons', so that a leading replica axis stays one.",
}


def check(context: Context) -> Check:
    """Runs the check; the weights are of size 1 because the length scale of a noisy layer means nothing."""

    def measure(draw: Draw) -> Measurement:
        unlike = repeated_sample(context.instance(draw), draw.samples, draw.inputs)
        if unlike:
            context.facts.repeatable = False
            data = {"sizes": sizes_of(context.instance(draw)), "samples": draw.samples, "inputs_seed": draw.inputs}
            details = {"said": unlike, "advice": "Pass generator=generator to every torch function that draws."}
            return Measurement(1.0, 0.0, counterexample=lambda: data, details=details)
        setting: Setting = context.setting(draw)
        first, second = context.rays(draw, setting, 2)
        seen = determinism(setting, first, second)
        said, step = "two calls with the same W and x differ", "state"
        residual = seen.residual
        if seen.changed:
            residual, said = max(residual, 1.0), f"a call changes {' and '.join(seen.changed)}"
            own = {"the weights W", "the inputs x"} & set(seen.changed)
            step = "W" if own else "state" if "its own" in said else "random" if "random" in said else "settings"
        elif not residual and seen.replicas > EQUAL and seen.replicas > _allowed(setting):
            residual, said = seen.replicas, "a call with a replica axis gives other values than its replicas one by one"
            step = "replicas"
        elif not residual and seen.samples > EQUAL and seen.samples > _allowed(setting):
            residual, step = seen.samples, "samples"
            said = "the output of a sample changes with the other samples of its batch, so f is no function of W and one x"
        by = "" if seen.changed else f" (relative difference {residual:.1e})"
        details = {"said": said + by, "advice": _NEXT[step]} if residual else {}
        return Measurement(residual, 0.0, counterexample=lambda: context.describe(draw, setting, first), details=details)

    outcome = context.run(measure, every_width=True, share=0.5)
    context.facts.deterministic = None if outcome.worst is None or outcome.reason else not outcome.failed
    return context.conclude(
        NAME,
        outcome,
        True,
        holds="the same W and x give the same values, and a call changes nothing else",
        broken="{said}",
        advice="{advice}",
    )


def _allowed(setting: Setting) -> float:
    """How far replicas may be off: a layer that computes in float32 is refused by the other checks, not by this one."""
    try:
        return SINGLE if setting.precision > PRECISION else EQUAL
    except Undecided:
        return SINGLE
