"""Typed ports: the names and shapes of what flows along the edges of a graph, without the sample axis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from nqf_registry.errors import GraphError
from nqf_registry.layer import Port

# No dot: weights are named "node.block" and ports "node.port".
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
UNFIT = re.compile(r"[\s/\\:]")  # what the name of a folder on some system cannot hold
LONGEST_TITLE = 100


class PortError(Exception):
    """What one node finds wrong with one of its ports; the graph adds both ends of the edge and raises ``GraphError``."""

    def __init__(self, port: str, message: str) -> None:
        super().__init__(message)
        self.port = port


class EdgeError(PortError):
    """The two ends of one edge do not fit: what the source gives, and what the port takes."""

    def __init__(self, port: str, given: str, wanted: str) -> None:
        super().__init__(port, f"it gives {given}, the port takes {wanted}")
        self.given, self.wanted = given, wanted


def check_name(name: Any, what: str) -> str:
    """The name itself.

    Raises:
        GraphError: it is no word of letters, digits, _ and - that starts with a letter or _.
    """
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise GraphError(f"{what} needs a name of letters, digits, _ and - that starts with a letter or _, got {shown(name)}.")
    return name


def check_title(name: Any, where: str = "") -> str:
    """The name of a composition itself, which also names folders and pictures.

    Raises:
        GraphError: it is no printable word of at most 100 letters, or could lead to another folder.
    """
    word = isinstance(name, str) and 0 < len(name) <= LONGEST_TITLE and not UNFIT.search(name) and name.isprintable()
    if not word or name[0] in ".-":
        raise GraphError(
            f"{where}a composition needs a name: one printable word of at most {LONGEST_TITLE} letters, without spaces and "
            f"slashes, that starts with neither . nor -; got {shown(name)}."
        )
    return name


def title_from(stem: str) -> str:
    """A name for a composition whose file has this stem, "_" in place of what a name cannot hold."""
    letters = (letter if letter.isprintable() else "_" for letter in UNFIT.sub("_", stem))
    return "".join(letters).lstrip(".-")[:LONGEST_TITLE] or "composition"


def make_port(value: Any, name: str) -> Port:
    """A port from how a person writes it: 64, [64], [] for one number a sample, or {shape: [...], integer: true}.

    Raises:
        GraphError: it is none of these, or a size is no positive integer.
    """
    if isinstance(value, Port):
        return value
    shape, integer = value, False
    if isinstance(value, Mapping):
        shape, integer = value.get("shape"), value.get("integer", False)
    sizes = (shape,) if isinstance(shape, int) else shape
    right = isinstance(sizes, list | tuple) and all(isinstance(s, int) and not isinstance(s, bool) and s > 0 for s in sizes)
    if not right or not isinstance(integer, bool) or (isinstance(value, Mapping) and set(value) - {"shape", "integer"}):
        raise GraphError(
            f"the input {name!r} needs a shape without the sample axis, such as [64], or {{shape: [], integer: true}} "
            f"for one index a sample; got {shown(value)}."
        )
    return Port(tuple(sizes), integer)  # type: ignore[arg-type]


def kind_of(port: Port) -> str:
    """What a port carries, for messages."""
    return "integers" if port.integer else "numbers"


def listed(names: Iterable[str]) -> str:
    """Names joined by commas, for messages."""
    return ", ".join(names) or "none"


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
