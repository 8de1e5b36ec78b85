"""The catalogue as one page that needs nothing else: no network, no script, no font; light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from typing import Any

from nqf_registry.report import columns
from nqf_registry.report.columns import Facts
from nqf_registry.report.formula import FormulaError
from nqf_registry.report.formula_mathml import mathml
from nqf_registry.report.formula_text import text
from nqf_registry.report.summary import GENERAL, summary

STATUS_MARKS = {"pass": "✓", "fail": "✗", "observed": "◦", "vacuous": "∅", "not-applicable": "–", "undecided": "?"}

_CLAIMS = {"zgz": "zero gradient at zero", "symmetric": "permutation symmetric"}


def html_page(entries: Sequence[Facts], pictures: Mapping[str, tuple[str, str]]) -> str:
    """The whole page.

    Args:
        entries: facts, in the order in which they are shown.
        pictures: by key, the SVG of A(x) and the line that says what it shows; an entry may have none.
    """
    return _template().render(
        entries=[_view(facts, pictures.get(facts["key"])) for facts in entries],
        count=len(entries),
        summary=summary(entries),
        passed=sum(bool(facts.get("passed")) for facts in entries),
        exact=sum(columns.exact(facts) == "yes" for facts in entries),
        css=_read("catalogue.css"),
    )


@lru_cache(maxsize=1)
def _template() -> Any:
    # jinja2 is imported here: the command line imports this module to write, not to print help.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(_read("catalogue.html.j2"))


def _read(name: str) -> str:
    return (files("nqf_registry.report") / name).read_text(encoding="utf-8")


def _view(facts: Facts, picture: tuple[str, str] | None) -> dict[str, Any]:
    """What the template shows of one entry; only markup made by this library is marked as such."""
    from markupsafe import Markup

    return {
        "key": facts["key"],
        "title": facts["title"] or facts["key"],
        "source": facts["distribution"] or facts["plugin"],
        "formula": _formula(facts["formula"], True),
        "structure_formula": _formula(columns.structure_formula(facts), True),
        "general_formula": _formula(GENERAL, True) if columns.is_general(facts) else None,
        "smooth": columns.has_structure(facts),
        "small_formula": _formula(facts["formula"], False),
        "small_structure": _formula(columns.structure_formula(facts), False),
        "plain": text(facts["formula"]),
        "passed": bool(facts.get("passed")),
        "verdict": columns.verdict(facts),
        "class": "good" if facts.get("passed") else "bad",
        "exact": columns.exact(facts),
        "remainder": columns.remainder(facts),
        "lines": facts.get("structure_lines", []),
        "facts": _facts(facts),
        "form": columns.form(facts),
        "sizes": columns.sizes(facts),
        "claims": [_CLAIMS.get(name, name.replace("_", " ")) for name, value in facts.get("claims", {}).items() if value],
        "checks": [
            (name, check["status"], STATUS_MARKS.get(check["status"], "?"), check.get("bound") or "")
            for name, check in facts.get("checks", {}).items()
        ],
        "convention": facts.get("convention", ""),
        "notes": facts.get("notes", ""),
        "references": [_reference(reference) for reference in facts.get("references", ())],
        "picture": Markup(picture[0]) if picture else None,
        "caption": picture[1] if picture else "",
    }


def _facts(facts: Facts) -> list[tuple[str, object]]:
    """Names and values of what was counted; nothing of A where the layer has none."""
    structure = facts.get("structure", {})
    found: list[tuple[str, object]] = [
        ("neuron", columns.blocks(facts) or "?"),
        ("p", facts.get("p", "?")),
        ("outputs", facts.get("outputs", "?")),
    ]
    if columns.has_structure(facts):
        found += [
            ("A couples" if columns.is_general(facts) else "couples", columns.couplings(facts)),
            ("inert", columns.inert(facts)),
            ("rank", columns.rank(facts)),
            ("signature", columns.signature(facts)),
            ("zero entries", f"{structure['sparsity']:.0%}" if "sparsity" in structure else "?"),
        ]
    if columns.is_general(facts):
        found += [("g is not zero in", columns.linear(facts)), ("B couples", columns.cross(facts))]
    return found


def _formula(latex: str, display: bool) -> Any:
    """MathML, or None and the text as typed."""
    from markupsafe import Markup

    line = " ".join(str(latex).split())
    try:
        return Markup(mathml(line, display)), line
    except FormulaError:
        return None, line


def _reference(reference: Mapping[str, Any]) -> tuple[str, str]:
    """The text of a reference and the address it links to; an identifier that is none of arXiv's or DOI's form gets no link."""
    import re

    arxiv, doi = str(reference.get("arxiv") or ""), str(reference.get("doi") or "")
    address = ""
    if re.fullmatch(r"\d{4}\.\d{4,5}|[a-z-]+(\.[A-Z]{2})?/\d{7}", arxiv):
        address = f"https://arxiv.org/abs/{arxiv}"
    elif re.fullmatch(r"10\.\d{4,9}/[-._;()/:A-Za-z0-9]+", doi):
        address = f"https://doi.org/{doi}"
    return columns.reference_text(reference), address
