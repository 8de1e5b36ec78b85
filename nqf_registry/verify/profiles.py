"""How much is measured: dev at the desk and at first use, ci in a pipeline, deep before a release."""

from __future__ import annotations

from dataclasses import dataclass

from nqf_registry.errors import InvalidInput


@dataclass(frozen=True)
class Profile:
    """One level of effort.

    Attributes:
        name: dev, ci or deep.
        examples: random examples of each check.
        settings: different inputs drawn for each width; what is expensive (second derivatives) is measured once for each.
        seconds: time after which a check stops drawing; what it had by then counts.
    """

    name: str
    examples: int
    settings: int
    seconds: float


PROFILES = {
    "dev": Profile("dev", 8, 2, 4.0),
    "ci": Profile("ci", 24, 4, 20.0),
    "deep": Profile("deep", 200, 24, 600.0),
}


def find_profile(name: str) -> Profile:
    """The profile of this name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in PROFILES:
        raise InvalidInput(f"profile must be one of {', '.join(PROFILES)}; got {name!r}.")
    return PROFILES[name]
