"""What a verification will take, estimated before it begins, and the budget that it must keep to.

The checks call a layer a number of times that follows from the profile and from how many widths there are, at about a hundred
points each. So a call at one point and one at a few more, timed, tell how long all of them will take, within a factor of three.
What fails takes longer than estimated: it is shrunk.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.context import Context
from nqf_registry.verify.first_call import POINTS as BATCH
from nqf_registry.verify.first_call import TooLarge, first_call
from nqf_registry.verify.guard import contained, guarded
from nqf_registry.verify.matrix_free import dense_bytes, too_large
from nqf_registry.verify.profiles import Profile, find_profile
from nqf_registry.verify.setting import Setting

SAMPLES = 4  # as most checks take
LONG = 10.0  # seconds from which on the command line says beforehand what it will take
SLOW = 0.5  # seconds of a call from which on it is timed at fewer points
PATIENCE = 5.0  # seconds after which a call is not timed again

# Counted over the seventeen at profiles dev, ci and deep: for each width always measured, and for each example drawn.
CALLS = (22, 21)
POINTS = (2600, 1900)
FIXED = 0.45  # a layer of one width skips the checks that need two
OVERHEAD = 1.4e-3  # seconds a call that the checks take themselves
UNCERTAIN = 3  # the factor that the estimate may be off by
SHARE = 0.6  # inputs that are expanded, for each example of a check
PASSES = 3  # calls that a row of the dense second derivatives takes, by two modes of autodiff


@dataclass(frozen=True)
class Estimate:
    """What a verification will take.

    Attributes:
        seconds: on one core, within a factor of three as long as nothing fails.
        bytes: of the largest arrays that the checks make; what the layer makes in between comes on top.
    """

    seconds: float
    bytes: int

    def __str__(self) -> str:
        return f"about {spoken(self.seconds)} and {self.bytes / 2**20:.0f} MiB"


def estimate(layer: Layer, profile: str = "dev") -> Estimate | None:
    """Times a few calls of a layer, with everything around it left as it was, and multiplies.

    Args:
        layer: any layer.
        profile: brief, dev, ci or deep.

    Returns:
        What ``verify`` will take; None for a layer that cannot be evaluated, or that is over the budget of memory: of these
        little is measured.

    Raises:
        InvalidInput: the profile is unknown.

    Example:
        >>> import nqf_registry as nqf
        >>> found = estimate(nqf.default_registry().get("quadratic-network"), "ci")
        >>> 0.1 < found.seconds < 60, found.bytes
        (True, 69632)
    """
    effort = find_profile(profile)
    with guarded(layer):
        try:
            return None if first_call(layer) else timed(Context(layer, effort, 0))
        except TooLarge:
            return None


def timed(context: Context) -> Estimate | None:
    """The estimate of a verification under way."""
    layer, profile = context.layer, context.profile
    widths = len(context.widths()) + len(context.instances) - 1
    try:
        with contained():
            setting = Setting(layer, layer.sample(SAMPLES, torch.Generator().manual_seed(0)))
            weights = torch.randn(16, setting.p, setting.d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
            one = _seconds(lambda: setting.values(weights[:1]))
            more = len(weights) if one < SLOW else 4
            several = _seconds(lambda: setting.values(weights[:more]))
            dense = 0 if too_large(setting) else dense_bytes(setting)
    except Exception:  # a check will meet it again, and say what it was
        return None
    share = FIXED if widths == 1 else 1.0
    calls = CALLS[0] * widths + CALLS[1] * profile.examples * share
    points = POINTS[0] * widths + POINTS[1] * profile.examples * share
    seconds = calls * (one + OVERHEAD) + points * max(0.0, several - one) / (more - 1)
    if dense:
        expanded = min(widths * profile.settings, widths + SHARE * profile.examples)
        seconds += expanded * setting.p * PASSES * one
    return Estimate(seconds, max(8 * BATCH * setting.p * setting.d, dense))


def too_long(found: Estimate | None, seconds: float) -> str:
    """Why a verification is not begun; "" where it keeps to its budget of time."""
    if found is None or found.seconds <= seconds:
        return ""
    return (
        f"it would take about {spoken(found.seconds)} and its budget is {spoken(seconds)}, so nothing was measured. Give it "
        "more by --seconds (in Python seconds=), or verify the layer at smaller sizes."
    )


def budget_of(profile: Profile, seconds: float | None) -> float:
    """The seconds that a verification may take; where none are given, so many that the estimate leaves no doubt.

    Raises:
        InvalidInput: they are no positive number.
    """
    if seconds is None:
        return UNCERTAIN * profile.seconds * len(CHECKS)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        raise InvalidInput(f"seconds is how long a verification may take, a positive number; got {seconds!r}.")
    return float(seconds)


def spoken(seconds: float) -> str:
    """A duration with two digits, in the unit that one would say it in.

    >>> [spoken(s) for s in (0.04, 7.26, 95, 5000, 200000)]
    ['0.04 s', '7.3 s', '1.6 min', '83 min', '56 h']
    """
    for unit, size in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{float(f'{seconds / size:.2g}'):g} {unit}"
    return f"{float(f'{seconds:.2g}'):g} s"


def _seconds(call: Callable[[], Any]) -> float:
    """How long a call takes, the shortest of three; a slow one is not made again.

    Not of as many as fit some time: how often a layer was called must not depend on the machine, since one that counts its
    calls is reported by what they gave.
    """
    times: list[float] = []
    while len(times) < 3 and sum(times) < PATIENCE:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)
