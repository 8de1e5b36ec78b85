"""The catalogue as comma-separated values, one row an entry."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from nqf_registry.report import columns
from nqf_registry.report.columns import Facts
from nqf_registry.report.formula_text import text

HEAD = (
    "key", "title", "plugin", "distribution", "formula", "structure_formula", "f", "A", "blocks", "p", "outputs", "sizes",
    "passed", "classification", "leading_order", "remainder", "exact", "couplings", "inert", "rank", "signature", "form",
    "sparsity", "linear", "cross", "checks",
)  # fmt: skip


def csv_table(entries: Sequence[Facts]) -> str:
    """The whole file, lines ended by a newline alone.

    Args:
        entries: facts, in the order in which they are shown.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEAD)
    for facts in entries:
        writer.writerow([_cell(value) for value in _row(facts)])
    return out.getvalue()


def _row(facts: Facts) -> list[object]:
    structure = facts.get("structure", {})
    return [
        facts["key"],
        facts["title"],
        facts["plugin"],
        facts["distribution"],
        facts["formula"],
        facts["structure_formula"],
        text(facts["formula"]),
        text(facts["structure_formula"]),
        columns.blocks(facts),
        facts.get("p"),
        facts.get("outputs"),
        columns.sizes(facts),
        bool(facts.get("passed")),
        "" if facts.get("error") else facts.get("classification"),
        facts.get("leading_order"),
        facts.get("remainder"),
        columns.exact(facts),
        " ".join(structure.get("couplings", ())),
        " ".join(structure.get("inert", ())),
        columns.rank(facts),
        columns.signature(facts),
        columns.form(facts),
        structure.get("sparsity"),
        " ".join(structure.get("linear", ())),
        " ".join(structure.get("cross", ())),
        " ".join(f"{name}={check['status']}" for name, check in facts.get("checks", {}).items()),
    ]


def _cell(value: object) -> object:
    """A value as a spreadsheet may see it: text that would start a formula there gets an apostrophe in front."""
    if value is None:
        return ""
    if isinstance(value, str):
        line = " ".join(value.split())
        return f"'{line}" if line[:1] in ("=", "+", "-", "@") else line
    return value
