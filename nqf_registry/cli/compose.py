"""``nqf compose``: checks a composition file, shows its nodes, and draws it."""

from typing import TYPE_CHECKING, Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, print_table
from nqf_registry.registry import Registry

if TYPE_CHECKING:
    from nqf_registry.compose.facts import Row
    from nqf_registry.compose.graph import Composition
    from nqf_registry.layer import Layer, Port
    from nqf_registry.verify.report import Report


@click.command("compose")
@click.argument("file", type=click.Path())
@click.option("--draw", "picture", type=click.Path(), metavar="PATH", help="Draw the graph into this .svg, .png or .pdf file.")
@json_option
@plugin_option
@pass_registry
def command(registry: Registry, file: str, picture: str | None, as_json: bool) -> None:
    """Check the composition in FILE and show its nodes: kind, form, ports and shapes, d, p and parameters.

    Each layer that has not been verified before is verified now, in the fast profile, and its verdict shown.
    """
    from nqf_registry.compose.facts import rows_of
    from nqf_registry.compose.spec import load_composition

    if picture is not None:
        from nqf_registry.compose.drawing import check_format

        check_format(picture)
    composition = load_composition(file, registry)
    rows = rows_of(composition)
    reports = _reports(composition)
    if picture is not None:
        from nqf_registry.compose.drawing import draw

        draw(composition, picture, {name: f"verified: {report.kind}" for name, report in reports.items() if report.passed})
    if as_json:
        print_json(_as_json(composition, rows, reports))
        return
    count = f"{len(composition.nodes)} nodes, {composition.n_weights:,} weights"
    click.echo(f"{composition.key}: {count}, output {composition.output}")
    click.echo()
    print_table([("node", "kind", "form", "reads", "gives", "d", "p", "weights"), *map(_as_line, rows)])
    click.echo()
    for line in dict.fromkeys(report.line() for report in reports.values()):
        click.echo(line)
    if picture is not None:
        click.echo(f"drawing: {picture}")


def _reports(composition: "Composition") -> "dict[str, Report]":
    """The verdict on each node's layer; equal layers are asked about once."""
    from nqf_registry.verify.verdict import verdict

    said: dict[Layer, Report] = {}
    for layer in composition.layers().values():
        if layer not in said:
            said[layer] = verdict(layer)
    return {name: said[layer] for name, layer in composition.layers().items()}


def _as_line(row: "Row") -> tuple[str, ...]:
    reads = ", ".join(f"{f'{feed.port}: ' if row.key else ''}{feed.source} {feed.given}" for feed in row.feeds)
    if row.residual:
        reads += f"; + {row.residual}"
    numbers = (f"{row.width:,}", f"{row.n_params:,}", f"{row.n_weights:,}") if row.key else ("", "", "")
    return (row.name, row.key or row.kind, row.form, reads, str(row.given), *numbers)


def _as_json(composition: "Composition", rows: "list[Row]", reports: "dict[str, Report]") -> dict[str, Any]:
    nodes = []
    for row in rows:
        report = reports.get(row.name)
        nodes.append(
            {
                "node": row.name,
                "kind": row.kind,
                "layer": row.key or None,
                "form": row.form or None,
                "ports": {feed.port: {"from": feed.source, **_shape(feed.given)} for feed in row.feeds},
                "residual": row.residual or None,
                **_shape(row.given),
                "width": row.width,
                "n_params": row.n_params,
                "weights": row.n_weights,
                "verdict": report and {"passed": report.passed, "classification": report.classification, "line": report.line()},
            }
        )
    return {"name": composition.key, "output": composition.output, "weights": composition.n_weights, "nodes": nodes}


def _shape(port: "Port") -> dict[str, Any]:
    return {"shape": list(port.shape), "integer": port.integer}
