"""How much is measured: brief where a call takes long, dev at the desk, ci in a pipeline, deep before a release."""

from __future__ import annotations

from dataclasses import dataclass

from nqf_registry.errors import InvalidInput


@dataclass(frozen=True)
class Profile:
    """One level of effort.

    Attributes:
        name: brief, dev, ci or deep.
        examples: random examples of each check, beyond one at every width that is always measured.
        settings: different inputs drawn for each width; what is expensive (second derivatives) is measured once for each.
        seconds: CPU time of the process after which a check stops drawing: a guard against a layer that takes for ever, far
            above what the examples take. How much is measured is counted, so that a report does not depend on the machine;
            a check that this guard did stop says so.
    """

    name: str
    examples: int
    settings: int
    seconds: float


PROFILES = {
    "brief": Profile("brief", 0, 1, 120.0),
    "dev": Profile("dev", 8, 2, 30.0),
    "ci": Profile("ci", 24, 4, 120.0),
    "deep": Profile("deep", 200, 24, 1800.0),
}


def find_profile(name: str) -> Profile:
    """The profile of this name.

    Raises:
        InvalidInput: there is none.
    """
    if name not in PROFILES:
        raise InvalidInput(f"profile must be one of {', '.join(PROFILES)}; got {name!r}.")
    return PROFILES[name]
