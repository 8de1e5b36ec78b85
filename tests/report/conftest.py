import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from nqf_registry.registry import Entry


@pytest.fixture(scope="session")
def layers():
    spec = importlib.util.spec_from_file_location("report_layers", Path(__file__).with_name("layers.py"))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def facts(layers):
    """Facts of the plain and the hostile layer, with a verdict made up, so that no verification runs."""
    from nqf_registry.report.catalogue import row_of

    found = []
    for layer in (layers.Hostile(), layers.Plain()):
        entry = Entry(layer.key, layer.title, f"/somewhere/{layer.key}.py", "", "", "")
        row = row_of(entry, layer, None)
        found.append({**row.facts, "error": None, "passed": True, "classification": "exact-nqf", "leading_order": 2,
                      "remainder": "exact", "checks": {"structure-matrix": {"status": "pass", "bound": "≤ 1e-10"},
                                 "minimality": {"status": "vacuous", "bound": None}}})  # fmt: skip
    return found


@pytest.fixture
def namespace():
    return SimpleNamespace
