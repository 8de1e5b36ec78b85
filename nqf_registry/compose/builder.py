"""Writing a graph in Python, one node a call; it gives the same composition as the YAML file that says the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nqf_registry.compose.graph import Composition
from nqf_registry.compose.nodes import Concat, Identity, LayerNode, Node, Sum
from nqf_registry.compose.ports import check_name, listed, make_port, shown
from nqf_registry.errors import GraphError
from nqf_registry.layer import Layer, Port


class Graph:
    """A graph under construction: each call adds one input or node and returns a new graph, ``output`` ends in a composition.

    Sources may be named before they exist, so that mistakes are told with the whole graph in view.

    Example:
        >>> import nqf_registry as nqf
        >>> mlp = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=4, width=8)
        >>> net = nqf.Graph("twice").input("x", 4).layer("a", mlp, "x").layer("b", mlp, x="a", residual=True).output("b")
        >>> net.n_outputs(), net.n_weights
        (4, 128)
    """

    def __init__(self, name: str = "composition") -> None:
        self._name = name
        self._inputs: dict[str, Port] = {}
        self._nodes: dict[str, Node] = {}

    def input(self, name: str, *shape: int, integer: bool = False) -> Graph:
        """Adds a graph input of this shape, without the sample axis; no size at all is one number (or index) a sample."""
        return self._with(name, "input", make_port({"shape": list(shape), "integer": integer}, name))

    def layer(
        self,
        name: str,
        layer: Layer,
        source: str | None = None,
        /,
        *,
        form: str = "follow",
        residual: bool | str = False,
        feeds: Mapping[str, str] | None = None,
        **ports: str,
    ) -> Graph:
        """Adds a layer.

        Args:
            name: name of the node.
            layer: the layer, with its sizes.
            source: what feeds its only port.
            form: "follow", "original" or "nqf", see :class:`nqf_registry.compose.nodes.LayerNode`.
            residual: whether the input is added to the output; the port to add where there are several.
            feeds: what feeds each port, for ports whose names are taken here (form, residual, feeds).
            **ports: what feeds each port.

        Raises:
            GraphError: the name is taken, or a port is fed twice.
        """
        if not isinstance(layer, Layer):
            raise GraphError(
                f"node {name!r} needs a layer with its sizes, such as registry.get('two-layer-mlp', n_in=8); got "
                f"{shown(layer)}."
            )
        given = [*(feeds or {}).items(), *ports.items()]
        if source is not None:
            given.append((next(iter(single_port(name, layer))), source))
        fed: dict[str, str] = {}
        for port, origin in given:
            if port in fed:
                raise GraphError(
                    f"port {port!r} of node {name!r} is fed twice, by {fed[port]!r} and by {origin!r}; sum or concat them "
                    "first."
                )
            fed[port] = origin
        return self._with(name, "node", LayerNode(layer, fed, form, residual))

    def sum(self, name: str, *parts: str) -> Graph:
        """Adds the sum of its sources."""
        return self._with(name, "node", Sum(parts))

    def concat(self, name: str, *parts: str) -> Graph:
        """Adds the concatenation of its sources along the last axis."""
        return self._with(name, "node", Concat(parts))

    def identity(self, name: str, source: str) -> Graph:
        """Adds another name for a source."""
        return self._with(name, "node", Identity((source,)))

    def output(self, name: str) -> Composition:
        """The composition whose output is this node.

        Raises:
            GraphError: the graph is not valid.
        """
        return Composition(self._name, self._inputs, self._nodes, name)

    def _with(self, name: str, what: str, thing: Any) -> Graph:
        check_name(name, f"each {what}")
        if name in self._inputs or name in self._nodes:
            raise GraphError(
                f"the name {name!r} stands twice in the graph; rename one of them. Taken: "
                f"{listed([*self._inputs, *self._nodes])}."
            )
        graph = Graph(self._name)
        graph._inputs = {**self._inputs, **({name: thing} if what == "input" else {})}
        graph._nodes = {**self._nodes, **({name: thing} if what == "node" else {})}
        return graph


def single_port(name: str, layer: Layer) -> dict[str, Port]:
    """The ports of a layer that must be one.

    Raises:
        GraphError: it has several.
    """
    ports = layer.ports()
    if len(ports) != 1:
        raise GraphError(f"node {name!r}: {layer.key} has the ports {listed(ports)}; name a source for each of them.")
    return ports
