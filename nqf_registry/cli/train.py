"""``nqf train``: the original and its quadratic form in lockstep, into a run's folder with its picture."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, resolve_layer, size_option
from nqf_registry.errors import Diverged, InvalidInput, StorageError, UnknownKey
from nqf_registry.registry import Registry
from nqf_registry.spelling import did_you_mean

if TYPE_CHECKING:
    from nqf_registry.train.runs import Run

WITH_RESUME = ("resumed", "steps", "records", "checkpoint", "replica_chunk", "force", "quiet", "as_json")
OPTION_NAMES = {"data_name": "data", "data_options": "data-set", "sizes": "set", "probes": "probe"}


@click.command("train")
@click.argument("subject", metavar="KEY", required=False)
@click.option(
    "--data", "data_name", default="teacher", show_default=True, help="digits, teacher, mnist, or a plugin's data set."
)
@click.option("--data-set", "data_options", multiple=True, metavar="NAME=VALUE", help="An option of the data set; repeatable.")
@click.option("--models", default="original,nqf", show_default=True, help="Which models, with commas.")
@click.option(
    "--optimizer",
    default="gd",
    show_default=True,
    help="gd, momentum, nesterov, adam, one of torch such as adamw, or flow.",
)
@click.option("--opt", "optimizer_options", multiple=True, metavar="NAME=VALUE", help="One of the optimizer; repeatable.")
@click.option("--lr", default="auto", show_default=True, help="The rate, one a replica with commas, or auto.")
@click.option("--momentum", type=float, help="Of momentum and nesterov; 0.9 if left out.")
@click.option("--weight-decay", help="γ of loss + γ/2 ‖W‖², one a replica with commas; 0, or the optimizer's own, if left out.")
@click.option("--schedule", help="A factor on the rate: warmup, linear, cosine, step, exponential, …; constant if left out.")
@click.option("--schedule-opt", "schedule_options", multiple=True, metavar="NAME=VALUE", help="One of a schedule; repeatable.")
@click.option("--loss", default="squared", show_default=True, help="squared or logistic.")
@click.option("--steps", type=int, help="How many steps; 1000 if left out.")
@click.option("--until", help="Of flow, in place of steps: the time at which it ends, or all recorded times with commas.")
@click.option("--batch", type=int, help="Samples a step; all of them if left out.")
@click.option("--scale", default="0.01", show_default=True, help="Size of the initial weights, one a replica with commas.")
@click.option("--seed", default=0, show_default=True, help="Of the initial weights; replica r has seed + r.")
@click.option("--batch-seed", default=0, show_default=True, help="Of the order of the minibatches.")
@click.option("--replicas", default=1, show_default=True, help="How many runs at once.")
@click.option("--records", default=100, show_default=True, help="About how many log-spaced records.")
@click.option("--events", type=float, metavar="FRACTION", help="Record too where a loss has moved by this fraction, as 0.05.")
@click.option("--probe", "probes", multiple=True, help="Record more: top-mode is the order parameter of the fastest mode.")
@click.option("--dtype", default="float32", show_default=True, help="float32 or float64.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …")
@click.option("--out", metavar="DIR", help="The run's folder, new or empty; runs/KEY-DATA-1, -2, … if left out.")
@click.option("--checkpoint", default=60.0, show_default=True, help="Seconds between checkpoints; 0 for all there can be.")
@click.option("--replica-chunk", type=int, help="Replicas that step together; what fits the cache if left out.")
@click.option(
    "--resume", "resumed", metavar="DIR", help="Go on with the run in DIR as if it had never stopped; --steps for more."
)
@click.option("--force", is_flag=True, help="With --resume: go on although the layer or a version has changed.")
@click.option("--quiet", is_flag=True, help="Print only where the run lies.")
@size_option
@json_option
@plugin_option
@pass_registry
def command(
    registry: Registry,
    subject: str | None,
    data_name: str,
    data_options: tuple[str, ...],
    models: str,
    lr: str,
    weight_decay: str | None,
    scale: str,
    until: str | None,
    optimizer_options: tuple[str, ...],
    schedule_options: tuple[str, ...],
    sizes: tuple[str, ...],
    out: str | None,
    quiet: bool,
    as_json: bool,
    resumed: str | None,
    force: bool,
    **settings: Any,
) -> None:
    """Train the layer KEY, or the composition in the YAML file KEY, as written and as its quadratic form, in lockstep.

    The same initial weights, the same samples, one rate. Exit code 3 where the run diverged; what was recorded is kept.

    A run that ended early, by Ctrl-C, a kill or a full disk, goes on by nqf train --resume DIR.
    """
    if resumed is not None:
        _resume(registry, resumed, force, quiet, as_json)
        return
    if subject is None:
        raise InvalidInput("nqf train takes the KEY of a layer or a composition's YAML file; or --resume and a run's folder.")
    if force:
        raise InvalidInput("--force belongs to --resume; a new run has nothing to overrule.")
    from nqf_registry.train.compare import compare
    from nqf_registry.train.data import load_data
    from nqf_registry.train.directory import free_name, left_empty
    from nqf_registry.train.models import MODELS
    from nqf_registry.train.preparation import check_settings

    names = [name.strip() for name in models.split(",") if name.strip()]
    for name in names:
        if name not in MODELS:
            raise UnknownKey(f"there is no model {name!r}.{did_you_mean(name, MODELS)} Known are {', '.join(MODELS)}.")
    numbers: dict[str, Any] = {
        name: None if text is None else _numbers(name, text)
        for name, text in (("lr", lr), ("weight_decay", weight_decay), ("scale", scale), ("until", until))
    }
    numbers["optimizer_options"] = _options("the optimizer", "betas=[0.9,0.95]", optimizer_options)
    numbers["schedule_options"] = _options("the schedule", "floor=0.1", schedule_options)
    if not names:
        raise InvalidInput(f"--models takes a model, or several with commas: {', '.join(MODELS)}; got {models!r}.")
    # what is wrong with these is told before anything is computed for the data
    checked = dict(settings, **numbers)
    check_settings(directory=out, chunk=None, **{n: v for n, v in checked.items() if n not in ("checkpoint", "replica_chunk")})
    what = _subject(registry, subject, sizes)
    data = load_data(data_name, what, registry, **_options("the data set", "n=512", data_options))
    directory = Path(out) if out is not None else free_name("runs", f"{what.key}-{data.name}")
    if not (quiet or as_json) and "rule" in data.info:
        click.echo(data.info["rule"])
    made = [MODELS[name] for name in names]
    try:
        with left_empty(directory) if out is None else contextlib.nullcontext():
            run = compare(what, data, made, directory=directory, progress=not (quiet or as_json), **numbers, **settings)
    except Diverged as error:
        if error.run.records:
            error.run.plot()
        raise
    except (KeyboardInterrupt, SystemExit, StorageError):
        _say_how(directory)
        raise
    _report(run, quiet, as_json)


def _resume(registry: Registry, directory: str, force: bool, quiet: bool, as_json: bool) -> None:
    """Goes on with a run; everything but its steps is what it was."""
    from nqf_registry.train.resume import resume

    context = click.get_current_context()
    given = [name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    for name in given:
        if name not in WITH_RESUME:
            word = "KEY" if name == "subject" else f"--{OPTION_NAMES.get(name, name).replace('_', '-')}"
            raise InvalidInput(f"{word} belongs to a new run; a resumed run has its own. Leave it out, or --resume.")
    params = context.params
    try:
        run = resume(
            directory,
            steps=params["steps"] if "steps" in given else None,
            records=params["records"] if "records" in given else None,
            checkpoint=params["checkpoint"],
            replica_chunk=params["replica_chunk"],
            progress=not (quiet or as_json),
            force=force,
            registry=registry,
            tell=lambda text: click.echo(f"Note: {text}", err=True),
        )
    except (KeyboardInterrupt, SystemExit, StorageError):
        _say_how(Path(directory))
        raise
    _report(run, quiet, as_json)


def _say_how(directory: Path) -> None:
    """How a run that ended early goes on, where there is one."""
    if (directory / "manifest.json").exists():
        click.echo(f"What was computed is kept. Go on by: nqf train --resume {shlex.quote(str(directory))}", err=True)


def _report(run: Run, quiet: bool, as_json: bool) -> None:
    """Draws the picture and prints what came out."""
    picture = run.plot()
    if as_json:
        assert run.directory is not None
        first, last = run.records[0], run.records[-1]
        print_json(
            {
                "run": str(run.directory),
                "picture": str(picture),
                "status": run.status,
                "subject": run.manifest["subject"]["key"],
                "data": run.manifest["data"]["name"],
                "lr": run.manifest["settings"]["lr"],
                "rule": run.manifest["rate"]["rule"],
                "verdicts": run.manifest["verdicts"],
                "models": {
                    name: {
                        key: {"first": first[key][m].tolist(), "last": last[key][m].tolist()} for key in last if key != "step"
                    }
                    for m, name in enumerate(run.models)
                },
            }
        )
        return
    if not quiet:
        for line in run.summary():
            click.echo(line)
        took = "" if run.seconds is None else f"took {run.seconds:.1f} s; "
        click.echo(f"{took}the curves are in {picture}")
    click.echo(f"run: {run.directory}")


def _subject(registry: Registry, name: str, sizes: tuple[str, ...]) -> Any:
    """A layer by key, or the composition of a YAML file."""
    if not name.lower().endswith((".yaml", ".yml")):
        return resolve_layer(registry, name, sizes)
    if sizes:
        raise InvalidInput(f"--set sets sizes of a layer; the sizes of a composition stand in its file {name}.")
    from nqf_registry.compose.spec import load_composition

    return load_composition(name, registry)


def _options(what: str, example: str, texts: tuple[str, ...]) -> dict[str, Any]:
    """Options of something: NAME=VALUE with the value in JSON, or a word as it stands."""
    options: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise InvalidInput(f"expected an option of {what} as NAME=VALUE, such as {example}, got {text!r}.")
        if name in options:
            raise InvalidInput(f"the option {name!r} of {what} is given twice; give it once.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def _numbers(name: str, text: str) -> Any:
    """A number, or a list of them with commas; ``auto`` stays a word."""
    if text.strip() == "auto" and name == "lr":
        return "auto"
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        allowed = "a number, numbers with commas, or auto" if name == "lr" else "a number, or numbers with commas"
        raise InvalidInput(f"--{name.replace('_', '-')} expects {allowed}, got {text!r}.") from None
    return values[0] if len(values) == 1 else values
