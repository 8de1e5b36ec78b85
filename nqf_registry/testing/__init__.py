"""For the tests of plugins: the verifier's checks as tests, expected failures, and distributions that seem to be installed.

In a plugin's own test file::

    from my_plugin import MyLayer
    from nqf_registry.testing import parametrize_with_checks


    @parametrize_with_checks([MyLayer()])
    def test_my_layer(layer, check):
        check(layer)

Every name is imported at its first use: :func:`assert_passes` needs no pytest, and :func:`fake_distribution` neither pytest,
torch nor hypothesis.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_EXPORTS = {
    "ExpectedFailure": "nqf_registry.testing.expected",
    "KnownFailure": "nqf_registry.testing.expected",
    "LayerCheck": "nqf_registry.testing.checks",
    "SUITE": "nqf_registry.verify.suite",
    "assert_passes": "nqf_registry.testing.runner",
    "checks_of": "nqf_registry.testing.checks",
    "fake_distribution": "nqf_registry.testing.distributions",
    "parametrize_with_checks": "nqf_registry.testing.parametrize",
}

__all__ = sorted(_EXPORTS)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTS[name]), name)


def __dir__() -> list[str]:
    return __all__
