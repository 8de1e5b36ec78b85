"""The examples in the docstrings of the library, each run as it stands."""

import doctest
from importlib import import_module
from pkgutil import walk_packages

import pytest

import nqf_registry

MODULES = sorted(
    module.name for module in walk_packages(nqf_registry.__path__, "nqf_registry.") if "__main__" not in module.name
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, _ = doctest.testmod(module, optionflags=flags)
    assert failed == 0, f"{failed} examples of {name} fail; python -m doctest shows them"
