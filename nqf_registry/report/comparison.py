"""A committed catalogue against what is measured now: every fact that changed, by entry and field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nqf_registry.report.columns import Facts

# Digits that were rounded to six may differ by one in the last between machines, whose single-precision samples do.
_RELATIVE = 2e-5
_LARGEST = 1e300
ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One fact that is not what was committed.

    Attributes:
        entry: key of the entry, or the name of a file.
        field: path of the fact, "structure.rank".
        committed: its committed value, ``ABSENT`` where there is none.
        measured: its value now.
    """

    entry: str
    field: str
    committed: Any
    measured: Any

    def __str__(self) -> str:
        return f"{self.entry}: {self.field}: committed {_shown(self.committed)}, measured {_shown(self.measured)}"


def differences(committed: Sequence[Facts], measured: Sequence[Facts], partial: bool = False) -> list[Difference]:
    """What changed, entries sorted by key.

    Args:
        committed: the entries of ``catalogue.json``.
        measured: the entries as they are now.
        partial: whether only some entries were measured, so that the others are not missed.
    """
    before, now = {e["key"]: e for e in committed}, {e["key"]: e for e in measured}
    found: list[Difference] = []
    for key in sorted(before.keys() | now.keys()):
        if key not in now:
            if not partial:
                found.append(Difference(key, "entry", "in the catalogue", ABSENT))
        elif key not in before:
            found.append(Difference(key, "entry", ABSENT, "registered"))
        else:
            found += [Difference(key, *change) for change in _changes(before[key], now[key], "")]
    return found


def _changes(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        for name in sorted(a.keys() | b.keys()):
            yield from _changes(a.get(name, ABSENT), b.get(name, ABSENT), f"{path}.{name}" if path else str(name))
    elif isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if path.endswith("fingerprint"):
            if not _close(a, b):
                yield path, a, b
        elif len(a) != len(b) or any(True for pair in zip(a, b, strict=True) for _ in _changes(*pair, path)):
            yield path, a, b
    elif a != b or isinstance(a, bool) != isinstance(b, bool):  # JSON tells true from 1, Python's == does not
        yield path, a, b


def _close(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two fingerprints agree in all but the last of their digits."""
    if len(a) != len(b):
        return False
    bound = _RELATIVE * max((abs(v) for v in b if _number(v)), default=0.0)  # of what is measured: the file may hold anything
    return all(abs(u - v) <= bound if _number(u) and _number(v) else u is None and v is None for u, v in zip(a, b, strict=True))


def _number(value: Any) -> bool:
    """Whether a value is a finite number that a fingerprint may hold."""
    return isinstance(value, float | int) and not isinstance(value, bool) and abs(value) < _LARGEST


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 160 else text[:157] + "…"
