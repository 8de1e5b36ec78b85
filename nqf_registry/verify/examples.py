"""An example as a line of text: the check, the draw and the seed, so that it can be measured again by one command."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.verify.strategies import Draw

# The smallest and the largest value of each field: beyond them there is nothing to measure, or no memory to do it in.
_BOUNDS = {
    "instance": (0, 2**16),
    "width": (1, 2**20),
    "samples": (1, 64),
    "inputs": (0, 2**32 - 1),
    "weights": (0, 2**32 - 1),
    "neuron": (0, 2**20),
    "seed": (0, 2**63 - 1),
}
_FACTORS = (1e-9, 1e9)
_NUMBER = re.compile(r"\d{1,20}(\.\d{0,20})?(e[+-]?\d{1,3})?", re.ASCII)
_FIELDS = {field.name: field.default for field in dataclasses.fields(Draw)} | {"seed": 0}


def example_line(name: str, draw: Draw, seed: int = 0) -> str:
    """An example as a line of text: the check, then what differs from the defaults of :class:`Draw`, and the seed.

    >>> example_line("smoothness", Draw(width=2, weights=17, neuron=1), seed=3)
    'smoothness:width=2,weights=17,neuron=1,seed=3'
    >>> example_line("minimality", Draw())
    'minimality'
    """
    values = dataclasses.asdict(draw) | {"seed": seed}
    said = [f"{field}={value!r}" for field, value in values.items() if value != _FIELDS[field]]
    return f"{name}:{','.join(said)}" if said else name


def parse_example(line: str, checks: Iterable[str]) -> tuple[str, Draw, int]:
    """The check, the draw and the seed of an example: the inverse of :func:`example_line`.

    Args:
        line: the example.
        checks: the names that a check can have.

    Raises:
        InvalidInput: the check or a field is unknown, a field is given twice, or a value is none that it can have.
    """
    if not isinstance(line, str):
        raise InvalidInput(f"an example is a line such as 'smoothness:width=2,weights=17', got {type(line).__name__}.")
    name, colon, rest = line.strip().partition(":")
    if name not in checks:
        raise InvalidInput(
            f"an example begins with the name of a check, got {_short(name)}.{did_you_mean(name, checks)} "
            f"The checks are {', '.join(checks)}."
        )
    values: dict[str, Any] = {}
    for text in rest.split(",") if colon else []:
        field, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise InvalidInput(f"an example gives fields as NAME=VALUE, such as width=2; got {_short(text)} in {_short(line)}.")
        if field not in _FIELDS:
            raise InvalidInput(
                f"an example has no field {_short(field)}.{did_you_mean(field, _FIELDS)} The fields are {', '.join(_FIELDS)}."
            )
        if field in values:
            raise InvalidInput(f"the field {field} is given twice in the example {_short(line)}; give it once.")
        values[field] = _value(field, value)
    seed = values.pop("seed", 0)
    return name, Draw(**values), seed


def _value(field: str, text: str) -> Any:
    if field == "factor":
        number = float(text) if _NUMBER.fullmatch(text) else math.nan
        if not (_FACTORS[0] <= number <= _FACTORS[1]):
            raise InvalidInput(
                f"the field factor of an example must be a number from {_FACTORS[0]:g} to {_FACTORS[1]:g}, got {_short(text)}."
            )
        return number
    low, high = _BOUNDS[field]
    if not (text.isascii() and text.isdigit() and len(text) <= 20 and low <= int(text) <= high):
        raise InvalidInput(f"the field {field} of an example must be an integer from {low} to {high}, got {_short(text)}.")
    return int(text)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:57]}…")
