"""YAML text to plain values with the line of each, refusing what a graph file never needs.

The text is only parsed to YAML's own nodes, never constructed by a loader, so that no tag can run code. A name that stands
twice, which YAML loaders let win silently, is an error here; aliases are counted at the size they would expand to before
anything is expanded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from nqf_registry.compose.check import Origin
from nqf_registry.compose.ports import shown
from nqf_registry.errors import GraphError

LARGEST_FILE = 256 * 1024
MOST_VALUES = 20_000
DEEPEST = 40
_CORE = {f"tag:yaml.org,2002:{name}": name for name in ("str", "int", "float", "bool", "null", "map", "seq")}

_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*|(0|[1-9][0-9]*)?\.[0-9]*)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")

Place = tuple[str, ...]


class Loader(yaml.SafeLoader):
    """YAML's own loader, except that 1e-3 is a number, as everywhere else; YAML 1.1 asks for a dot."""


class Dumper(yaml.SafeDumper):
    """The dumper that belongs to it: it quotes the texts that ``Loader`` would take for numbers."""

    def ignore_aliases(self, data: Any) -> bool:
        """Two equal values are written twice."""
        return True


for _cls in (Loader, Dumper):
    _cls.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+$"), list("-+0123456789"))


def read_text(path: Path, name: str) -> str:
    """The text of a file.

    Raises:
        GraphError: it is not there, is too large or no UTF-8.
    """
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise GraphError(f"{name}: expected a YAML file, but it cannot be read: {error.strerror or error}.") from None
    if len(data) > LARGEST_FILE:
        raise GraphError(f"{name}: a graph file has at most {LARGEST_FILE // 1024} KiB, this one has more.")
    try:
        if 0 in data:
            line = data[: data.index(0)].count(b"\n") + 1
            raise GraphError(f"{name}, line {line}: the file holds a zero byte, so it is no text; save it as UTF-8.")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise GraphError(
            f"{name}, line {line}: the file is not UTF-8 text (byte 0x{data[error.start]:02x}); save it as UTF-8."
        ) from None


def parse(text: str, name: str) -> tuple[Any, Origin]:
    """The plain value of a YAML text, and where each part of it stands.

    Args:
        text: one YAML document.
        name: what messages call it.

    Raises:
        GraphError: it is no YAML, holds a name twice, a tag, or expands without end.
    """
    try:
        _check_depth(text, name)
        root = yaml.compose(text, Loader=Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}, line {mark.line + 1}" if mark else name
        said = (
            [error.problem or ""] if error.problem and not error.problem.startswith("but ") else [error.context, error.problem]
        )
        raise GraphError(f"{where}: this is no valid YAML: {' '.join(filter(None, said))}.") from None
    except yaml.YAMLError as error:
        raise GraphError(f"{name}: this is no valid YAML: {' '.join(str(error).split())}.") from None
    if root is None:
        return None, Origin(name, {(): 1})
    _count(root, name, {}, set(), 0)
    lines: dict[Place, int] = {}
    return _value(root, (), name, lines), Origin(name, lines)


def _check_depth(text: str, name: str) -> None:
    """Refuses deep nesting by the events alone, because composing them recurses."""
    depth = 0
    for event in yaml.parse(text, Loader=Loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise _too_deep(event, name)


def _too_deep(at: yaml.Node | yaml.Event, name: str) -> GraphError:
    return GraphError(f"{_line(at, name)}the YAML is nested too deeply; a graph file has at most {DEEPEST} levels.")


def _line(at: yaml.Node | yaml.Event, name: str) -> str:
    return f"{name}, line {at.start_mark.line + 1}: "


def _count(node: yaml.Node, name: str, known: dict[int, int], above: set[int], depth: int) -> int:
    """The number of values below a node with all aliases expanded, found without expanding them."""
    if id(node) in known:
        return known[id(node)]
    if id(node) in above:
        raise GraphError(f"{_line(node, name)}an alias (*) refers to a value that holds the alias itself; write the value out.")
    if depth > DEEPEST:
        raise _too_deep(node, name)
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        parts = node.value
    elif isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    size = 1 + sum(_count(part, name, known, above | {id(node)}, depth + 1) for part in parts)
    if size > MOST_VALUES:
        raise GraphError(
            f"{_line(node, name)}with any aliases (*) written out the file holds more than {MOST_VALUES} values; write a "
            "smaller graph."
        )
    known[id(node)] = size
    return size


def _value(node: yaml.Node, path: Place, name: str, lines: dict[Place, int]) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    kind = _CORE.get(node.tag)
    plain = isinstance(node, yaml.ScalarNode) and node.style is None
    if plain and kind in ("int", "float") and not _NUMBER.fullmatch(node.value):
        raise GraphError(
            f"{_line(node, name)}{shown(node.value)} is a number in YAML 1.1 alone (octal, base 60, with _); write it in "
            "decimal, or put it in quotes if it is text."
        )
    if kind is None:
        raise GraphError(
            f"{_line(node, name)}a graph file holds texts, numbers, lists and mappings; {_tagged(node)} is none of them."
        )
    if isinstance(node, yaml.SequenceNode):
        return [_value(part, (*path, str(i)), name, lines) for i, part in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, name, lines)
    try:
        return _SCALARS.construct_object(node)
    except (yaml.YAMLError, ValueError):
        raise GraphError(f"{_line(node, name)}expected a value of type {kind}, got {shown(node.value)}.") from None


def _mapping(node: yaml.MappingNode, path: Place, name: str, lines: dict[Place, int]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode) or _CORE.get(key_node.tag) != "str":
            what = shown(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
            raise GraphError(f"{_line(key_node, name)}expected a name as text, got {what}; put it in quotes if it is one.")
        key = key_node.value
        here = (*path, key)
        if key in result:
            first = f"first on line {lines[here]}"
            if path[:1] == ("nodes",) and path[2:] == ("from",):
                raise GraphError(
                    f"{_line(key_node, name)}port {key!r} of node {path[1]!r} is fed twice ({first}); one port takes one "
                    "source, "
                    "so sum or concat them first."
                )
            raise GraphError(f"{_line(key_node, name)}{key!r} stands twice{_in(path)} ({first}); keep one.")
        lines[here] = key_node.start_mark.line + 1
        result[key] = _value(value_node, here, name, lines)
    return result


def _in(path: Place) -> str:
    return f" in {'.'.join(path)}" if path else ""


def _tagged(node: yaml.Node) -> str:
    return node.tag.replace("tag:yaml.org,2002:", "!!") + (f" {shown(node.value)}" if isinstance(node, yaml.ScalarNode) else "")


_SCALARS = yaml.constructor.SafeConstructor()
