"""``nqf verify``: measures what layers claim, each in a process of its own where there are many."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import active_children, connection, get_context, parent_process
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import click

from nqf_registry.cli.options import (
    json_option,
    pass_registry,
    plugin_option,
    print_json,
    print_table,
    resolve_layers,
    size_option,
)
from nqf_registry.discovery import environment_plugins
from nqf_registry.errors import InvalidInput, WorkFailed
from nqf_registry.registry import Registry

if TYPE_CHECKING:
    from nqf_registry.layer import Layer
    from nqf_registry.verify.report import Report

# Plugin code runs with another os._exit in place of this one, which would only end the thread that calls it.
_exit = os._exit
# Starting a process costs the import of torch, more than verifying a few small layers.
FEW = 3
NOTE = 100  # characters of a note below the table of several layers; all of it is in the report of the layer alone


@click.command("verify")
@click.argument("targets", nargs=-1, metavar="KEY|FILE|all...")
@click.option(
    "--profile",
    type=click.Choice(["brief", "dev", "ci", "deep"]),
    default="dev",
    show_default=True,
    help="How much to measure.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Of all random draws: the same seed, the same report.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=None,
    help="How long one layer may take, by an estimate made before anything is measured; what would take longer is not begun.  "
    "[default: by profile]",
)
@click.option("--jobs", type=click.IntRange(1), default=None, help="Processes that verify at once.  [default: number of cores]")
@click.option(
    "--replay",
    "example",
    metavar="EXAMPLE|FILE.json",
    default=None,
    help="Measure one counterexample again, by the line that a report shows under replay, or every failing check of a report "
    "that was written by --json. With --json: for each layer its key under `layer`, and the checks as a report has them.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show every check of every layer, with its message.")
@size_option
@json_option
@plugin_option
@pass_registry
@click.pass_context
def command(
    context: click.Context,
    registry: Registry,
    targets: Sequence[str],
    profile: str,
    seed: int,
    seconds: float | None,
    jobs: int | None,
    example: str | None,
    verbose: bool,
    sizes: Sequence[str],
    as_json: bool,
) -> None:
    """Measure what layers claim, with a counterexample where it fails.

    Layers are named by key, by the plugin file that registers them, or all together by `all`; with --replay FILE.json alone
    they are those that the file reports. Exit code 1 means that at least one did not pass.
    """
    from nqf_registry.cli.options import settings_of

    if not targets:
        targets = _reported(registry, context, example)
    with contextlib.redirect_stdout(sys.stderr):  # what a layer prints must not spoil the output
        layers = resolve_layers(registry, targets, sizes)
    files = [target for target in targets if target.endswith(".py") or os.path.isfile(target)]
    plugins = [*environment_plugins(), *settings_of(context).plugins, *files]
    if example is not None:
        context.exit(_replay(layers, example, profile, _targets(registry, layers, targets, plugins), as_json))
    jobs = min(jobs or os.cpu_count() or 1, len(layers))
    names = _targets(registry, layers, targets, plugins)
    if not as_json:
        _tell_estimate(layers, profile, jobs)
    reports = []
    for report in verify_all(layers, plugins, sizes, profile, seed, jobs, seconds):
        reports.append(report.addressed(names[report.layer]))
        if not as_json and sys.stderr.isatty():
            click.echo(f"\r{len(reports)} of {len(layers)} verified", err=True, nl=len(reports) == len(layers))
    if as_json:
        print_json([report.to_dict() for report in reports])
    else:
        _print(reports, verbose)
    context.exit(0 if all(report.passed for report in reports) else 1)


def _reported(registry: Registry, context: click.Context, example: str | None) -> list[str]:
    """The layers of a report file that is to be replayed, where the command line names none."""
    if example is not None:
        from nqf_registry.verify.recorded import is_path, read_reports

        if is_path(example):
            names = list(read_reports(example))
            # a file names layers, never what a command line could mean by the same word: all, or a file to run
            unknown = [name for name in names if name not in registry.keys()]
            if unknown:
                shown = ", ".join(repr(name[:60]) for name in unknown[:3])
                raise InvalidInput(f"{example} reports {shown}, which no plugin registers; name the plugin file by --plugin.")
            return names
    raise click.MissingParameter(ctx=context, param=next(p for p in context.command.params if p.name == "targets"))


def _targets(registry: Registry, layers: Sequence[Layer], targets: Sequence[str], plugins: Sequence[str]) -> dict[str, str]:
    """By key, what names each layer on a command line: its key, the file that registers it alone, or both, and its sizes."""
    from nqf_registry.verify.addresses import sizes_typed

    names = {layer.key: layer.key for layer in layers}
    environment = environment_plugins()
    for path in dict.fromkeys(plugins):
        if path in environment:
            continue
        keys = registry.extended([path]).keys_of(path)
        for key in names.keys() & keys:
            alone = path in targets and len(keys) == 1
            names[key] = shlex.quote(path) if alone else f"{key} --plugin {shlex.quote(path)}"
    return {layer.key: names[layer.key] + (sizes_typed(layer) or "") for layer in layers}


def _replay(layers: Sequence[Layer], example: str, profile: str, names: dict[str, str], as_json: bool) -> int:
    """Measures examples again and says how they came out; 1 where one fails again."""
    from nqf_registry.verify.context import sizes_of
    from nqf_registry.verify.recorded import replay_all
    from nqf_registry.verify.text import told

    with contextlib.redirect_stdout(sys.stderr):
        replayed = replay_all(layers, example, profile)
    replayed = [(layer, [check.addressed(names[layer.key]) for check in checks]) for layer, checks in replayed]
    if as_json:
        print_json([{"layer": layer.key, "checks": [check.to_dict() for check in checks]} for layer, checks in replayed])
    else:
        for layer, checks in replayed:
            click.echo("\n".join(line for check in checks for line in told(layer.key, check, sizes_of(layer))))
    return int(any(check.broken for _, checks in replayed for check in checks))


def verify_all(
    layers: Sequence[Layer],
    plugins: Sequence[str],
    sizes: Sequence[str],
    profile: str,
    seed: int,
    jobs: int,
    seconds: float | None = None,
) -> Iterator[Report]:
    """The reports of layers in their order; many layers are verified in processes of their own.

    Args:
        layers: what to verify.
        plugins: the plugin files that a new process must load to find them by key.
        sizes: what was set on the command line, ``NAME=VALUE``.
        profile: brief, dev, ci or deep.
        seed: of all draws.
        jobs: how many processes at once.
        seconds: how long one layer may take; by the profile if left out.

    Raises:
        WorkFailed: a process died.
    """
    if jobs == 1 or len(layers) <= FEW:
        for layer in layers:
            yield _verify(layer, profile, seed, seconds)
        return
    # spawn, not fork: a forked torch may hang in its thread pool.
    pool = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_prepare, initargs=(list(plugins),))
    try:
        futures = [pool.submit(_verify_key, layer.key, list(sizes), profile, seed, seconds) for layer in layers]
        for layer, future in zip(layers, futures, strict=True):
            try:
                yield future.result()
            except BrokenProcessPool as error:
                raise WorkFailed(
                    f"a process died while verifying, at {layer.key} or one of the layers beside it (out of memory, or "
                    f"a crash in native code); try nqf verify {layer.key} --jobs 1"
                ) from error
    except BaseException:  # an interrupt must not wait for the layers under way
        for process in active_children():
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def _tell_estimate(layers: Sequence[Layer], profile: str, jobs: int) -> None:
    """Says on stderr how long a longer profile will take, before it begins."""
    import torch

    from nqf_registry.verify.budget import LONG, estimate, spoken

    torch.set_num_threads(1)
    with contextlib.redirect_stdout(sys.stderr):
        found = [estimate(layer, profile) for layer in layers]
    known = [one for one in found if one is not None]
    seconds = sum(one.seconds for one in known) / jobs
    if seconds < LONG:
        return
    said = f"{len(known)} layers at profile {profile} will take" if len(known) > 1 else f"profile {profile} will take"
    memory = max(one.bytes for one in known) / 2**20
    click.echo(f"{said} about {spoken(seconds)}, and {memory:.0f} MiB a process for the largest arrays", err=True)


_registry: Registry | None = None


def _prepare(plugins: list[str]) -> None:
    global _registry
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _registry = Registry.load(plugins=plugins)


def _end_with_parent() -> None:
    """Ends this process when the one that started it is gone, killed perhaps: nobody waits for its work."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        _exit(1)


