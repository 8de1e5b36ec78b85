"""What a composition is made of, one row an input or node: what the table, the JSON and the drawing show."""

from __future__ import annotations

from dataclasses import dataclass

from nqf_registry.compose.graph import Composition
from nqf_registry.compose.nodes import LayerNode
from nqf_registry.layer import Port


@dataclass(frozen=True)
class Feed:
    """One port of a node: its name, what feeds it and with which shape."""

    port: str
    source: str
    given: Port


@dataclass(frozen=True)
class Row:
    """One input or node.

    Attributes:
        name: its name.
        kind: "input", or the kind of the node.
        key: the layer's key, "" where it is no layer.
        form: the layer's form, "".
        feeds: its ports.
        residual: the port that is added to the output, "".
        given: the port that it gives.
        width: d, 0 without neurons.
        n_params: p, 0.
    """

    name: str
    kind: str
    key: str
    form: str
    feeds: tuple[Feed, ...]
    residual: str
    given: Port
    width: int
    n_params: int

    @property
    def n_weights(self) -> int:
        """All weights of the node, p · d."""
        return self.n_params * self.width


def rows_of(composition: Composition) -> list[Row]:
    """The inputs by name, then the nodes in the order of evaluation."""
    shapes = composition.shapes
    rows = [Row(name, "input", "", "", (), "", shapes[name], 0, 0) for name in sorted(composition.inputs)]
    for name in composition.order:
        node = composition.nodes[name]
        feeds = tuple(Feed(port, source, shapes[source]) for port, source in node.sources().items())
        if isinstance(node, LayerNode):
            layer = node.layer
            added = node.added_port or ""
            rows.append(Row(name, node.kind, layer.key, node.form, feeds, added, shapes[name], layer.width, layer.n_params))
        else:
            rows.append(Row(name, node.kind, "", "", feeds, "", shapes[name], 0, 0))
    return rows
