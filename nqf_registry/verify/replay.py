"""One example again: the line that a counterexample carries, and the check that measures exactly that."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome, measure_one
from nqf_registry.verify.examples import parse_example
from nqf_registry.verify.guard import guarded
from nqf_registry.verify.profiles import find_profile
from nqf_registry.verify.report import Check
from nqf_registry.verify.strategies import Draw
from nqf_registry.verify.suite import ALWAYS, called, not_begun, promises, run_check


def replay(layer: Layer, example: str, profile: str = "dev") -> Check:
    """Measures one example again, with the check that it names.

    Nothing is drawn and nothing is shrunk, so a counterexample that a report shows comes out as it was.

    Args:
        layer: the layer of the report, with the sizes that it had there.
        example: the line under ``"example"`` in a counterexample.
        profile: dev, ci or deep; it counts only for what a check measures whatever is drawn.

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
        hint = "; pass an instance, not the class" if isinstance(layer, type) else ""
        raise InvalidInput(f"replay expects an nqf.Layer, got {type(layer).__name__}{hint}.")
    with guarded(layer):
        cause, over = called(layer)
    if over:
        return dataclasses.replace(not_begun(layer, name, over), promised=promises(layer, name))
    with guarded(layer):
        context = _Replayed(layer, effort, seed, draw)
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
        raise InvalidInput(f"{name} {context.too_narrow}.")
    return dataclasses.replace(check, promised=promises(layer, name))


class _Replayed(Context):
    """A verification of one example: whatever a check asks to be drawn, it is given that."""

    def __init__(self, layer: Layer, profile: Any, seed: int, draw: Draw) -> None:
        super().__init__(layer, profile, seed)
        self.draw = draw
        self.too_narrow = ""  # told afterwards: an exception of a check is an undecided check

    def refuse_impossible(self) -> None:
        """Raises where the layer has no such variant or width."""
        if self.draw.instance >= len(self.instances):
            variants = len(self.instances) - 1
            raise InvalidInput(
                f"{self.layer.key} has {variants or 'no'} variants, so instance must be "
                f"{f'between 0 and {variants}' if variants else '0'}; got {self.draw.instance}."
            )
        width = self.instance(self.draw).width
        if width != self.draw.width:
            raise InvalidInput(f"the width of {self.layer.key} is fixed at {width}; got width={self.draw.width}.")

    def run(self, measure: Callable[[Draw], Measurement | None], *, least: int = 1, **_: Any) -> Outcome:
        """Measures the one example."""
        if self.draw.width < least:
            self.too_narrow = f"needs a width of at least {least}, got width={self.draw.width}"
            return Outcome()
        return measure_one(measure, self.draw, self.tell)