def _verify_key(key: str, sizes: list[str], profile: str, seed: int, seconds: float | None) -> Report:
    from nqf_registry.cli.options import resolve_layer

    assert _registry is not None
    with contextlib.redirect_stdout(sys.stderr):
        layer = resolve_layer(_registry, key, sizes)
    return _verify(layer, profile, seed, seconds)


def _verify(layer: Layer, profile: str, seed: int, seconds: float | None) -> Report:
    import torch

    from nqf_registry.verify.suite import verify

    torch.set_num_threads(1)  # the tensors are small: threads would only wait for each other
    with contextlib.redirect_stdout(sys.stderr):
        return verify(layer, profile, seed, seconds)


def _print(reports: Sequence[Report], verbose: bool) -> None:
    if len(reports) == 1:
        click.echo(reports[0].render(verbose))
        return
    head = ("layer", "verdict", "classification", "permutation", "structure", "remainder", "checks ran", "seconds")
    print_table([head, *map(_row, reports)])
    noted = [report for report in reports if report.notes and report.passed and not verbose]
    if noted:
        click.echo()
    for report in noted:  # the others say theirs below
        click.echo(f"  note: {report.layer}: {'; '.join(shorten(note, NOTE, placeholder=' …') for note in report.notes)}")
    for report in reports:
        if verbose or not report.passed:
            click.echo("\n" + report.render(verbose))
    passed = sum(report.passed for report in reports)
    checks = [check for report in reports for check in report.checks]
    click.echo(f"\n{passed} of {len(reports)} layers passed; {sum(check.ran for check in checks)} of {len(checks)} checks ran.")


def _row(report: Report) -> tuple[str, ...]:
    ran = report.count.partition(" checks")[0] + ", time ran out" * bool(report.stopped)
    return (
        report.layer,
        "passed" if report.passed else "DID NOT PASS",
        report.kind,
        report["permutation-symmetry"].status,
        _number(report["structure-matrix"].residual),
        _remainder(report),
        ran,
        f"{report.seconds:.1f}",
    )


def _remainder(report: Report) -> str:
    check: Any = report["remainder-order"]
    if check.bound == "at most":
        return f"|R| {_number(check.residual)}"
    return f"slope {check.residual:.2f}" if check.residual is not None else "R = 0" if check.ran else "-"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.0e}" if value else "0"
