"""``nqf runs``: the runs below a folder with their status, one of them, or several beside each other."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click

from nqf_registry.cli.options import json_option, plugin_option, print_json, print_table
from nqf_registry.errors import InvalidInput


@click.command("runs")
@click.argument("words", nargs=-1, metavar="[DIR] | show RUN | compare RUN RUN… | plot RUN…")
@click.option(
    "--out", metavar="FILE", help="Of plot and compare: the picture of the loss curves, SVG, PNG or PDF by its ending."
)
@json_option
@plugin_option
def command(words: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """List the runs below DIR (./runs if left out), show the one in the folder RUN, or compare or plot several.

    compare says which settings differ, where each run ended, and how far the loss curves are from those of the first. plot
    draws the curves of all into one picture, runs.png unless --out says otherwise. A folder that is itself named show, compare
    or plot is written ./show.
    """
    if words[:1] in (("compare",), ("plot",)):
        _several(words[0], words[1:], out, as_json)
        return
    if out is not None:
        raise InvalidInput("--out belongs to nqf runs plot and nqf runs compare.")
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


def _several(verb: str, paths: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Compares or draws the runs in some folders."""
    from nqf_registry.train.comparison import compare_runs
    from nqf_registry.train.curves import plot_runs
    from nqf_registry.train.runs import Run

    least = 2 if verb == "compare" else 1
    if len(paths) < least:
        raise InvalidInput(
            f"nqf runs {verb} takes the folders of {'two runs or more' if least > 1 else 'runs'}, got {len(paths)}."
        )
    runs = [Run.open(path) for path in paths]
    picture = plot_runs(runs, paths, Path(out or "runs.png")) if out is not None or verb == "plot" else None
    if verb == "plot":
        if as_json:
            print_json({"runs": list(paths), "picture": str(picture)})
        else:
            click.echo(f"the curves are in {picture}")
        return
    found = compare_runs(runs, paths)
    if as_json:
        pictured = {} if picture is None else {"picture": str(picture)}
        print_json({**dataclasses.asdict(found), **pictured})
        return
    rows = [("", *paths), ("status", *(run.status for run in runs))]
    rows += [(name, *map(_brief, values)) for name, values in found.differing.items() if name not in ("status", "step")]
    rows += [(f"last loss, {model}", *map(_brief, values)) for model, values in found.last.items()]
    print_table(rows)
    for one in found.distances:
        click.echo(
            f"{paths[one.run]}, {one.model}: largest distance from {paths[0]}, |ΔL| / L(0), {one.distance:.2g} at step "
            f"{one.step} of {one.steps} that both recorded"
        )
    if picture is not None:
        click.echo(f"the curves are in {picture}")


def _brief(value: Any) -> str:
    """A value for a table."""
    if value is None:
        return "–"
    text = f"{value:.4g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 28 else f"{text[:27]}…"


def _show(path: str, as_json: bool) -> None:
    from nqf_registry.train.runs import Run
    from nqf_registry.train.staircase import told

    run = Run.open(path)
    if as_json:
        events = [dataclasses.asdict(event) for event in run.events()]
        print_json({"run": str(run.directory), "manifest": run.manifest, "records": len(run.records), "events": events})
        return
    manifest, data = run.manifest, run.manifest["data"]
    click.echo(f"{manifest['subject']['key']} on {data['name']} ({data['n']} samples, hash {data['hash'][:12]})")
    for line in [*run.summary(), *told(run)]:
        click.echo(line)
    for name, verdict in manifest["verdicts"].items():
        click.echo(verdict if verdict.startswith(name) else f"{name}: {verdict}")
    for place in manifest.get("resumed", []):
        changed = f" although {'; '.join(place['changed'])}" if place.get("changed") else ""
        click.echo(f"resumed at step {place['step']}{changed}")
    if failure := manifest.get("failure"):
        click.echo(f"left the finite numbers at step {failure['step']}: {failure['model']}, replica {failure['replica']}")
    rest = ", ".join(f"{name} {version}" for name, version in manifest["versions"].items())
    click.echo(f"{manifest['settings']['dtype']} on {manifest['settings']['device']}; {rest}")
