"""``nqf plugins``: every plugin, what it registers, and what is wrong with those that failed."""

from typing import Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json
from nqf_registry.registry import Registry


@click.command("plugins")
@json_option
@plugin_option
@pass_registry
def command(registry: Registry, as_json: bool) -> None:
    """List every plugin with its status: ok, contested, or failed with the stage and the exception.

    Unlike the other listings this one imports every plugin, so that a plugin whose dependencies have gone is found out.
    """
    registry.import_all()
    rows = _rows(registry)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        distribution = " ".join(filter(None, (row["distribution"], row["version"])))
        click.echo(f"{row['status']:<9}  {row['plugin']}{f'  ({distribution})' if distribution else ''}  {_what(row)}".rstrip())
        for failure in row["failures"]:
            click.echo(f"           {failure['stage']}: {failure['message']}")


def _rows(registry: Registry) -> list[dict[str, Any]]:
    rows = []
    for source, metadata in registry.plugins():
        failures = [
            {"stage": failure.stage, "error": type(failure.error).__name__, "message": failure.message}
            for failure in registry.failures
            if (failure.plugin, failure.distribution, failure.file) == (source.name, source.distribution, source.file)
        ]
        status = "failed" if metadata is None else "contested" if failures else "ok"
        rows.append(
            {
                "plugin": source.name,
                "status": status,
                "distribution": source.distribution,
                "version": source.version,
                "file": source.file,
                "layers": sorted(metadata.layers) if metadata else [],
                "commands": sorted(metadata.commands) if metadata else [],
                "data_sets": sorted(metadata.data) if metadata else [],
                "failures": failures,
            }
        )
    return rows


def _what(row: dict[str, Any]) -> str:
    kinds = (("layers", "layer"), ("commands", "command"), ("data_sets", "data set"))
    return "; ".join(f"{noun} {', '.join(row[kind])}" for kind, noun in kinds if row[kind])
