"""``nqf analyze``: an ordinary torch module from the shell: its neurons, its verdict, the form of A(x)."""

from __future__ import annotations

import ast
import contextlib
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

import click

from nqf_registry.cli.options import json_option, plugin_option, print_json
from nqf_registry.errors import InvalidInput, named

_SHAPE = re.compile(r"^(\d+(?:,\d+)*)(?:<(\d+))?$")


@click.command("analyze")
@click.argument("target", metavar="PACKAGE.MODULE:CLASS")
@click.option(
    "--args",
    "arguments",
    multiple=True,
    metavar="VALUE|NAME=VALUE",
    help="An argument of the class, by position or by name, as Python writes it; repeatable.",
)
@click.option(
    "--input",
    "inputs",
    multiple=True,
    required=True,
    metavar="SHAPE|SHAPE<HIGH|=N",
    help="An input by its shape, samples first, such as 4,10,8: normal numbers, or with <HIGH integers below it; =0 repeats "
    "the first input. Repeatable, in the order of the arguments of forward.",
)
@click.option("--train", "training", is_flag=True, help="Leave the module in training mode.")
@click.option(
    "--profile", type=click.Choice(["dev", "ci", "deep"]), default="dev", show_default=True, help="How much to measure."
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the weights and the inputs.")
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
        module = _made(target, arguments)
        if not training:
            module.eval()
        found = analyze(module, _inputs(inputs, seed), profile=profile)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found))
    context.exit(0 if any(group.report.passed for group in found.groups) else 1)


def _made(target: str, arguments: Sequence[str]) -> Any:
    """An instance of the class that a target names.

    Raises:
        InvalidInput: there is no such class, it is no module, or it cannot be made of these arguments.
    """
    from torch import nn

    where, colon, name = target.partition(":")
    if not colon or not name:
        raise InvalidInput(f"a class is named PACKAGE.MODULE:CLASS, such as torch.nn:MultiheadAttention; got {target!r}.")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())  # as python -m does, so that a file beside the user is found
    try:
        made: Any = importlib.import_module(where)
        for part in name.split("."):
            made = getattr(made, part)
    except Exception as error:  # importing runs any code
        raise InvalidInput(f"{target} cannot be imported: {named(error)}.") from error
    if not isinstance(made, type) or not issubclass(made, nn.Module):
        raise InvalidInput(f"{target} must be a class of torch.nn.Module, it is {made!r:.80}.")
    positional, keywords = _parsed(arguments)
    try:
        return made(*positional, **keywords)
    except Exception as error:
        raise InvalidInput(f"{name}({', '.join(arguments)}) cannot be made: {named(error)}.") from error


def _parsed(arguments: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    positional, keywords = [], {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if equals and name.strip().isidentifier():
            keywords[name.strip()] = _literal(value)
        else:
            positional.append(_literal(text))
    return positional, keywords


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text  # a word, such as gelu


def _inputs(inputs: Sequence[str], seed: int) -> tuple[Any, ...]:
    """Tensors of the shapes given.

    Raises:
        InvalidInput: a shape is none, too large, or repeats an input that is not there.
    """
    import torch

    generator, found = torch.Generator().manual_seed(seed), []
    for text in inputs:
        if re.fullmatch(r"=\d+", text) and int(text[1:]) < len(found):
            found.append(found[int(text[1:])])
            continue
        match = _SHAPE.match(text.replace(" ", ""))
        shape = [int(size) for size in match[1].split(",")] if match else []
        if not match or 0 in shape or torch.Size(shape).numel() > 2**28 or match[2] == "0":
            raise InvalidInput(
                f"an input is a shape with the samples first, such as 4,10,8, 4,10<50 for integers below 50, or =0 for the "
                f"first input again, of at most 2^28 numbers; got {text!r}."
            )
        found.append(
            torch.randint(0, int(match[2]), shape, generator=generator) if match[2] else torch.randn(shape, generator=generator)
        )
    return tuple(found)
