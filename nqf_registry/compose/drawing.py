"""The picture of a composition: boxes from inputs to output, each with its key, d, p and form."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nqf_registry.compose.facts import Row, rows_of
from nqf_registry.compose.graph import Composition
from nqf_registry.compose.layout import Box, Layout, lay_out
from nqf_registry.errors import InvalidInput, StorageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".svg", ".png", ".pdf")
_FILL = {"nqf": "#cfe3f5", "original": "#f9dfc4", "follow": "#e6e6e6", "": "#ffffff"}
_SIZE, _LINE, _PAD = 9.0, 0.17, 0.12  # points, inches, inches
_END = ("output",)  # a tuple, so that no node has this name


def draw(composition: Composition, path: str | os.PathLike[str], notes: Mapping[str, str] | None = None) -> Path:
    """Draws a composition into a file.

    Args:
        composition: what to draw.
        path: the file, its format by its ending: .svg, .png or .pdf.
        notes: one more line for some nodes, such as their verdicts.

    Raises:
        InvalidInput: another ending.
        StorageError: the file cannot be written.
    """
    path = Path(path)
    check_format(path)
    import matplotlib

    # No dates and no random ids: the same composition gives the same bytes.
    metadata = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}[path.suffix.lower()]
    figure = figure_of(composition, notes)
    try:
        with matplotlib.rc_context({"svg.hashsalt": composition.key}):
            figure.savefig(path, dpi=150, metadata=metadata)
    except OSError as error:
        raise StorageError(f"the drawing {path} cannot be written: {error.strerror or error}.") from error
    return path


def check_format(path: str | os.PathLike[str]) -> None:
    """Raises InvalidInput unless the file's ending is a format that can be drawn."""
    if Path(path).suffix.lower() not in FORMATS:
        raise InvalidInput(f"a drawing is a file that ends in {', '.join(FORMATS)}; got {os.fspath(path)}.")


def figure_of(composition: Composition, notes: Mapping[str, str] | None = None) -> Figure:
    """The picture as a matplotlib figure, without pyplot and so without any window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = {row.name: row for row in rows_of(composition)}
    texts = {name: _lines(row, (notes or {}).get(name)) for name, row in rows.items()}
    graph: Any = composition.edges()
    graph.add_edge(composition.output, _END, ports=())
    texts_all: dict[Any, list[str]] = {**texts, _END: [f"output {composition.shapes[composition.output]}"]}
    layout = lay_out(graph, {name: _box_size(lines) for name, lines in texts_all.items()})
    margin = 0.25
    figure = Figure(figsize=(layout.width + 2 * margin, layout.height + 2 * margin), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-margin, layout.width + margin)
    axes.set_ylim(-margin, layout.height + margin)
    axes.axis("off")
    for (source, target), data in graph.edges.items():
        many = target in rows and rows[target].key and len(rows[target].feeds) > 1
        _draw_edge(axes, layout, (source, target), ", ".join(data["ports"]) if many else "")
    for name, lines in texts_all.items():
        row = rows.get(name) if isinstance(name, str) else None
        _draw_box(axes, layout.boxes[name], lines, row)
    return figure


def _lines(row: Row, note: str | None) -> list[str]:
    """The lines of a box, the name first."""
    if row.kind == "input":
        return [row.name, f"input {row.given}"]
    if not row.key:
        return [row.name, f"{row.kind} {row.given}"]
    lines = [row.name, row.key, f"d = {row.width:,}, p = {row.n_params:,}", f"form: {row.form}"]
    if row.residual:
        lines.append(f"+ {row.residual} (residual)")
    if note:
        lines.append(note)
    return [*lines, f"gives {row.given}"]


def _box_size(lines: list[str]) -> tuple[float, float]:
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    widths = [
        TextPath((0, 0), line, size=_SIZE, prop=FontProperties(weight="bold" if i == 0 else "normal")).get_extents().width / 72
        for i, line in enumerate(lines)
    ]
    return max(widths) + 2 * _PAD, len(lines) * _LINE + 1.4 * _PAD


def _draw_box(axes: Any, box: Box, lines: list[str], row: Row | None) -> None:
    from matplotlib.patches import FancyBboxPatch

    plain = row is None or row.kind == "input"
    corner = (box.x - box.width / 2, box.y - box.height / 2)
    radius = min(0.15 if plain else 0.05, box.height / 2)
    axes.add_patch(
        FancyBboxPatch(
            corner,
            box.width,
            box.height,
            boxstyle=f"round,pad=0,rounding_size={radius}",
            facecolor=_FILL[row.form if row else ""],
            edgecolor="#444444",
            linewidth=0.9,
            linestyle="--" if plain else "-",
            zorder=3,
        )
    )
    top = box.y + (len(lines) - 1) / 2 * _LINE
    for i, line in enumerate(lines):
        bold = "bold" if i == 0 and row is not None else "normal"
        axes.text(box.x, top - i * _LINE, line, size=_SIZE, weight=bold, color="#111111", ha="center", va="center", zorder=4)


def _draw_edge(axes: Any, layout: Layout, edge: tuple[Any, Any], label: str) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    points = layout.routes[edge]
    vertices, codes = [points[0]], [Curve.MOVETO]
    for i, ((x0, y0), (x1, y1)) in enumerate(pairwise(points)):
        if i % 2:  # through a rank, along the edge's own lane
            vertices.append((x1, y1))
            codes.append(Curve.LINETO)
        else:  # between two ranks
            bend = (y0 + y1) / 2
            vertices += [(x0, bend), (x1, bend), (x1, y1)]
            codes += [Curve.CURVE4] * 3
    axes.add_patch(
        FancyArrowPatch(
            path=Curve(vertices, codes), arrowstyle="-|>", mutation_scale=9, color="#555555", linewidth=1.0, zorder=2
        )
    )
    if label:
        (bend, _), (x, y) = points[-2:]
        side = -1 if bend > x else 1  # away from the curve
        axes.text(
            x + 0.06 * side,
            y + 0.06,
            label,
            size=_SIZE - 1.5,
            color="#333333",
            ha="right" if side < 0 else "left",
            va="bottom",
            zorder=4,
        )
