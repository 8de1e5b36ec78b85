"""The rows of the catalogue: what is declared, measured and found of each entry, facts apart from digits.

A fact is the same on every machine: a name, a whole number, a status, a bound that was met. Digits of residuals and slopes with
what produced them (seed, versions, profile) are measurements; they are written beside the facts and never compared.
"""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import nqf_registry
from nqf_registry.errors import NQFError, StorageError, named
from nqf_registry.layer import Layer, declares
from nqf_registry.registry import Entry, Registry
from nqf_registry.report.csv_table import csv_table
from nqf_registry.report.html_page import html_page
from nqf_registry.report.json_files import facts_text, measurements_text
from nqf_registry.report.latex import latex
from nqf_registry.report.markdown import markdown
from nqf_registry.report.picture import caption, picture_of, svg
from nqf_registry.report.structure_facts import SEED, fingerprint, fixed_weights, general_facts, samples_of, structure_facts
from nqf_registry.report.structure_text import structure_lines
from nqf_registry.report.verification import Verified, facts_of_report, measurements_of_report, verify_layers

_OPTIONAL = ("structure", "linear", "cross", "offset", "unit", "pullback", "variants")


@dataclass(frozen=True)
class Row:
    """One entry: its facts, its measurements, and the SVG of A(x) with its caption, None where it cannot be drawn."""

    facts: dict[str, Any]
    measurements: dict[str, Any]
    picture: tuple[str, str] | None


@dataclass(frozen=True)
class Catalogue:
    """All rows, sorted by key, and the settings they were measured with."""

    rows: tuple[Row, ...]
    settings: dict[str, Any]

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The facts of every row."""
        return [row.facts for row in self.rows]

    @property
    def passed(self) -> bool:
        """Whether every entry passes its verification."""
        return all(row.facts["passed"] for row in self.rows)

    def files(self) -> dict[str, str]:
        """Every file of the catalogue: name and text."""
        return {
            **tables(self.entries),
            "catalogue.json": facts_text(self.entries),
            "measurements.json": measurements_text(
                {"settings": self.settings, "entries": {row.facts["key"]: row.measurements for row in self.rows}}
            ),
            "catalogue.html": html_page(self.entries, {row.facts["key"]: row.picture for row in self.rows if row.picture}),
        }

    def write(self, folder: Path) -> list[Path]:
        """Writes every file, each whole or not at all.

        Raises:
            StorageError: the folder cannot be written.
        """
        return [write_text(folder / name, text) for name, text in sorted(self.files().items())]


def tables(entries: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The files that hold facts alone, so that a committed one can be held against the committed facts."""
    return {"catalogue.md": markdown(entries), "catalogue.tex": latex(entries), "catalogue.csv": csv_table(entries)}


