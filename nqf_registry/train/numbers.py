"""Checks of single numbers that a run is given, with messages that say what came instead."""

from __future__ import annotations

from typing import Any

import numpy as np

from nqf_registry.errors import InvalidInput

SEEDS = 2**63 - 1  # the largest seed; with its sign, what every random generator and every file format takes


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number of at least ``least``, and at most ``most``.

    Raises:
        InvalidInput: it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise InvalidInput(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if most is not None and value > most:
        raise InvalidInput(f"{name} must be a whole number from {least} to {most}, got {short(value)}.")
    return int(value)


def number(name: str, value: Any) -> float:
    """A finite number.

    Raises:
        InvalidInput: it is none.
    """
    real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        found = float(value) if real else float("nan")
    except OverflowError:
        found = float("inf")
    if not abs(found) < float("inf"):
        raise InvalidInput(f"{name} must be a finite number, got {short(value)}.")
    return found


def short(value: Any) -> str:
    """A value for a message, cut where it is long; an integer of many digits is not even written out."""
    if isinstance(value, int) and abs(value) > 10**30:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
