"""``nqf analyze``: an ordinary torch module from the shell: its neurons, its verdict, the form of A(x)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

import click

from nqf_registry.cli.module_target import drawn_inputs, made_module, module_options
from nqf_registry.cli.options import json_option, plugin_option, print_json


@click.command("analyze")
@module_options
@click.option(
    "--profile", type=click.Choice(["dev", "ci", "deep"]), default="dev", show_default=True, help="How much to measure."
)
@json_option
@plugin_option
@click.pass_context
def command(
    context: click.Context,
    target: str,
    arguments: Sequence[str],
    inputs: Sequence[str],
    training: bool,
    profile: str,
    seed: int,
    as_json: bool,
) -> None:
    """Find the neurons of a torch module, and say what it is.

    The module is made by calling the class, such as torch.nn:MultiheadAttention with --args 8 --args 2 --args batch_first=True.
    Exit code 1 means that no group of neurons has a quadratic form.
    """
    import torch

    from nqf_registry.modules.analysis import analyze

    with contextlib.redirect_stdout(sys.stderr):  # what a module prints must not spoil the output
        torch.manual_seed(seed)
        module = made_module(target, arguments, training)
        found = analyze(module, drawn_inputs(inputs, seed), profile=profile)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))
    context.exit(0 if any(group.report.passed for group in found.groups) else 1)
