"""``nqf show``: one layer, what it says of itself and what was measured."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, resolve_layer, size_option
from nqf_registry.registry import Registry

if TYPE_CHECKING:
    from nqf_registry.report.catalogue import Row


@click.command("show")
@click.argument("key")
@click.option(
    "--picture", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw A(x) to a .png or .svg file."
)
@size_option
@json_option
@plugin_option
@pass_registry
def command(registry: Registry, key: str, picture: Path | None, sizes: tuple[str, ...], as_json: bool) -> None:
    """Show the layer KEY: formulas, blocks, claims, convention, sources, the form of A(x), and the verdict.

    A layer that was never verified is verified now; the verdict is kept until its source changes.
    """
    from nqf_registry.report.catalogue import row_of
    from nqf_registry.report.picture import checked_suffix, write_picture
    from nqf_registry.report.verification import first_use

    if picture:
        checked_suffix(picture)
    layer = resolve_layer(registry, key, sizes)
    entry = next(entry for entry in registry.entries() if entry.key == key)
    row = row_of(entry, layer, first_use(layer))
    drawn = write_picture(layer, picture) if picture else None
    if as_json:
        print_json({**row.facts, "measurements": row.measurements, "picture": str(drawn) if drawn else None})
        return
    for line in _lines(row):
        click.echo(line)
    if drawn:
        click.echo(f"\nA(x) is drawn in {drawn}")


def _lines(row: Row) -> list[str]:
    """The page of one layer, in words."""
    from nqf_registry.report import columns
    from nqf_registry.report.formula_text import text

    facts = row.facts
    structure = facts.get("structure", {})
    lines = [f"{facts['title'] or facts['key']}  ({facts['key']}, from {facts['distribution'] or facts['plugin']})", ""]
    if facts["formula"]:
        lines.append(f"  {text(facts['formula'])}")
    if facts["structure_formula"]:
        lines.append(f"  {text(facts['structure_formula'])}")
    pairs: list[tuple[str, Any]] = [
        ("neuron", f"{columns.blocks(facts)}; p = {facts.get('p', '?')}"),
        ("inputs", _ports(facts)),
        ("outputs", facts.get("outputs", "?")),
        ("sizes", columns.sizes(facts)),
        ("claims", ", ".join(name for name, value in facts.get("claims", {}).items() if value) or "nothing"),
        ("verdict", columns.verdict(facts)),
        ("remainder", columns.remainder(facts)),
    ]
    lines += ["", *_columns(pairs), "", "A(x)"]
    lines += [f"  {line}" for line in facts.get("structure_lines", ())]
    measured = [("couples", columns.couplings(facts)), ("inert", columns.inert(facts)), ("rank", columns.rank(facts)),
                ("signature", columns.signature(facts)), ("form", columns.form(facts))]  # fmt: skip
    if "sparsity" in structure:
        measured.append(("zero entries", f"{structure['sparsity']:.1%}"))
    lines += _columns(measured)
    if facts.get("checks"):
        lines += ["", "checks", *_columns([(name, columns.check_line(check)) for name, check in facts["checks"].items()])]
    for name in ("convention", "notes"):
        if facts.get(name):
            lines += ["", name, *_wrapped(facts[name])]
    if facts.get("references"):
        lines += ["", "sources"]
        for reference in facts["references"]:
            lines += _wrapped(columns.reference_text(reference))
    return lines


def _ports(facts: dict[str, Any]) -> str:
    return ", ".join(
        f"{name} ({', '.join(['n', *map(str, port['shape'])])}){' integer' if port['integer'] else ''}"
        for name, port in facts.get("ports", {}).items()
    )


def _columns(pairs: list[tuple[str, Any]]) -> list[str]:
    shown = [(name, str(value)) for name, value in pairs if str(value)]
    width = max((len(name) for name, _ in shown), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in shown]


def _wrapped(paragraph: str) -> list[str]:
    from textwrap import wrap

    return wrap(paragraph, 108, initial_indent="  ", subsequent_indent="    ")
