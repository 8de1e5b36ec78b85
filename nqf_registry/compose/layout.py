"""Where the boxes of a layered drawing stand and how its edges run: ranks from top to bottom, no edge through a box.

Ranks are topological generations. An edge over several ranks gets an invisible box in each rank between, so it has its own
lane. The order within a rank comes from barycentre sweeps that keep the fewest crossings, the positions from least squares
under the distances that the boxes need (K. Sugiyama, S. Tagawa and M. Toda, IEEE Trans. SMC 11, 109, 1981).
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import networkx as nx

GAP = 0.35  # between boxes of a rank, inches
LANE = 0.12  # width of an edge's own lane
RANK_GAP = 0.5  # between ranks


@dataclass(frozen=True)
class Box:
    """A box by its centre and size, in inches, y upwards."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Layout:
    """Boxes by node, routes by edge (points from the source's bottom to the target's top), and the size of the whole."""

    boxes: Mapping[Hashable, Box]
    routes: Mapping[tuple[Hashable, Hashable], list[tuple[float, float]]]
    width: float
    height: float


def lay_out(graph: nx.DiGraph, sizes: Mapping[Any, tuple[float, float]]) -> Layout:
    """A layered layout of an acyclic graph.

    Args:
        graph: the graph.
        sizes: width and height of each node's box.
    """
    full, ranks = _with_lanes(graph)
    lane = {node for node in full if node not in sizes}
    width = {node: LANE if node in lane else sizes[node][0] for node in full}
    ranks = _fewest_crossings(full, ranks)
    x = _positions(full, ranks, width)
    left = min(x[node] - width[node] / 2 for node in full)
    x = {node: value - left for node, value in x.items()}
    boxes: dict[Hashable, Box] = {}
    tops, bottoms, y = {}, {}, 0.0
    for i, rank in enumerate(ranks):
        height = max(sizes[node][1] for node in rank if node not in lane)
        for node in rank:
            tops[node], bottoms[node] = y, y - height
            if node not in lane:
                boxes[node] = Box(x[node], y - height / 2, *sizes[node])
        y -= height + (RANK_GAP if i < len(ranks) - 1 else 0)
    starts, ends = _attached(graph, full, boxes, x)
    routes = {}
    for edge in graph.edges:
        points = [starts[edge]]
        for node in _lanes_of(full, edge):
            points += [(x[node], tops[node]), (x[node], bottoms[node])]
        routes[edge] = [*points, ends[edge]]
    boxes = {node: Box(box.x, box.y - y, box.width, box.height) for node, box in boxes.items()}
    routes = {edge: [(a, b - y) for a, b in points] for edge, points in routes.items()}
    return Layout(boxes, routes, max(x[node] + width[node] / 2 for node in full), -y)


def _with_lanes(graph: nx.DiGraph) -> tuple[nx.DiGraph, list[list[Any]]]:
    """The graph with an invisible node for each rank that an edge passes, and the nodes by rank."""
    ranks = [list(generation) for generation in nx.topological_generations(graph)]
    rank_of = {node: i for i, rank in enumerate(ranks) for node in rank}
    full = nx.DiGraph()
    full.add_nodes_from(graph)
    for source, target in graph.edges:
        chain = [source, *((source, target, i) for i in range(rank_of[source] + 1, rank_of[target])), target]
        nx.add_path(full, chain)
        for node in chain[1:-1]:
            ranks[node[2]].append(node)
    return full, ranks


def _lanes_of(full: nx.DiGraph, edge: tuple[Any, Any]) -> list[Any]:
    """The invisible nodes of an edge, downwards."""
    return sorted((node for node in full if isinstance(node, tuple) and node[:2] == edge), key=lambda node: node[2])


def _fewest_crossings(full: nx.DiGraph, ranks: list[list[Any]]) -> list[list[Any]]:
    best, fewest = ranks, _crossings(full, ranks)
    ranks = [list(rank) for rank in ranks]
    for sweep in range(12):
        down = sweep % 2 == 0
        order = range(1, len(ranks)) if down else range(len(ranks) - 2, -1, -1)
        for i in order:
            place = {node: j for j, node in enumerate(ranks[i - 1 if down else i + 1])}
            current = {node: j for j, node in enumerate(ranks[i])}

            centres = {}
            for node in ranks[i]:
                near = [place[other] for other in (full.predecessors(node) if down else full.successors(node))]
                centres[node] = sum(near) / len(near) if near else current[node]
            ranks[i].sort(key=centres.__getitem__)
        count = _crossings(full, ranks)
        if count < fewest:
            best, fewest = [list(rank) for rank in ranks], count
    return best


def _crossings(full: nx.DiGraph, ranks: list[list[Any]]) -> int:
    total = 0
    for upper, lower in itertools.pairwise(ranks):
        place = {node: j for j, node in enumerate(lower)}
        ends = [place[other] for node in upper for other in sorted(full.successors(node), key=lambda other: place[other])]
        total += sum(a > b for i, a in enumerate(ends) for b in ends[i + 1 :])
    return total


def _positions(full: nx.DiGraph, ranks: list[list[Any]], width: Mapping[Any, float]) -> dict[Any, float]:
    x: dict[Any, float] = {}
    for rank in ranks:
        at = 0.0
        for node in rank:
            x[node] = at + width[node] / 2
            at += width[node] + GAP
        for node in rank:
            x[node] -= at / 2
    for sweep in range(20):
        for rank in ranks if sweep % 2 else reversed(ranks):
            wanted = []
            for node in rank:
                near = [x[other] for other in (*full.predecessors(node), *full.successors(node))]
                wanted.append(sum(near) / len(near))
            offsets = [0.0]
            for a, b in itertools.pairwise(rank):
                offsets.append(offsets[-1] + (width[a] + width[b]) / 2 + GAP)
            free = _increasing([want - offset for want, offset in zip(wanted, offsets, strict=True)])
            x.update((node, value + offset) for node, value, offset in zip(rank, free, offsets, strict=True))
    return x


def _increasing(values: list[float]) -> list[float]:
    """The nearest non-decreasing sequence in least squares (pool adjacent violators)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        mean, count = value, 1
        while pools and pools[-1][0] > mean:
            before, size = pools.pop()
            mean, count = (mean * count + before * size) / (count + size), count + size
        pools.append((mean, count))
    return [mean for mean, count in pools for _ in range(count)]


def _attached(
    graph: nx.DiGraph, full: nx.DiGraph, boxes: Mapping[Any, Box], x: Mapping[Any, float]
) -> tuple[dict[Any, tuple[float, float]], dict[Any, tuple[float, float]]]:
    """Where each edge leaves and enters its boxes: side by side, in the order of their other ends, so that none cross there."""
    starts, ends = {}, {}
    for node in graph:
        box = boxes[node]
        for outgoing, into, sign in ((True, starts, -1), (False, ends, 1)):
            towards = {}
            for edge in graph.out_edges(node) if outgoing else graph.in_edges(node):
                chain = [edge[0], *_lanes_of(full, edge), edge[1]]
                towards[edge] = x[chain[1 if outgoing else -2]]
            edges = sorted(towards, key=towards.__getitem__)
            for j, edge in enumerate(edges):
                step = min(0.5, 0.8 * box.width / len(edges))
                into[edge] = (box.x + step * (j - (len(edges) - 1) / 2), box.y + sign * box.height / 2)
    return starts, ends
