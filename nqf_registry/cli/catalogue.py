"""``nqf catalogue``: the table of all entries, written from measurements or held against what is committed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, settings_of
from nqf_registry.discovery import environment_plugins
from nqf_registry.errors import WorkFailed
from nqf_registry.registry import Registry

if TYPE_CHECKING:
    from nqf_registry.layer import Layer
    from nqf_registry.report.catalogue import Catalogue
    from nqf_registry.report.comparison import Difference
    from nqf_registry.report.verification import Verified

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("catalogue")
@click.argument("keys", nargs=-1, metavar="[KEYS]...")
@click.option("--out", default="catalogue", show_default=True, type=_FOLDER, metavar="DIR", help="Folder of the files.")
@click.option("--check", is_flag=True, help="Write nothing; compare the facts with those in the folder, exit 1 if one changed.")
@click.option("--readme", type=_FILE, metavar="FILE", help="Also write (or check) the table between this file's two comments.")
@click.option("--profile", default="ci", show_default=True, type=click.Choice(["dev", "ci"]), help="How much is measured.")
@json_option
@plugin_option
@pass_registry
@click.pass_context
def command(
    context: click.Context,
    registry: Registry,
    keys: tuple[str, ...],
    out: Path,
    check: bool,
    readme: Path | None,
    profile: str,
    as_json: bool,
) -> None:
    """Write the catalogue: verify every entry (or the KEYS), measure its A(x), and write Markdown, LaTeX, CSV, JSON and a page.

    Entries that do not pass are in it, marked as such, and the exit code is then 1. With --check nothing is written.
    """
    from nqf_registry.report import catalogue, json_files
    from nqf_registry.report import readme as readme_block

    committed = json_files.read_facts(out / "catalogue.json") if check else []  # told before any measuring
    text = readme_block.read(readme) if readme else ""
    if readme:
        readme_block.with_table(text, [])
    elif check and (beside := out.resolve().parent / "README.md").is_file() and not keys:
        text = readme_block.read(beside)
        readme = beside if readme_block.has_markers(text) else None
    plugins = [*environment_plugins(), *settings_of(context).plugins]
    built = catalogue.build(registry, keys or None, profile, partial(verify_in_processes, plugins=plugins))
    if check:
        found = _differences(committed, built, out, readme, text, bool(keys))
        _tell_differences(found, len(built.rows), out, as_json)
        if found:
            context.exit(1)
        return
    paths = built.write(out)
    if readme:
        paths.append(catalogue.write_text(readme, readme_block.with_table(text, built.entries)))
    _tell_written(built, paths, as_json)
    for line in _left_out(registry):
        click.echo(line, err=True)
    if not built.passed:
        context.exit(1)


def verify_in_processes(layers: Sequence[Layer], profile: str, plugins: Sequence[str]) -> dict[str, Verified]:
    """Verifies layers as ``nqf verify all`` does; where its runner stops at one, the rest are verified here, each alone."""
    from nqf_registry.cli.verify import verify_all
    from nqf_registry.report.verification import Verified, verify_layers

    found: dict[str, Verified] = {}
    try:
        for report in verify_all(layers, plugins, (), profile, 0, min(os.cpu_count() or 1, max(1, len(layers)))):
            found[report.layer] = Verified(report)
    except WorkFailed:
        raise  # a process died: trying again here could take this one with it
    except Exception:  # what a plugin raises when it is made again in another process
        found |= verify_layers([layer for layer in layers if layer.key not in found], profile)
    return found


def _differences(
    committed: list[dict[str, Any]], built: Catalogue, out: Path, readme: Path | None, text: str, some: bool
) -> list[Difference]:
    """Facts that changed, and committed files that do not say what the committed facts say."""
    from nqf_registry.report import catalogue
    from nqf_registry.report.comparison import Difference, differences
    from nqf_registry.report.readme import with_table

    found = differences(committed, built.entries, partial=some)
    if some or found:
        return found  # every table holds the changed fact; one line for it is enough
    for name, wanted in catalogue.tables(committed).items():
        path = out / name
        if not path.is_file():
            found.append(Difference(name, "file", "(absent)", "part of the catalogue; run `nqf catalogue`"))
        elif path.read_text(encoding="utf-8", errors="replace") != wanted:
            found.append(Difference(name, "text", "not what catalogue.json says", "run `nqf catalogue`"))
    if readme is not None and with_table(text, committed) != text:
        again = f"run `nqf catalogue --readme {readme.name}`"
        found.append(Difference(readme.name, "table", "not what catalogue.json says", again))
    return found


def _tell_differences(found: list[Difference], count: int, out: Path, as_json: bool) -> None:
    if as_json:
        print_json({"passed": not found, "entries": count, "differences": [asdict(difference) for difference in found]})
        return
    for difference in found:
        click.echo(str(difference))
    entries = f"{count} {'entry' if count == 1 else 'entries'}"
    if found:
        facts, right = ("1 fact", "is it") if len(found) == 1 else (f"{len(found)} facts", "are they")
        click.echo(f"{facts} of {entries} not as {out} says; {right} right? Then run `nqf catalogue` and commit.")
    else:
        click.echo(f"{entries}: every fact is what {out} says.")


def _tell_written(built: Catalogue, paths: list[Path], as_json: bool) -> None:
    from nqf_registry.report.columns import remainder, verdict

    if as_json:
        print_json({"passed": built.passed, "files": [str(path) for path in paths], "entries": built.entries})
        return
    width = max((len(row.facts["key"]) for row in built.rows), default=0)
    for facts in built.entries:
        click.echo(f"{'✓' if facts['passed'] else '✗'} {facts['key']:<{width}}  {verdict(facts)}, remainder {remainder(facts)}")
    passed = sum(facts["passed"] for facts in built.entries)
    names = ", ".join(path.name for path in paths)
    click.echo(f"{passed} of {len(built.rows)} entries pass; written to {paths[0].parent}: {names}")


def _left_out(registry: Registry) -> list[str]:
    """What is registered by no right: quarantined plugins and contested keys."""
    broken = [failure for failure in registry.failures if failure.stage != "contested"]
    lines = [f"Left out: {failure.plugin} failed at {failure.stage}; `nqf plugins` says why" for failure in broken]
    return lines + [f"Left out: {key} is claimed by {' and by '.join(plugins)}" for key, plugins in registry.contested.items()]
