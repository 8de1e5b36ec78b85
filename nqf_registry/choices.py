"""Checks that a layer makes of its own sizes and choices, in ``__post_init__``, before anything is computed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean


def require_positive(layer: Any, *names: str) -> None:
    """Check that sizes of a layer are positive integers.

    Args:
        layer: a dataclass.
        *names: its sizes; by default every field that is annotated as ``int``.

    Raises:
        InvalidInput: naming the first that is not.
    """
    names = names or tuple(field.name for field in dataclasses.fields(layer) if field.type in (int, "int"))
    for name in names:
        value = getattr(layer, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InvalidInput(f"{name} must be a positive integer, got {value!r}.")


def require_choice(layer: Any, name: str, allowed: Iterable[str]) -> None:
    """Check that a choice of a layer is one of the allowed words.

    Raises:
        InvalidInput: naming the allowed words.
    """
    value, allowed = getattr(layer, name), tuple(allowed)
    if value not in allowed:
        hint = did_you_mean(value, allowed) if isinstance(value, str) else ""
        raise InvalidInput(f"{name} must be one of {', '.join(allowed)}; got {value!r}.{hint}")
