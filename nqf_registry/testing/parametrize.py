"""``parametrize_with_checks``: every check of every layer as a test of its own."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, class_hint
from nqf_registry.testing.checks import checks_of
from nqf_registry.testing.expected import Expected, KnownFailure, read_expected
from nqf_registry.verify.profiles import find_profile
from nqf_registry.verify.suite import ALWAYS, SUITE


def parametrize_with_checks(
    layers: Iterable[Layer],
    expected_failures: Expected | None = None,
    profile: str = "ci",
    seed: int = 0,
    suite: str = SUITE,
) -> Callable[[Any], Any]:
    """A pytest decorator: the test function is called with ``layer`` and ``check``, once for each check of each layer.

    An expected failure is shown as xfail; where that is determinism, so are the checks that are not tried because of it. One
    that passes fails the test, which says to remove it; so does a pinned example that no longer fails.

    Args:
        layers: instances.
        expected_failures: ``{key: {check: reason}}``, or an :class:`~nqf_registry.testing.ExpectedFailure` with a reason and a
            pinned example instead of the reason.
        profile: brief, dev, ci or deep.
        seed: of all draws.
        suite: version of the suite of checks that the tests were written for.

    Raises:
        InvalidInput: no layer was given, an expected failure names a check or a layer that there is none of or gives no
            reason, or the library has another suite.
    """
    import pytest

    if isinstance(layers, Layer) or not isinstance(layers, Iterable):
        raise InvalidInput(f"parametrize_with_checks takes a list of layers, got {layers!r}; write [layer].")
    find_profile(profile)
    layers = list(layers)
    if not layers:
        raise InvalidInput("parametrize_with_checks needs at least one layer; with none, nothing would be tested.")
    for layer in layers:
        if not isinstance(layer, Layer):
            raise InvalidInput(f"parametrize_with_checks expects instances of nqf.Layer, got {layer!r}{class_hint(layer)}.")
    keys = [layer.key for layer in layers]
    expected = read_expected(expected_failures, keys)
    counts = Counter(keys)
    parameters = []
    if len({f"{layer.key}({_sizes(layer)})" for layer in layers}) < len(layers):
        raise InvalidInput("parametrize_with_checks was given one layer twice; leave one out.")
    for layer in layers:
        name = layer.key if counts[layer.key] == 1 else f"{layer.key}({_sizes(layer)})"
        for check in checks_of(layer, profile, seed, suite, expected.get(layer.key)):
            marks = []
            if check.expected is not None:
                marks.append(pytest.mark.xfail(reason=check.expected.reason, raises=KnownFailure, strict=True))
            elif check.may_be_excused:  # not strict: that it is tried again is told by the check that kept it from it
                reason = check.others[ALWAYS[0]].reason
                marks.append(pytest.mark.xfail(reason=reason, raises=KnownFailure, strict=False))
            parameters.append(pytest.param(layer, check, id=f"{name}-{check.name}", marks=marks))
    return pytest.mark.parametrize(("layer", "check"), parameters)


def _sizes(layer: Any) -> str:
    """The fields of a layer, which tell two of one key apart in the name of a test."""
    return ",".join(f"{field.name}={getattr(layer, field.name)}" for field in dataclasses.fields(layer))
