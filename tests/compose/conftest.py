"""A registry of the small layers of this folder."""

from pathlib import Path

import pytest

import nqf_registry as nqf

SMALL_LAYERS = Path(__file__).with_name("small_layers.py")


@pytest.fixture(scope="session")
def small_layers():
    """The plugin file of the small layers."""
    return SMALL_LAYERS


@pytest.fixture(scope="session")
def shelf():
    """A registry of the small layers alone."""
    return nqf.Registry.load(plugins=[SMALL_LAYERS], entry_points=False)
