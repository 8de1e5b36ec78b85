"""Examples of a command line: one line for one layer, or the failing checks of a report file for several."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.context import sizes_of
from nqf_registry.verify.examples import parse_example
from nqf_registry.verify.replay import replay
from nqf_registry.verify.report import FAIL, STATUSES, Check, plain

LARGEST = 64 * 2**20  # bytes of a report file; a report takes some 10 KiB a layer

Replayed = list[tuple[Layer, list[Check]]]


def replay_all(layers: Sequence[Layer], example: str, profile: str) -> Replayed:
    """Replays an example on the one layer, or a report file on each of the layers that it names.

    Args:
        layers: what the command line names.
        example: a line such as ``smoothness:width=2``, or the path of a file that ``nqf verify … --json`` wrote.
        profile: brief, dev, ci or deep.

    Raises:
        InvalidInput: a line is given for several layers, or is no example; the file is no report, or none of these layers.
    """
    if not is_path(example):
        if len(layers) != 1:
            keys = _few(layer.key for layer in layers)
            raise InvalidInput(f"one example is replayed on one layer, got {len(layers)} ({keys}); name one of them.")
        return [(layers[0], [replay(layers[0], example, profile)])]
    recorded = read_reports(example)
    keys = [layer.key for layer in layers]
    named = [layer for layer in layers if layer.key in recorded]
    if not named:
        raise InvalidInput(f"{example} holds no report of {_few(keys)}; the layers that it reports are {_few(recorded)}.")
    failing = [layer for layer in named if any(lines for _, lines in recorded[layer.key])]
    if not failing:
        raise InvalidInput(f"{example} holds no failing check of {_few(layer.key for layer in named)}: nothing to replay.")
    for layer in failing:
        for sizes, _ in recorded[layer.key]:
            _compare(layer, sizes, example)
    return [(layer, [replay(layer, line, profile) for _, lines in recorded[layer.key] for line in lines]) for layer in failing]


def read_reports(path: str | os.PathLike[str]) -> dict[str, list[tuple[Mapping[str, Any], list[str]]]]:
    """What each report of a file says, by the key of the layer: its sizes, and the examples of its failing checks.

    Raises:
        InvalidInput: the file cannot be read, is no JSON, or is no list of reports.
    """
    data = _read(path)
    reports: dict[str, list[tuple[Mapping[str, Any], list[str]]]] = {}
    for place, report in enumerate(data if isinstance(data, list) else [data]):
        where = f"{path}: report {place}"
        checks = _field(report, "checks", list, where)
        lines: list[str] = []
        sizes = _field(report, "sizes", dict, where)
        reports.setdefault(_field(report, "layer", str, where), []).append((sizes, lines))
        for number, check in enumerate(checks):
            at = f"{where}, check {number}"
            status = _field(check, "status", str, at)
            if status not in STATUSES:
                raise InvalidInput(f"{at}: there is no status {status[:40]!r}; give a file that nqf verify … --json wrote.")
            if status != FAIL:
                continue
            found = _field(check, "counterexample", dict, at)
            line = _field(found, "example", str, f"{at}, counterexample")
            parse_example(line, CHECKS)  # all are read before any work begins
            lines.append(line)
    return reports


def _compare(layer: Layer, sizes: Mapping[str, Any], path: str) -> None:
    """Refuses a layer of other sizes than those that were reported: its examples would not be the same."""
    own = plain(sizes_of(layer))
    other = [f"--set {name}={value}" for name, value in sizes.items() if name in own and own[name] != value]
    if other:
        raise InvalidInput(f"{path} reports {layer.key} at other sizes; add {_few(other, ' ')} to the command.")


def _few(names: Iterable[str], between: str = ", ") -> str:
    """Names of a file, which may be many and long."""
    names = list(names)
    shown = [name if len(name) <= 60 else f"{name[:57]}…" for name in names[:6]]
    shown = ["".join(c if c.isprintable() else "?" for c in name) for name in shown]
    return between.join([*shown, *["…"] * (len(names) > 6)]) or "none"


def is_path(example: str) -> bool:
    """Whether an argument means a file: no example has an ending, a separator, or the name of a file that is there."""
    name = example.partition(":")[0].strip()
    return name not in CHECKS and (example.lower().endswith(".json") or os.sep in example or os.path.exists(example))


def _read(path: str | os.PathLike[str]) -> Any:
    expected = "expected a file that nqf verify … --json wrote"
    try:
        if Path(path).is_dir():
            raise InvalidInput(f"{path} is a folder; {expected}.")
        if not Path(path).is_file():
            raise InvalidInput(
                f"{path} is no file; {expected}." if Path(path).exists() else f"{path} is not there; {expected}."
            )
        if (size := Path(path).stat().st_size) > LARGEST:
            raise InvalidInput(f"{path} has {size / 2**20:.0f} MiB, at most {LARGEST >> 20} are read; {expected}.")
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"{path} cannot be read ({error}); {expected}.") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} is no JSON ({error}); {expected}.") from error


def _field(data: Any, name: str, kind: type, where: str) -> Any:
    """One field of a record, of the type that it must have."""
    if not isinstance(data, dict) or not isinstance(data.get(name), kind):
        came = (
            f"a {type(data).__name__}"
            if not isinstance(data, dict)
            else (f"{name} is {type(data[name]).__name__}" if name in data else f"no {name}")
        )
        raise InvalidInput(
            f"{where}: expected {name} as a {kind.__name__}, got {came}; give a file that nqf verify … --json wrote."
        )
    return data[name]
