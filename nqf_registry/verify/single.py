"""A verification of one example: whatever a check asks to be drawn, it is given that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.context import Context
from nqf_registry.verify.drive import Measurement, Outcome, measure_one
from nqf_registry.verify.profiles import Profile
from nqf_registry.verify.strategies import Draw


class Single(Context):
    """A verification whose checks all measure the same example.

    Attributes:
        draw: the example.
        too_narrow: what a check needs that the example does not have; told afterwards, since an exception of a check is an
            undecided check.
    """

    def __init__(self, layer: Layer, profile: Profile, seed: int, draw: Draw) -> None:
        super().__init__(layer, profile, seed)
        self.draw = draw
        self.too_narrow = ""

    @classmethod
    def at(cls, context: Context, draw: Draw) -> Single:
        """One example of a verification under way, with what was measured at its inputs already."""
        single = cls(context.layer, context.profile, context.seed, draw)
        single._settings, single._measured, single._along = context._settings, context._measured, context._along
        single.facts.deterministic = context.facts.deterministic
        return single

    def refuse_impossible(self) -> None:
        """Refuses an example that the layer cannot have.

        Raises:
            InvalidInput: the layer has no such variant or width.
        """
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
