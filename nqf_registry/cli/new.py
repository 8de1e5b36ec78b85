"""``nqf new``: a plugin file of an ordinary torch module."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from nqf_registry.cli.module_target import drawn_inputs, input_code, made_module, module_options, parsed_arguments
from nqf_registry.errors import InvalidInput, StorageError


@click.command("new")
@click.option("--from-module", "given", is_flag=True, required=True, help="Write the layer of a torch module.")
@module_options
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="The file to write, a .py.")
@click.option(
    "--group", type=click.IntRange(0), default=0, show_default=True, help="Which of the groups that `nqf analyze` shows."
)
@click.option("--key", default="", help="Of the layer; by default from the name of the class.")
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def command(
    given: bool,
    target: str,
    arguments: Sequence[str],
    inputs: Sequence[str],
    training: bool,
    seed: int,
    out: Path,
    group: int,
    key: str,
    force: bool,
) -> None:
    """Write a plugin file: the module as a layer of its neurons, with A(x) in closed form where one is recognised.

    The file is a beginning: `nqf verify FILE` measures what it says.
    """
    import torch

    from nqf_registry.modules.analysis import analyze
    from nqf_registry.modules.plugin_file import plugin_file

    if out.suffix != ".py":
        raise InvalidInput(f"a plugin file ends in .py; got {str(out)!r}.")
    if out.exists() and not force:
        raise InvalidInput(f"{out} is there already; choose another --out, or give --force.")
    with contextlib.redirect_stdout(sys.stderr):  # what a module prints must not spoil the output
        torch.manual_seed(seed)
        found = analyze(made_module(target, arguments, training), drawn_inputs(inputs, seed))
    if group >= len(found.groups):
        raise InvalidInput(f"{target} has {len(found.groups)} groups of neurons, counted from 0; got {group}. {found}")
    where, _, name = target.partition(":")
    positional, keywords = parsed_arguments(arguments)
    call = f"{name}({', '.join([*map(repr, positional), *(f'{k}={v!r}' for k, v in keywords.items())])})"
    text = plugin_file(found.groups[group], where, name, call, [input_code(i) for i in inputs], seed, key, training)
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out} could not be written: {error.strerror or error}; choose another place.") from error
    click.echo(str(found.groups[group]))
    click.echo(f"{out}: measure it with `nqf verify {out}`")
