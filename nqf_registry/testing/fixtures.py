"""Fixtures for pytest. A plugin's ``conftest.py`` takes them by ``from nqf_registry.testing.fixtures import *``."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from nqf_registry.testing.distributions import fake_distribution

__all__ = ["install_distribution"]


@pytest.fixture
def install_distribution(tmp_path: Path) -> Iterator[Callable[..., Path]]:
    """Lets distributions seem to be installed for one test.

    ``install_distribution(name, modules={...}, entry_points={...}, version="1.0", group="nqf_registry.plugins")`` takes what
    :func:`~nqf_registry.testing.fake_distribution` takes, but the folder, and returns the folder, ``tmp_path / "site"``.
    """
    with contextlib.ExitStack() as stack:

        def install(
            name: str,
            modules: Mapping[str, str | os.PathLike[str]] | None = None,
            entry_points: Mapping[str, str] | None = None,
            **options: str,
        ) -> Path:
            fake = fake_distribution(tmp_path / "site", name, modules=modules, entry_points=entry_points, **options)
            return stack.enter_context(fake)

        yield install
