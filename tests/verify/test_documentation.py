"""What docs/verification.md says is what the code has."""

import inspect
import re
from pathlib import Path

import pytest

from nqf_registry.verify import residuals, tolerances
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.profiles import PROFILES
from nqf_registry.verify.report import STATUSES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "verification.md").read_text()


def test_the_tolerances_are_those_of_the_code():
    table = [line for line in tolerances.__doc__.splitlines() if line.startswith("|")]
    assert "\n".join(table) in PAGE
    named = dict(re.findall(r"^\| ([A-Z_]+) \| (\S+) \|", "\n".join(table), re.MULTILINE))
    assert named
    for name, value in named.items():
        assert getattr(tolerances, name) == float(value)
    assert set(re.findall(r"[A-Z][A-Z_]{3,}", re.search(r"## The nine checks.*?### ", PAGE, re.DOTALL)[0])) <= named.keys()


@pytest.mark.parametrize("names", [CHECKS, STATUSES], ids=["checks", "statuses"])
def test_each_has_a_row(names):
    rows = re.findall(r"^\| `([a-z-]+)` \|", PAGE, re.MULTILINE)
    assert [row for row in rows if row in names] == list(names)


def test_the_profiles_are_those_of_the_code():
    found = re.findall(r"^\| `(\w+)` \| [^|]+ \| (\d+) \| (\d+) \| (\d+) \|$", PAGE, re.MULTILINE)
    assert found == [(p.name, str(p.examples), str(p.settings), f"{p.seconds:g}") for p in PROFILES.values()]


def test_every_residual_has_a_row_with_its_arguments():
    section = re.search(r"^## The residuals by themselves\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)[1]
    shown = dict(re.findall(r"^\|[^|]*\| `(\w+)\((.*?)\)` \|", section, re.MULTILINE))
    assert shown.keys() | {"Setting", "Undecided"} == set(residuals.__all__)
    for name, arguments in shown.items():
        needed = [p.name for p in inspect.signature(getattr(residuals, name)).parameters.values() if p.default is p.empty]
        assert arguments.split(", ") == needed, name


def test_the_page_shows_the_example_test_file():
    block = re.search(r"^```python\n# test_gated_unit.py\n\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[1]
    assert block == (ROOT / "examples" / "test_gated_unit.py").read_text()
