"""``nqf demo``: the whole road on one user layer, from a file to a trained composition, with its pictures."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, print_table, settings_of
from nqf_registry.errors import InvalidInput
from nqf_registry.registry import Registry, broken_files

if TYPE_CHECKING:
    from nqf_registry.report.catalogue import Catalogue
    from nqf_registry.train.runs import Run

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("demo")
@click.option("--layer", "file", default="examples/gated_unit.py", show_default=True, type=_FILE, help="The user layer.")
@click.option("--graph", default="examples/two_layer.yaml", show_default=True, type=_FILE, help="A composition that uses it.")
@click.option(
    "--out", default="demo", show_default=True, type=click.Path(path_type=Path, file_okay=False), help="Where to write."
)
@click.option("--steps", default=600, show_default=True, help="Training steps.")
@json_option
@plugin_option
@pass_registry
@click.pass_context
def command(context: click.Context, registry: Registry, file: Path, graph: Path, out: Path, steps: int, as_json: bool) -> None:
    """Register a layer from its file, verify, catalogue and compose it, and train original and NQF in lockstep.

    The data are scikit-learn's digits, odd against even. Exit code 1 where the layer does not pass its verification.
    """
    from nqf_registry.compose.drawing import draw
    from nqf_registry.compose.spec import load_composition
    from nqf_registry.report.picture import write_picture
    from nqf_registry.train.compare import compare
    from nqf_registry.train.data import load_data
    from nqf_registry.train.directory import free_name, left_empty
    from nqf_registry.verify.suite import verify

    started = perf_counter()
    for path in (file, graph):
        if not path.is_file():
            raise InvalidInput(f"{path} is not here; run the demo in a checkout, or name a file by --layer and --graph.")
    settings = settings_of(context)
    settings.plugins.append(str(file))
    registry = settings.registry()
    for line in broken_files(registry, [file]):
        raise InvalidInput(line)

    def say(text: str = "") -> None:
        if not as_json:
            click.echo(text)

    layers = [registry.get(key) for key in registry.keys_of(file)]
    say(f"1. Registered from {file}: {', '.join(layer.key for layer in layers)}")
    say("\n2. Verified: every assumption measured")
    reports = [verify(layer) for layer in layers]
    for report in reports:
        say(report.render())

    say("\n3. Catalogued beside the others (each verified again, in parallel)")
    catalogue = _catalogue(context, registry)
    catalogue.write(out / "catalogue")
    if not as_json:
        _tell_rows(catalogue, {layer.key for layer in layers})
    pictures = {f"A(x) of {layer.key}": write_picture(layer, out / f"{layer.key}.png") for layer in layers}

    composition = load_composition(graph, registry)
    pictures["the composition"] = draw(composition, out / f"{composition.key}.png")
    say(f"\n4. Composed by {graph}: {' → '.join(composition.nodes)}, {composition.n_weights:,} weights")

    data = load_data("digits", composition, registry)
    say(f"\n5. Trained on the digits, odd against even: {data.n} samples, original and NQF in lockstep for {steps} steps")
    with left_empty(directory := free_name(out, "run")):
        run = compare(composition, data, steps=steps, seed=0, scale=1e-2, directory=directory, progress=not as_json)
    pictures["the loss curves"] = run.plot()

    passed = all(report.passed for report in reports)
    seconds = perf_counter() - started
    if as_json:
        print_json(_as_json(passed, reports, catalogue, run, pictures, out, seconds))
    else:
        for line in run.summary():
            say(f"   {line}")
        say("\nWhat was measured")
        for report in reports:
            say(f"   {report.line()}")
        say(f"   {sum(facts['passed'] for facts in catalogue.entries)} of {len(catalogue.entries)} catalogue entries pass")
        say(f"   original and NQF: |ΔL| / L(0) at most {_distance(run):.4f} over {steps} steps")
        say("\nWhere it lies")
        print_table([*((f"   {what}", str(path)) for what, path in pictures.items()),
                     ("   the catalogue, a page", str(out / "catalogue" / "catalogue.html")),
                     ("   the run", str(run.directory))])  # fmt: skip
        say(f"\nThe whole road took {seconds:.0f} s.")
    context.exit(0 if passed else 1)


def _catalogue(context: click.Context, registry: Registry) -> Catalogue:
    """The catalogue of everything registered, verified in parallel processes."""
    from functools import partial

    from nqf_registry.cli.catalogue import verify_in_processes
    from nqf_registry.discovery import environment_plugins
    from nqf_registry.report.catalogue import build

    plugins = [*environment_plugins(), *settings_of(context).plugins]
    return build(registry, None, "dev", partial(verify_in_processes, plugins=plugins))


def _tell_rows(catalogue: Catalogue, new: set[str]) -> None:
    from nqf_registry.report import columns

    rows: list[tuple[str, ...]] = [("", "layer", "verdict", "remainder", "couples", "inert")]
    for facts in catalogue.entries:
        mark = "   →" if facts["key"] in new else ""
        words = (columns.verdict, columns.remainder, columns.couplings, columns.inert)
        rows.append((mark, facts["key"], *(word(facts) for word in words)))
    print_table(rows)


def _distance(run: Run) -> float:
    """The largest |L_model − L_first| / L_first(0) over records, models and replicas."""
    _, loss = run.curves("train_loss")  # (models, R, records)
    return float((abs(loss - loss[:1]) / loss[:1, :, :1]).max())


def _as_json(
    passed: bool, reports: Any, catalogue: Catalogue, run: Run, pictures: dict[str, Any], out: Path, seconds: float
) -> dict[str, Any]:
    return {
        "passed": passed,
        "reports": [report.to_dict() for report in reports],
        "catalogue": {facts["key"]: facts.get("classification") for facts in catalogue.entries},
        "run": str(run.directory),
        "distance": _distance(run),
        "pictures": {what: str(path) for what, path in pictures.items()},
        "page": str(out / "catalogue" / "catalogue.html"),
        "seconds": round(seconds, 1),
    }
