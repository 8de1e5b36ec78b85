"""The catalogue as JSON: facts that every machine agrees on in one file, what was measured in digits in another."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.report.columns import Facts

FORMAT = "nqf-catalogue/1"


def json_text(obj: Any) -> str:
    """JSON with two spaces, ending in a newline. Keys stay in their order: that of blocks and of checks means something."""
    return json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def facts_text(entries: Sequence[Facts]) -> str:
    """``catalogue.json``."""
    return json_text({"format": FORMAT, "entries": list(entries)})


def measurements_text(measurements: Mapping[str, Any]) -> str:
    """``measurements.json``."""
    return json_text({"format": FORMAT, **measurements})


def read_facts(path: Path) -> list[dict[str, Any]]:
    """The entries of a committed ``catalogue.json``.

    Raises:
        InvalidInput: the file is missing, cannot be read, or is no catalogue of this format.
    """
    again = "run `nqf catalogue` to write it again"
    try:
        found = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except IsADirectoryError:
        raise InvalidInput(f"the committed catalogue {path} is a folder; remove it, then {again}.") from None
    except FileNotFoundError:
        raise InvalidInput(f"expected the committed catalogue at {path}, found no file there; {again}.") from None
    except OSError as error:
        raise InvalidInput(f"the committed catalogue {path} cannot be read: {error.strerror or error}; {again}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"the committed catalogue {path} is no JSON ({error}); {again}.") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        got = repr(found.get("format")) if isinstance(found, dict) else type(found).__name__
        raise InvalidInput(f'the committed catalogue {path} should say "format": "{FORMAT}", got {got}; {again}.')
    entries = found.get("entries")
    if not isinstance(entries, list) or not all(isinstance(e, dict) and isinstance(e.get("key"), str) for e in entries):
        raise InvalidInput(f"the committed catalogue {path} should hold a list of entries, each with its key; {again}.")
    keys = [entry["key"] for entry in entries]
    if twice := sorted({key for key in keys if keys.count(key) > 1}):
        raise InvalidInput(f"the committed catalogue {path} holds {', '.join(twice)} more than once; {again}.")
    return entries


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")
