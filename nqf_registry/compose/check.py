"""What must hold of a graph before a tensor of it is made; every message names the node, the port and both shapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import networkx as nx

from nqf_registry.compose.nodes import FORMS, LayerNode, Node
from nqf_registry.compose.ports import EdgeError, PortError, check_name, listed, shown
from nqf_registry.errors import GraphError, NQFError, named
from nqf_registry.layer import Port
from nqf_registry.spelling import did_you_mean


@dataclass(frozen=True)
class Origin:
    """Where a graph was written, so that a message can point there; empty for one built in Python.

    Attributes:
        file: the file as the user named it.
        lines: the line of each field, by its path, such as ("nodes", "hidden", "from", "x").
    """

    file: str = ""
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def at(self, *path: str) -> str:
        """The start of a message about this field: its file and the line of the nearest field that is written."""
        if not self.file:
            return ""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return f"{self.file}, line {self.lines[path[:length]]}: "
        return f"{self.file}: "


def order_of(inputs: Mapping[str, Port], nodes: Mapping[str, Node], output: str, origin: Origin) -> tuple[str, ...]:
    """The nodes sorted so that each comes after its sources, and by name where that leaves a choice.

    The order does not depend on how the graph was written down, so equal graphs draw equal weights and write equal files.

    Raises:
        GraphError: bad names, unknown sources, a cycle, a missing output, or something that nobody reads.
    """
    if not inputs:
        raise GraphError(f"{origin.at('inputs')}the graph has no inputs; name at least one with its shape, such as x: [64].")
    if not nodes:
        raise GraphError(f"{origin.at('nodes')}the graph has no nodes; it needs at least one layer.")
    for section, names in (("inputs", inputs), ("nodes", nodes)):
        for name in names:
            try:
                check_name(name, f"each of the {section}")
            except GraphError as error:
                raise GraphError(f"{origin.at(section, str(name))}{error}") from None
    for name in nodes:
        if name in inputs:
            raise GraphError(f"{origin.at('nodes', name)}{name!r} is both an input and a node; rename one of them.")
    if not any(isinstance(node, LayerNode) for node in nodes.values()):
        raise GraphError(f"{origin.at('nodes')}the graph has no layer, so there is nothing to train; it has {listed(nodes)}.")
    for name, node in nodes.items():
        _check_sources(inputs, nodes, name, node, origin)
    graph = edges_of(inputs, nodes)
    try:
        cycle = [edge[0] for edge in nx.find_cycle(graph)]
    except nx.NetworkXNoCycle:
        pass
    else:
        start = cycle.index(min(cycle))
        path = [*cycle[start:], *cycle[:start], cycle[start]]
        raise GraphError(
            f"{origin.at('nodes', path[0])}the graph has a cycle: {' -> '.join(path)}. A node reads only what was computed "
            "before it; "
            "take one of these edges away."
        )
    _check_output(inputs, nodes, output, origin)
    for name in (*inputs, *nodes):
        if name != output and graph.out_degree(name) == 0:
            what, section = ("input", "inputs") if name in inputs else ("node", "nodes")
            raise GraphError(
                f"{origin.at(section, name)}nobody reads the {what} {name!r}, and it is not the output; connect it or take it "
                "away."
            )
    return tuple(name for name in nx.lexicographical_topological_sort(graph) if name in nodes)


def edges_of(inputs: Mapping[str, Port], nodes: Mapping[str, Node]) -> nx.DiGraph:
    """The graph of sources and readers; an edge knows the ports that it feeds."""
    graph = nx.DiGraph()
    graph.add_nodes_from(inputs)
    graph.add_nodes_from(nodes)
    for name, node in nodes.items():
        for port, source in node.sources().items():
            if graph.has_edge(source, name):
                graph.edges[source, name]["ports"] += (port,)
            else:
                graph.add_edge(source, name, ports=(port,))
    return graph


def _check_sources(inputs: Mapping[str, Port], nodes: Mapping[str, Node], name: str, node: Node, origin: Origin) -> None:
    if isinstance(node, LayerNode) and node.form not in FORMS:
        raise GraphError(
            f"{origin.at('nodes', name, 'form')}node {name!r}: form must be one of {', '.join(FORMS)}, got {shown(node.form)}."
            f"{did_you_mean(str(node.form), FORMS)}"
        )
    sources = node.sources()
    if not sources and not isinstance(node, LayerNode):
        raise GraphError(f"{origin.at('nodes', name)}the {node.kind} node {name!r} reads nothing; name at least one source.")
    for port, source in sources.items():
        if source not in inputs and source not in nodes:
            raise GraphError(
                f"{_edge_origin(origin, name, node, port)}node {name!r}: {port_name(node, port)} is fed by {shown(source)}, "
                "which is no "
                f"node and no input.{did_you_mean(str(source), [*inputs, *nodes])} Inputs: {listed(inputs)}; nodes: "
                f"{listed(nodes)}."
            )


def _check_output(inputs: Mapping[str, Port], nodes: Mapping[str, Node], output: Any, origin: Origin) -> None:
    if output is None or output == "":
        raise GraphError(f"{origin.at('output')}the graph has no output; name the node that gives it, one of {listed(nodes)}.")
    if output not in nodes:
        what = "is an input" if output in inputs else "is no node"
        raise GraphError(
            f"{origin.at('output')}the output {shown(output)} {what}; name one of the nodes {listed(nodes)}."
            f"{did_you_mean(str(output), nodes)}"
        )


def ports_of(
    inputs: Mapping[str, Port], nodes: Mapping[str, Node], order: tuple[str, ...], output: str, origin: Origin
) -> dict[str, Port]:
    """The port that every input and node gives.

    Raises:
        GraphError: two ends of an edge do not fit, a port is fed by nothing, or the output is no (n, k).
    """
    known = dict(inputs)
    for name in order:
        node = nodes[name]
        sources = node.sources()
        try:
            known[name] = node.output({port: known[source] for port, source in sources.items()})
        except EdgeError as error:
            source, kind = sources[error.port], node.layer.key if isinstance(node, LayerNode) else node.kind
            end = f"{name}.{error.port}" if isinstance(node, LayerNode) else name
            raise GraphError(
                f"{_edge_origin(origin, name, node, error.port)}the edge {source} -> {end} does not fit: {source} gives "
                f"{error.given}, "
                f"{end} ({kind}) takes {error.wanted}. Change the sizes on one side, or the source."
            ) from None
        except PortError as error:
            raise GraphError(f"{_edge_origin(origin, name, node, error.port)}node {name!r}: {error}") from None
        except NQFError as error:
            raise GraphError(f"{origin.at('nodes', name)}node {name!r}: {error}") from error
        except Exception as error:
            raise GraphError(
                f"{origin.at('nodes', name)}node {name!r}: the layer could not be run on its own sample at W = 0, to learn its "
                "ports "
                f"({named(error)}); verify the layer first."
            ) from error
    given = known[output]
    if given.integer or len(given.shape) != 1:
        raise GraphError(
            f"{origin.at('output')}the output {output!r} gives {given}; an output is numbers of shape (n, k). "
            "Let the graph end in a layer, or in a sum or concatenation of such shapes."
        )
    return known


def port_name(node: Node, port: str) -> str:
    """A port as a message calls it: by name, or by position where it has none."""
    return f"port {port!r}" if isinstance(node, LayerNode) else f"part {int(port) + 1}"


def _edge_origin(origin: Origin, name: str, node: Node, port: str) -> str:
    return origin.at("nodes", name, "from" if isinstance(node, LayerNode) else node.kind, port)
