"""``nqf runs``: the runs below a folder with their status, or one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from nqf_registry.cli.options import json_option, plugin_option, print_json, print_table
from nqf_registry.errors import InvalidInput


@click.command("runs")
@click.argument("words", nargs=-1, metavar="[DIR] | show RUN")
@json_option
@plugin_option
def command(words: tuple[str, ...], as_json: bool) -> None:
    """List the runs below DIR (./runs if left out), or show the one in the folder RUN.

    A folder that is itself named show is written ./show.
    """
    if words[:1] == ("show",):
        if len(words) != 2:
            raise InvalidInput(f"nqf runs show takes the folder of one run, got {len(words) - 1} arguments.")
        _show(words[1], as_json)
    elif len(words) > 1:
        raise InvalidInput(f"nqf runs takes one folder, or show and the folder of one run; got {' '.join(words)}.")
    else:
        _list(words[0] if words else "runs", as_json)


def _list(path: str, as_json: bool) -> None:
    from nqf_registry.train.runs import list_runs

    found = list_runs(path)
    if as_json:
        print_json([_row(where, what) for where, what in found])
    elif found:
        head = ("run", "status", "subject", "data", "models", "steps")
        rows = [_row(where, what) for where, what in found]
        print_table([head, *(tuple(str(row.get(name, "")) for name in head) for row in rows)])
        for row in rows:
            if "problem" in row:
                click.echo(f"{row['run']}: {row['problem']}", err=True)
    else:
        click.echo(f"There are no runs in {path}.")


def _reached(what: dict[str, Any]) -> Any:
    """The last step that was carried out; of a diverged run the one before it broke."""
    failure = what.get("failure")
    return max(failure["step"] - 1, 0) if failure else what.get("step", "?")


def _row(where: Path, what: dict[str, Any] | str) -> dict[str, Any]:
    if isinstance(what, str):
        return {"run": str(where), "status": "unreadable", "problem": what}
    return {
        "run": str(where),
        "status": what["status"],
        "subject": what["subject"]["key"],
        "data": what["data"]["name"],
        "models": ",".join(what["models"]),
        "steps": f"{_reached(what)}/{what['settings']['steps']}",
    }


def _show(path: str, as_json: bool) -> None:
    from nqf_registry.train.runs import Run

    run = Run.open(path)
    if as_json:
        print_json({"run": str(run.directory), "manifest": run.manifest, "records": len(run.records)})
        return
    manifest, data = run.manifest, run.manifest["data"]
    click.echo(f"{manifest['subject']['key']} on {data['name']} ({data['n']} samples, hash {data['hash'][:12]})")
    for line in run.summary():
        click.echo(line)
    for name, verdict in manifest["verdicts"].items():
        click.echo(verdict if verdict.startswith(name) else f"{name}: {verdict}")
    if failure := manifest.get("failure"):
        click.echo(f"left the finite numbers at step {failure['step']}: {failure['model']}, replica {failure['replica']}")
    rest = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    click.echo(f"{manifest['settings']['dtype']} on {manifest['settings']['device']}; {rest}")
