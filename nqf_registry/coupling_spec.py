"""Reads the einsum spec of a coupling and holds its operands against it, so that a mistake is named where it was written."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

from torch import Tensor

from nqf_registry.couplings import Coupling, Rows
from nqf_registry.errors import InvalidInput


def coupling_of(spec: str, operands: Sequence[str | Rows | Tensor], scale: float) -> Coupling:
    """The coupling that :func:`nqf_registry.quadratic` makes of its arguments.

    Raises:
        InvalidInput: the spec and the operands do not fit, or the scale is no finite number; the message says where.
    """
    if not isinstance(spec, str):
        raise InvalidInput(f"nqf.quadratic takes a spec such as 'i,ni,o->no' first, got {type(spec).__name__}.")
    words, arrow, output = spec.replace(" ", "").partition("->")
    letters = tuple(words.split(","))

    def wrong(what: str) -> InvalidInput:
        return InvalidInput(f"nqf.quadratic({spec!r}, …): {what}")

    if not arrow or not output.startswith("n"):
        raise wrong("the output must be written, and start with the sample axis n, as in '->n' or '->no'.")
    if len(operands) < 2 or len(letters) != len(operands):
        raise wrong(f"the spec has {len(letters)} operands, {len(operands)} were given; write left, coefficients, right.")
    left, *coefficients, right = operands
    for side, word in ((left, letters[0]), (right, letters[-1])):
        if not isinstance(side, str | Rows):
            raise wrong(f"the first and the last operand are blocks by name (or nqf.rows), got {type(side).__name__}.")
        if isinstance(side, Rows) and not word.startswith("n"):
            raise wrong(f"picked rows have one row a sample, so their letters start with n; got {word!r}.")
        if isinstance(side, str) and "n" in word:
            raise wrong(f"a block has no sample axis, but block {side!r} is written with n.")
        if len(set(word)) != len(word):
            raise wrong(f"each axis of a block has a letter of its own; got {word!r}.")
    bad = sorted({a for word in (*letters, output) for a in word if not ("a" <= a <= "z")})
    if bad:
        raise wrong(f"only lower-case letters are allowed, got {''.join(bad)!r}.")
    if len(set(output)) != len(output):
        raise wrong("a letter appears twice in the output.")
    sizes: dict[str, int] = {}
    for side in (left, right):
        if isinstance(side, Rows) and sizes.setdefault("n", len(side.index)) != len(side.index):
            raise wrong(f"one side picks {sizes['n']} rows, the other {len(side.index)}; both pick one row a sample.")
    for word, tensor in zip(letters[1:-1], coefficients, strict=True):
        if not isinstance(tensor, Tensor):
            raise wrong(f"a coefficient is a tensor, got {type(tensor).__name__}.")
        if tensor.is_complex():
            raise wrong(f"a coefficient holds real numbers, got {tensor.dtype}.")
        if tensor.ndim != len(word):
            raise wrong(f"the coefficient {word!r} has shape {tuple(tensor.shape)}.")
        for letter, size in zip(word, tensor.shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise wrong(f"the letter {letter!r} has size {sizes[letter]} in one operand and {size} in another.")
    for letter in output:
        if letter not in "".join(letters):
            raise wrong(f"the output letter {letter!r} is in no operand.")
    assert isinstance(left, str | Rows) and isinstance(right, str | Rows)
    factor = finite_number(scale, f"nqf.quadratic({spec!r}, …): the scale")
    return Coupling(letters, output, left, tuple(c for c in coefficients if isinstance(c, Tensor)), right, factor)


def finite_number(value: Any, what: str) -> float:
    """A finite number; a tensor that training has to reach would lose its gradient here."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise InvalidInput(f"{what} is one number without a gradient; give a tensor with one as a coefficient.")
    try:
        number = float("nan") if isinstance(value, str) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = float("nan")
    if not isfinite(number):
        raise InvalidInput(f"{what} must be a finite number, got {value!r}.")
    return number