def write_text(path: Path, text: str) -> Path:
    """Writes one file by way of a temporary one beside it.

    Raises:
        StorageError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8", newline="\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}; choose another folder with --out."
        ) from error
    return path


def build(
    registry: Registry,
    keys: Sequence[str] | None = None,
    profile: str = "ci",
    verification: Callable[..., Mapping[str, Verified]] = verify_layers,
) -> Catalogue:
    """Measures entries and gathers their rows.

    Args:
        registry: where the entries are.
        keys: which; all by default.
        profile: how much the verifier does, "dev" or "ci".
        verification: takes layers and a profile, gives by key a report or the error that kept it from one.

    Returns:
        The catalogue. An entry that cannot be made, measured or verified has a row that says so.

    Raises:
        NQFError: a key is unknown or contested.
    """
    known = {entry.key: entry for entry in registry.entries()}
    for key in keys or ():
        registry.layer_class(key)
    wanted = sorted(set(keys) if keys else known)
    layers: dict[str, Layer | BaseException] = {}
    for key in wanted:
        try:
            layers[key] = registry.get(key)
        except (Exception, SystemExit) as error:
            layers[key] = error
    found = verification([layer for layer in layers.values() if isinstance(layer, Layer)], profile)
    rows = tuple(row_of(known[key], layer, found.get(key)) for key, layer in layers.items())
    return Catalogue(rows, _settings(profile))


def row_of(entry: Entry, layer: Layer | BaseException, verified: Verified | None) -> Row:
    """The row of one entry.

    Args:
        entry: whose it is.
        layer: the layer, or what making it raised.
        verified: its report, or what kept it from one.
    """
    facts: dict[str, Any] = {
        "key": entry.key,
        "title": entry.title,
        "plugin": entry.plugin if entry.distribution else Path(entry.plugin).name,  # a file's folder is this machine's business
        "distribution": entry.distribution,
        "formula": "",
        "structure_formula": "",
        "passed": False,
        "error": None,
    }
    measurements: dict[str, Any] = {"version": entry.version}
    picture = None
    if not isinstance(layer, Layer):
        facts["error"] = named(layer)
        return Row(facts, measurements, None)
    try:
        facts |= _declared(layer)
        facts |= _measured(layer)
        picture = _picture(layer)
    except (Exception, SystemExit) as error:  # a plugin's code may raise anything; the other rows must not suffer
        facts["error"] = named(error)
    if verified is None or verified.report is None:
        why = verified.error if verified else None
        facts["error"] = facts["error"] or why or "its verification gave no report"
    else:
        facts |= facts_of_report(verified.report)
        if verified.report.classification == "not-smooth":  # what autodiff or the author says of A there was not measured
            facts |= {"structure": {"declared": declares(layer, "structure"), "smooth": False}, "structure_lines": []}
            picture = None
        elif verified.report.classification == "general-nqf" and "structure" in facts:
            facts["structure"] = {**facts["structure"], **general_facts(layer)}
        facts["passed"] = facts["passed"] and facts["error"] is None
        measurements |= measurements_of_report(verified.report)
    return Row(facts, measurements, picture)


def _declared(layer: Layer) -> dict[str, Any]:
    """What the layer says of itself."""
    fields = dataclasses.fields(layer)  # type: ignore[arg-type]
    return {
        "title": str(layer.title),
        "formula": str(layer.formula),
        "structure_formula": str(layer.structure_formula),
        "references": [_reference(reference) for reference in layer.references],
        "convention": str(layer.convention),
        "notes": str(layer.notes),
        "claims": dataclasses.asdict(layer.claims),
        "sizes": {field.name: _plain(getattr(layer, field.name)) for field in fields},
        "width_fixed": not any(field.name == "width" and field.init for field in fields),
        "declares": [name for name in _OPTIONAL if declares(layer, name)],
    }


def _reference(reference: Any) -> dict[str, Any]:
    if dataclasses.is_dataclass(reference) and not isinstance(reference, type):
        return {name: _plain(value) for name, value in dataclasses.asdict(reference).items()}
    return {"authors": "", "title": str(reference), "year": "", "venue": "", "arxiv": "", "doi": ""}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def _measured(layer: Layer) -> dict[str, Any]:
    """What the layer's own samples show."""
    with torch.no_grad():
        values = layer(fixed_weights(layer), samples_of(layer, 3))
    return {
        "blocks": {name: list(shape) for name, shape in layer.blocks().items()},
        "p": layer.n_params,
        "outputs": layer.n_outputs(),
        "ports": {name: {"shape": list(port.shape), "integer": port.integer} for name, port in layer.ports().items()},
        "structure": _jsonable(structure_facts(layer)),
        "structure_lines": structure_lines(layer),
        "fingerprint": fingerprint(values),
    }


def _jsonable(value: Any) -> Any:
    """Tuples as JSON gives them back, so that facts in memory equal facts in a file."""
    if isinstance(value, dict):
        return {name: _jsonable(v) for name, v in value.items()}
    return [_jsonable(v) for v in value] if isinstance(value, list | tuple) else value


def _picture(layer: Layer) -> tuple[str, str] | None:
    try:
        picture = picture_of(layer)
    except NQFError:
        return None  # too large or not finite: the facts say so
    line = caption(layer, picture)
    return svg(picture, line), line


def _settings(profile: str) -> dict[str, Any]:
    return {
        "profile": profile,
        "seed": SEED,
        "nqf_registry": nqf_registry.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
