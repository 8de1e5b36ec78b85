"""Compositions as YAML, both ways.

    name: two-layer                     # optional; a file's own name otherwise
    inputs:
      x: [64]                           # shape without the sample axis
      i: {shape: [], integer: true}     # one index a sample
    nodes:
      hidden:
        layer: gated-unit               # a key of the registry
        sizes: {n_in: 64, n_out: 16, width: 32}
        from: {x: x}                    # port: node or input; "from: x" where the layer has one port
        form: nqf                       # original, nqf or follow (the default)
        residual: true                  # adds the input to the output; the port's name where there are several
      skip: {concat: [hidden, x]}       # side by side along the last axis
      both: {sum: [hidden, hidden]}
      same: {identity: skip}
      readout: {layer: two-layer-mlp, sizes: {n_in: 80, n_out: 1}, from: {x: skip}}
    output: readout

Every mistake is one :class:`nqf_registry.GraphError` (or the registry's own error) that names the file, the line, the node, the
port and both shapes. What is written is canonical: all sizes, nodes in the order of evaluation, so equal compositions give
equal bytes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from nqf_registry.compose.builder import single_port
from nqf_registry.compose.check import Origin
from nqf_registry.compose.graph import Composition
from nqf_registry.compose.nodes import KINDS, LayerNode, Node, sizes_of
from nqf_registry.compose.ports import listed, make_port, shown, title_from
from nqf_registry.compose.yaml_text import Dumper, parse, read_text
from nqf_registry.errors import GraphError, NQFError, UnknownKey
from nqf_registry.layer import Layer, Port
from nqf_registry.spelling import did_you_mean

_FIELDS = ("name", "inputs", "nodes", "output")


class Layers(Protocol):
    """Where the keys of a graph file are looked up: a :class:`nqf_registry.Registry`."""

    def get(self, key: str, /, **sizes: Any) -> Layer:
        """The layer of this key with these sizes."""
        ...


def load_composition(path: str | os.PathLike[str], registry: Layers | None = None) -> Composition:
    """The composition in a YAML file.

    Args:
        path: the file.
        registry: where its layers are looked up; by default all installed plugins.

    Raises:
        GraphError: the file cannot be read, is no YAML, or describes no valid graph.
        UnknownKey: a node names a layer that is not registered.
        InvalidInput: a layer cannot be made with the sizes that a node gives.
    """
    name = os.fspath(path)
    return _read(read_text(Path(path), name), registry, name, title_from(Path(path).stem))


def from_yaml(text: str, registry: Layers | None = None) -> Composition:
    """The composition that a YAML text describes; as :func:`load_composition`."""
    return _read(text, registry, "YAML", "composition")


def to_yaml(composition: Composition) -> str:
    """The composition as canonical YAML.

    Raises:
        GraphError: a layer has a size that YAML cannot hold.
    """
    content = {
        "name": composition.key,
        "inputs": {name: _written_port(composition.inputs[name]) for name in sorted(composition.inputs)},
        "nodes": {name: _written(name, composition.nodes[name]) for name in composition.order},
        "output": composition.output,
    }
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=float("inf"))


class _Flow(dict):
    """A mapping written on one line."""


def _flow_mapping(dumper: Dumper, data: _Flow) -> yaml.Node:
    return dumper.represent_mapping("tag:yaml.org,2002:map", dict(data), flow_style=True)


def _flow_list(dumper: Dumper, data: list[Any] | tuple[Any, ...]) -> yaml.Node:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", list(data), flow_style=True)


Dumper.add_representer(_Flow, _flow_mapping)
Dumper.add_representer(list, _flow_list)
Dumper.add_representer(tuple, _flow_list)


# --------------------------------------------------------------------------------------------------------------- writing


def _written_port(port: Port) -> Any:
    return _Flow(shape=list(port.shape), integer=True) if port.integer else list(port.shape)


def _written(name: str, node: Node) -> dict[str, Any]:
    if not isinstance(node, LayerNode):
        parts = list(node.sources().values())
        return {node.kind: parts[0] if node.kind == "identity" else parts}
    sizes = sizes_of(node.layer)
    for size, value in sizes.items():
        if not _plain(value):
            raise GraphError(f"node {name!r}: the size {size}={shown(value)} of {node.layer.key} cannot be written as YAML.")
    feeds = {port: node.feeds[port] for port in node.ports}
    written: dict[str, Any] = {"layer": node.layer.key, "sizes": _Flow(sizes), "from": _Flow(feeds)}
    if node.form != "follow":
        written["form"] = node.form
    if node.residual is not False:
        written["residual"] = node.residual
    return written


def _plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_plain, value))
    return value is None or type(value) in (int, float, str, bool)


# --------------------------------------------------------------------------------------------------------------- reading


def _read(text: str, registry: Layers | None, name: str, key: str) -> Composition:
    content, origin = parse(text, name)
    if not isinstance(content, dict):
        what = "nothing" if content is None else "a list" if isinstance(content, list) else shown(content)
        raise GraphError(f"{origin.at()}expected a mapping with the fields {listed(_FIELDS)}, got {what}.")
    _known(content, _FIELDS, origin, "a graph file", ())
    for field in ("inputs", "nodes", "output"):
        if content.get(field) is None:
            raise GraphError(
                f"{origin.at(field)}the field {field!r} is missing or empty; a graph file has inputs, nodes and an output."
            )
    for field in ("inputs", "nodes"):
        if not isinstance(content[field], dict):
            raise GraphError(f"{origin.at(field)}{field} must be a mapping from names, got {shown(content[field])}.")
    for field in ("name", "output"):
        if not isinstance(content.get(field, ""), str):
            raise GraphError(f"{origin.at(field)}{field} must be a name as text, got {shown(content[field])}.")
    inputs = {}
    for port, value in content["inputs"].items():
        try:
            inputs[port] = make_port(value, port)
        except GraphError as error:
            raise GraphError(f"{origin.at('inputs', port)}{error}") from None
    nodes = {node: _read_node(node, value, registry, origin) for node, value in content["nodes"].items()}
    return Composition(content.get("name", key), inputs, nodes, content["output"], origin)


def _read_node(name: str, value: Any, registry: Layers | None, origin: Origin) -> Node:
    where = origin.at("nodes", name)
    if not isinstance(value, dict):
        raise GraphError(f"{where}node {name!r} must be a mapping such as {{sum: [a, b]}}, got {shown(value)}.")
    kinds = [kind for kind in KINDS if kind in value]
    if len(kinds) != 1:
        wrong = next((field for field in value if field not in LayerNode.options), "")
        what = f"it has both {' and '.join(kinds)}." if kinds else f"it has {listed(value)}.{did_you_mean(wrong, KINDS)}"
        raise GraphError(f"{where}node {name!r} must have one of the kinds {listed(KINDS)}; {what}")
    kind = KINDS[kinds[0]]
    _known(value, (kind.kind, *kind.options), origin, f"the {kind.kind} node {name!r}", ("nodes", name))
    if issubclass(kind, LayerNode):
        return _read_layer(name, value, registry, origin)
    parts = value[kind.kind]
    if kind.kind == "identity":
        parts = [parts]
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        wanted = "one name" if kind.kind == "identity" else "a list of names, such as [hidden, x]"
        raise GraphError(
            f"{origin.at('nodes', name, kind.kind)}node {name!r}: {kind.kind} takes {wanted}, got {shown(value[kind.kind])}."
        )
    return kind(tuple(parts))  # type: ignore[call-arg]


def _read_layer(name: str, value: Mapping[str, Any], registry: Layers | None, origin: Origin) -> LayerNode:
    sizes, feeds = value.get("sizes", {}), value.get("from")
    residual, form = value.get("residual", False), value.get("form", "follow")
    if not isinstance(value["layer"], str):
        raise GraphError(
            f"{origin.at('nodes', name, 'layer')}node {name!r}: layer must be a key as text, got {shown(value['layer'])}."
        )
    if not isinstance(sizes, dict):
        raise GraphError(
            f"{origin.at('nodes', name, 'sizes')}node {name!r}: sizes must be a mapping such as {{width: 32}}, got "
            f"{shown(sizes)}."
        )
    if not isinstance(residual, bool | str):
        raise GraphError(
            f"{origin.at('nodes', name, 'residual')}node {name!r}: residual must be true, false or a port, got "
            f"{shown(residual)}."
        )
    searched = registry is None  # the installed plugins alone
    if isinstance(residual, str) and residual.lower() in ("true", "false", "yes", "no"):
        raise GraphError(
            f"{origin.at('nodes', name, 'residual')}node {name!r}: residual is the text {residual!r}; write {residual.lower()} "
            "without quotes, or the name of a port."
        )
    if registry is None:
        from nqf_registry.registry import default_registry

        registry = default_registry()
    try:
        layer = registry.get(value["layer"], **{size: _frozen(given, True) for size, given in sizes.items()})
    except NQFError as error:
        hint = " Then pass that registry: registry=…" if searched and isinstance(error, UnknownKey) else ""
        raise type(error)(f"{origin.at('nodes', name, 'sizes' if sizes else 'layer')}node {name!r}: {error}{hint}") from error
    if isinstance(feeds, str):
        try:
            feeds = {next(iter(single_port(name, layer))): feeds}
        except GraphError as error:
            raise GraphError(f"{origin.at('nodes', name, 'from')}{error}") from None
    if not isinstance(feeds, dict):
        got = "it has none" if feeds is None else f"got {shown(feeds)}"
        raise GraphError(f"{origin.at('nodes', name, 'from')}node {name!r} needs from, a mapping such as {{x: source}}; {got}.")
    for port, source in feeds.items():
        if not isinstance(source, str):
            raise GraphError(
                f"{origin.at('nodes', name, 'from', port)}node {name!r}: port {port!r} takes one node or input by name, got "
                f"{shown(source)}; "
                "to feed it from several, sum or concat them in a node."
            )
    return LayerNode(layer, feeds, form, residual)


def _known(content: Mapping[str, Any], fields: tuple[str, ...], origin: Origin, what: str, path: tuple[str, ...]) -> None:
    for field in content:
        if field not in fields:
            raise GraphError(
                f"{origin.at(*path, field)}{what} has no field {field!r}.{did_you_mean(field, fields)} Fields: "
                f"{listed(fields)}."
            )


def _frozen(value: Any, top: bool = False) -> Any:
    """Lists inside lists as tuples, as a layer's frozen fields hold them; the outermost is for the field's type to decide."""
    if not isinstance(value, list):
        return value
    return [_frozen(part) for part in value] if top else tuple(map(_frozen, value))
