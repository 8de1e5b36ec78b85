"""One example again: the line that a counterexample carries, and the check that measures exactly that."""

from __future__ import annotations

import dataclasses

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, class_hint
from nqf_registry.verify.checks import CHECKS, LEAST
from nqf_registry.verify.context import Context
from nqf_registry.verify.examples import parse_example
from nqf_registry.verify.first_call import LARGEST, too_many
from nqf_registry.verify.guard import guarded
from nqf_registry.verify.profiles import find_profile
from nqf_registry.verify.report import Check
from nqf_registry.verify.single import Single
from nqf_registry.verify.suite import ALWAYS, called, not_begun, promises, run_check


def impossible(layer: Layer, example: str) -> str:
    """Why a layer cannot have an example; "" where it can.

    Args:
        layer: that it is to be measured on.
        example: a line that :func:`~nqf_registry.verify.examples.parse_example` reads.
    """
    name, draw, seed = parse_example(example, CHECKS)
    least = LEAST.get(name, 1)
    if draw.width < least:
        return f"{name} needs a width of at least {least}, got width={draw.width}"
    try:
        Single(layer, find_profile("dev"), seed, draw).refuse_impossible()
    except InvalidInput as reason:
        return str(reason).rstrip(".")
    return ""


def replay(layer: Layer, example: str, profile: str = "dev") -> Check:
    """Measures one example again, with the check that it names.

    Nothing is drawn and nothing is shrunk, so a counterexample that a report shows comes out as it was.

    Args:
        layer: the layer of the report, with the sizes that it had there.
        example: the line under ``"example"`` in a counterexample.
        profile: brief, dev, ci or deep; it counts only for what a check measures whatever is drawn.

    Returns:
        The check: ``fail`` where the example fails again.

    Raises:
        InvalidInput: the example is no such line, the layer has no such width or variant, or this is no layer.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("quadratic-network")
        >>> nqf.replay(layer, "permutation-symmetry:width=3,weights=17").status
        'pass'
    """
    name, draw, seed = parse_example(example, CHECKS)
    effort = find_profile(profile)
    if not isinstance(layer, Layer):
        raise InvalidInput(f"replay expects an nqf.Layer, got {type(layer).__name__}{class_hint(layer)}.")
    with guarded(layer):
        cause, over = called(layer)
    wide = layer.resized(draw.width)
    if not cause and not over and wide.n_params * wide.width > LARGEST:
        over = too_many(wide)
    if over:
        return dataclasses.replace(not_begun(layer, name, over), promised=promises(layer, name))
    with guarded(layer):
        context = Single(layer, effort, seed, draw)
        if not cause:
            context.refuse_impossible()
        if not cause and name != ALWAYS[0]:
            # Whether the layer is a function is asked of the same example. Finiteness is tried of a noisy layer too, at a size
            # that follows from what was seen at every width.
            asked = Context(layer, effort, seed) if name == "finiteness" else context
            run_check(asked, ALWAYS[0], cause)
            context.facts.deterministic = asked.facts.deterministic
        check = run_check(context, name, cause)
    if context.too_narrow:
        raise InvalidInput(f"{layer.key}: {name} {context.too_narrow}; take an example that its failing report shows.")
    return dataclasses.replace(check, promised=promises(layer, name))
