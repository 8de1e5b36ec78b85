"""A module that is named on the command line, with its arguments and the shapes of its inputs."""

from __future__ import annotations

import ast
import importlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from nqf_registry.errors import InvalidInput, named

C = TypeVar("C", bound=Callable[..., Any])

_SHAPE = re.compile(r"^(\d+(?:,\d+)*)(?:<(\d+))?$")

_OPTIONS = (
    click.argument("target", metavar="PACKAGE.MODULE:CLASS"),
    click.option(
        "--args",
        "arguments",
        multiple=True,
        metavar="VALUE|NAME=VALUE",
        help="An argument of the class, by position or by name, as Python writes it; repeatable.",
    ),
    click.option(
        "--input",
        "inputs",
        multiple=True,
        required=True,
        metavar="SHAPE|SHAPE<HIGH|=N",
        help="An input by its shape, samples first, such as 4,10,8: normal numbers, or with <HIGH integers below it; =0 "
        "repeats the first input. Repeatable, in the order of the arguments of forward.",
    ),
    click.option("--train", "training", is_flag=True, help="Leave the module in training mode."),
    click.option(
        "--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Of the weights and the inputs."
    ),
)


def module_options(command: C) -> C:
    """The argument and the options that name a module and its inputs."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def made_module(target: str, arguments: Sequence[str], training: bool) -> Any:
    """An instance of the class that a target names, in training mode or not.

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
    positional, keywords = parsed_arguments(arguments)
    try:
        return made(*positional, **keywords).train(training)
    except Exception as error:
        raise InvalidInput(f"{name}({', '.join(arguments)}) cannot be made: {named(error)}.") from error


def parsed_arguments(arguments: Sequence[str]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position and by name, as Python reads them."""
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


def drawn_inputs(inputs: Sequence[str], seed: int) -> tuple[Any, ...]:
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


def input_code(text: str) -> str:
    """The expression that draws one input as :func:`drawn_inputs` does."""
    if text.startswith("="):
        return f"inputs[{int(text[1:])}]"
    match = _SHAPE.match(text.replace(" ", ""))
    assert match is not None, "drawn_inputs has looked at it"
    shape = f"({match[1].replace(',', ', ')},)"
    return (
        f"torch.randint(0, {match[2]}, {shape}, generator=generator)"
        if match[2]
        else f"torch.randn({shape}, generator=generator)"
    )
