"""What is known of a plugin without importing it: the names it registered when it was last imported.

Stored as one small JSON file for each plugin, keyed by distribution, version, entry point and the place of its module, and
valid while every recorded file has the size and the modification time it had. Failures are never stored.
"""

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from nqf_registry import __version__
from nqf_registry.cache import read_json, write_json
from nqf_registry.discovery import Source

if TYPE_CHECKING:
    import click

    from nqf_registry.layer import Layer

FORMAT = 1


@dataclass(frozen=True)
class Metadata:
    """The names of one plugin, each with the line that listings print: title, short help, or first docstring line."""

    layers: dict[str, str]
    commands: dict[str, str]
    data: dict[str, str]


def describe(
    layers: "dict[str, type[Layer]]", commands: "dict[str, click.Command]", data: dict[str, Callable[..., Any]]
) -> Metadata:
    """The metadata of what a plugin registered."""
    return Metadata(
        layers={key: cls.title or key for key, cls in layers.items()},
        commands={name: command.get_short_help_str(100) for name, command in commands.items()},
        data={name: _first_line(loader) for name, loader in data.items()},
    )


def recall(source: Source) -> Metadata | None:
    """The stored metadata of a plugin, or None where there are none or its files have changed. Imports nothing."""
    stored: Any = read_json(_name(source))
    try:
        if stored["format"] != FORMAT or stored["library"] != __version__ or source.file not in stored["files"]:
            return None
        if any(_mark(path) != mark for path, mark in stored["files"].items()):
            return None
        names = stored["names"]
        tables = [names["layers"], names["commands"], names["data"]]
        if not all(isinstance(text, str) for table in tables for text in table.values()):
            return None
        return Metadata(*tables)
    except (TypeError, KeyError, AttributeError, ValueError):  # damaged, or written by something else
        return None


def remember(source: Source, metadata: Metadata, files: Iterable[str]) -> None:
    """Store the metadata of a plugin that has just been imported, valid while these files of it stay as they are."""
    marks = {path: _mark(path) for path in files}
    if source.file in marks and None not in marks.values():
        write_json(
            _name(source),
            {"format": FORMAT, "library": __version__, "files": marks, "names": asdict(metadata), "plugin": str(source)},
        )


def _name(source: Source) -> str:
    # The place of the module is part of the key: two environments may hold the same version in two checkouts.
    identity = "\0".join((source.distribution, source.version, source.name, source.value, source.file))
    return f"plugins/{hashlib.sha256(identity.encode(errors='surrogatepass')).hexdigest()[:24]}.json"


def _mark(path: str) -> list[int] | None:
    try:
        stat = os.stat(path)
    except (OSError, ValueError):  # ValueError: no name that a file can have, in a damaged cache
        return None
    return [stat.st_mtime_ns, stat.st_size]


def _first_line(loader: object) -> str:
    text = getattr(loader, "__doc__", None)
    return next(iter(text.strip().splitlines()), "") if isinstance(text, str) else ""
