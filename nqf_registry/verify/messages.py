"""What a failing check says: expected, measured, the counterexample in brief, the next step, the command that replays it."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from nqf_registry.verify.report import Check

LONGEST = 240  # characters of a counterexample in a sentence
FEW = 4  # entries of W that are told by name where all others are zero
SHOWN = 3  # numbers of a row, and rows of a matrix, that a sentence shows
WIDTH = 110  # columns of the lines in a terminal
TERMINAL, REPORT = "in --json", "in the report's counterexample"  # where all of a counterexample is that a text shortens
# Told in another place of the message, or of use to a program only.
_UNTOLD = {
    *("sizes", "samples", "seed", "inputs_seed", "weights_seed", "example", "x", "W", "ray"),
    *("what", "raised", "sides", "forms", "drift", "low", "high"),
}


def paragraph(key: str, check: Check, sizes: Mapping[str, Any]) -> str:
    """The message of a failing check as one paragraph."""
    told = [f"{key}: {check.name} failed."]
    told += [f"{label.capitalize()}: {text}{'' if text.endswith('.') else '.'}" for label, text in parts(check, sizes, REPORT)]
    if check.replay:
        told.append(f"Replay: {check.replay}")
    return " ".join(told)


def labelled(check: Check, sizes: Mapping[str, Any], whole: str = TERMINAL) -> Iterator[str]:
    """The same on lines of their own, for a terminal."""
    for label, text in parts(check, sizes, whole):
        yield from textwrap.wrap(
            text,
            WIDTH,
            initial_indent=f"{label}:".ljust(16),
            subsequent_indent=" " * 16,
            break_long_words=False,
            break_on_hyphens=False,
        )
    if check.replay:
        yield "replay:".ljust(16) + check.replay  # never broken: it is there to be copied


def parts(check: Check, sizes: Mapping[str, Any], whole: str = TERMINAL) -> list[tuple[str, str]]:
    """What there is to say of a failing check, each with its label."""
    said = [("expected", check.expected), ("measured", check.measured)]
    if check.counterexample:
        said.append(("counterexample", brief(check.counterexample, sizes, whole)))
    said.append(("next", check.advice))
    return [(label, text) for label, text in said if text]


def brief(data: Mapping[str, Any], sizes: Mapping[str, Any] | None = None, whole: str = TERMINAL) -> str:
    """A counterexample on one line of bounded length.

    Args:
        data: the counterexample.
        sizes: those of the layer that was verified; where the counterexample is a variant of it, what differs is told.
        whole: where all of it is, told where something is left out.

    >>> brief({"sizes": {"width": 2}, "samples": 1, "permutation": [1, 0], "W": {"u": [[0.5, 0.0]]}})
    'width 2, 1 sample, permutation [1, 0], W.u = [[0.5, 0]]'
    """
    own = data.get("sizes", {})
    told = [f"width {own['width']}"] if "width" in own else []
    if "samples" in data:
        told.append(f"{data['samples']} sample{'s' * (data['samples'] != 1)}")
    if sizes is not None:
        told += [f"{name} {_short(value)}" for name, value in own.items() if name != "width" and value != sizes.get(name)]
    for name, value in data.items():
        if name not in _UNTOLD and value != []:
            told.append(_pair(name, value))
    for letter, name in (("W", "W"), ("R", "ray")):
        told += _weights(letter, data.get(name, {}))
    text = " ".join(", ".join(told).split())
    tail = f" (whole {whole})"
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + "…"
    return text.removesuffix("…") + tail if text.endswith("…") else text + tail * ("…" in text)


def _pair(name: str, value: Any) -> str:
    between = " = " if name.startswith("f(") else " "
    return f"{name.replace('_', ' ')}{between}{_short(value)}"


def _weights(letter: str, W: Mapping[str, Any]) -> list[str]:
    """Weights by their few entries that are not zero, else block by block."""
    entries = [(name, place, value) for name, block in W.items() for place, value in _entries(block)]
    kept = [entry for entry in entries if entry[2] != 0]
    if not kept:
        return [f"{letter} = 0"] if entries else []
    if len(entries) <= 2 * FEW:
        return [f"{letter}.{name} = {_short(block)}" for name, block in W.items()]
    if len(kept) > FEW:  # nothing about them is simpler than that they are all there
        return [f"{letter} of {len(kept)} entries that are not zero…"]
    return [f"{letter} = 0 but for " + ", ".join(f"{name}{list(place)} = {_short(value)}" for name, place, value in kept)]


def _entries(block: Any) -> Iterator[tuple[tuple[int, ...], float]]:
    if not isinstance(block, list | tuple):
        yield (), block
        return
    for index, part in enumerate(block):
        for place, value in _entries(part):
            yield (index, *place), value


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value + 0.0:.4g}"  # no -0
    if isinstance(value, list | tuple):
        return "[" + ", ".join([*map(_short, itertools.islice(value, SHOWN)), *["…"] * (len(value) > SHOWN)]) + "]"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(part)}" for name, part in value.items())
    return str(value)
