"""``nqf train``: the original and its quadratic form in lockstep, into a run's folder with its picture."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from nqf_registry.cli.options import json_option, pass_registry, plugin_option, print_json, resolve_layer, size_option
from nqf_registry.errors import Diverged, InvalidInput, UnknownKey
from nqf_registry.registry import Registry
from nqf_registry.spelling import did_you_mean


@click.command("train")
@click.argument("subject", metavar="KEY")
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
@click.option("--probe", "probes", multiple=True, help="Record more: top-mode is the order parameter of the fastest mode.")
@click.option("--dtype", default="float32", show_default=True, help="float32 or float64.")
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, …")
@click.option("--out", metavar="DIR", help="The run's folder, new or empty; runs/KEY-DATA-1, -2, … if left out.")
@click.option("--quiet", is_flag=True, help="Print only where the run lies.")
@size_option
@json_option
@plugin_option
@pass_registry
def command(
    registry: Registry,
    subject: str,
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
    **settings: Any,
) -> None:
    """Train the layer KEY, or the composition in the YAML file KEY, as written and as its quadratic form, in lockstep.

    The same initial weights, the same samples, one rate. Exit code 3 where the run diverged; what was recorded is kept.
    """
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
    check_settings(directory=out, chunk=None, **checked)
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
    picture = run.plot()
    if as_json:
        assert run.directory is not None
        first, last = run.records[0], run.records[-1]
        print_json(
            {
                "run": str(run.directory),
                "picture": str(picture),
                "status": run.status,
                "subject": what.key,
                "data": data.name,
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
        click.echo(f"took {run.seconds:.1f} s; the curves are in {picture}")
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
