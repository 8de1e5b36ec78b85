"""A(x) as a picture: one coloured cell an entry, lines between the blocks, blue below zero and red above.

The SVG is written here, cell by cell, so that the same numbers give the same bytes; it takes the colour of the text around it
for its lines and names, and its colours fade into whatever lies behind, so that it fits a light page and a dark one.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nqf_registry.couplings import layout
from nqf_registry.errors import InvalidInput, StorageError
from nqf_registry.layer import Layer
from nqf_registry.report.structure_facts import measurable, samples_of, structure_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CELLS = 64  # a picture has at most about this many cells a side
LEVELS = 20  # shades of each colour
POSITIVE, NEGATIVE = "#d1495b", "#2f7fc1"


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn.

    Attributes:
        values: (c, c), each the entry of largest size in its cell, divided by the largest of all.
        blocks: name of each block, its first cell and one past its last.
        scale: the largest size of an entry.
        p: the number of parameters.
    """

    values: Tensor
    blocks: tuple[tuple[str, int, int], ...]
    scale: float
    p: int

    @property
    def pooled(self) -> bool:
        """Whether a cell stands for more than one entry."""
        return len(self.values) < self.p


def picture_of(layer: Layer, sample: int = 0, output: int = 0, cells: int = CELLS) -> Picture:
    """A(x) of one of the layer's own samples and one output, of about ``cells`` cells a side at most.

    Raises:
        InvalidInput: p is too large to form A(x), or A(x) is not finite.
    """
    if not measurable(layer):
        raise InvalidInput(
            f"{layer.key}: A(x) is {layer.n_params} × {layer.n_params}, too large to draw; choose smaller sizes with --set."
        )
    A = structure_of(layer, samples_of(layer, max(sample + 1, 2))).dense(torch.float64)[sample, output]  # (p, p)
    if not bool(torch.isfinite(A).all()):
        raise InvalidInput(f"{layer.key}: A(x) is not finite on the layer's own samples, so there is nothing to draw.")
    p = len(A)
    edges, blocks = [0], []
    for name, where in layout(layer.blocks()).items():
        size = where.stop - where.start
        count = size if p <= cells else min(size, max(3, round(size * cells / p)))
        first = len(edges) - 1
        edges += [where.start + round(size * (i + 1) / count) for i in range(count)]
        blocks.append((name, first, len(edges) - 1))
    scale = float(A.abs().max())
    return Picture(_pooled(A, edges) / (scale or 1.0), tuple(blocks), scale, p)


def _pooled(A: Tensor, edges: list[int]) -> Tensor:
    """The entry of largest size in each cell: an average would hide a one-hot coupling."""
    if len(edges) == len(A) + 1:
        return A
    rows = torch.stack([_largest(A[a:b], 0) for a, b in pairwise(edges)])  # (c, p)
    return torch.stack([_largest(rows[:, a:b], 1) for a, b in pairwise(edges)], 1)


def _largest(part: Tensor, axis: int) -> Tensor:
    return part.gather(axis, part.abs().argmax(axis, keepdim=True)).squeeze(axis)


def svg(picture: Picture, title: str, standalone: bool = False) -> str:
    """The picture as SVG.

    Args:
        picture: what :func:`picture_of` gave.
        title: what it shows, for those who hear it; escaped here.
        standalone: for a file of its own, with a white background and black lines, rather than for a page.
    """
    c = len(picture.values)
    cell = max(4, round(192 / c))
    side, margin = c * cell, 22
    shades: dict[int, list[str]] = {}
    for i, row in enumerate(picture.values.tolist()):
        for j, value in enumerate(row):
            level = round(abs(value) * LEVELS)
            if level or abs(value) > 1e-10:
                signed = max(level, 1) * (1 if value > 0 else -1)
                shades.setdefault(signed, []).append(f"M{margin + j * cell} {margin + i * cell}h{cell}v{cell}h-{cell}z")
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {side + margin + 2} {side + margin + 2}" role="img"'
           f' width="{side + margin + 2}" height="{side + margin + 2}">', f"<title>{escape(title)}</title>"]  # fmt: skip
    ink = "#222" if standalone else "currentColor"
    if standalone:
        out.append('<rect width="100%" height="100%" fill="#fff"/>')
    for signed in sorted(shades):
        colour = POSITIVE if signed > 0 else NEGATIVE
        out.append(f'<path fill="{colour}" fill-opacity="{abs(signed) / LEVELS:.2f}" d="{"".join(shades[signed])}"/>')
    lines = "".join(
        f"M{margin + e * cell} {margin}v{side}M{margin} {margin + e * cell}h{side}" for _, e, _ in picture.blocks[1:]
    )
    if lines:
        out.append(f'<path stroke="{ink}" stroke-opacity=".45" fill="none" d="{lines}"/>')
    out.append(
        f'<rect x="{margin}" y="{margin}" width="{side}" height="{side}" fill="none" stroke="{ink}" stroke-opacity=".6"/>'
    )
    font = f'font-family="ui-serif, Georgia, serif" font-style="italic" font-size="13" text-anchor="middle" fill="{ink}"'
    out.append(f"<g {font}>")
    for name, first, last in picture.blocks:
        middle = margin + (first + last) * cell / 2
        label = escape(name if len(name) * 7 <= max((last - first) * cell, 14) else name[:1] + "…")
        turned = f' transform="rotate(-90 {margin - 10} {middle:g})"' if len(label) > 1 else ""
        out.append(f'<text x="{middle:g}" y="{margin - 7}">{label}</text>')
        out.append(f'<text x="{margin - 7}" y="{middle + 4:g}"{turned}>{label}</text>')
    return "".join(out) + "</g></svg>"


def figure(picture: Picture, title: str) -> Figure:
    """The picture as a matplotlib figure with a colour bar."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    fig = Figure(figsize=(4.8, 4.2), dpi=160, layout="constrained")
    ax: Any = fig.subplots()
    colours = LinearSegmentedColormap.from_list("signed", [NEGATIVE, "#ffffff", POSITIVE])
    scale = picture.scale or 1.0
    image = ax.imshow((picture.values * scale).numpy(), cmap=colours, vmin=-scale, vmax=scale, interpolation="nearest")
    for _, first, _ in picture.blocks[1:]:
        ax.axhline(first - 0.5, color="#444", linewidth=0.6)
        ax.axvline(first - 0.5, color="#444", linewidth=0.6)
    middles = [(first + last - 1) / 2 for _, first, last in picture.blocks]
    names = [name.replace("$", r"\$") for name, _, _ in picture.blocks]
    ax.set_xticks(middles, names, style="italic")
    ax.set_yticks(middles, names, style="italic")
    ax.tick_params(length=0)
    ax.set_title(title.replace("$", r"\$").replace(": ", "\n", 1), fontsize=9)
    fig.colorbar(image, ax=ax, shrink=0.85)
    return fig


def write_picture(layer: Layer, path: str | Path, output: int = 0) -> Path:
    """Writes A(x) of a layer's first sample to a .png or .svg file.

    Raises:
        InvalidInput: the file has another ending, or p is too large.
        StorageError: the file cannot be written.
    """
    path = checked_suffix(path)
    picture = picture_of(layer, output=output)
    title = caption(layer, picture, output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".svg":
            path.write_text(svg(picture, title, standalone=True) + "\n", encoding="utf-8")
        else:
            figure(picture, title).savefig(path, metadata={"Software": None})
    except OSError as error:
        raise StorageError(
            f"the picture could not be written to {path}: {error.strerror or error}; choose another place."
        ) from error
    return path


def checked_suffix(path: str | Path) -> Path:
    """The path of a picture, once its ending is one that can be written.

    Raises:
        InvalidInput: it is another.
    """
    path = Path(path)
    if path.suffix.lower() not in (".png", ".svg"):
        raise InvalidInput(f"a picture is a .png or .svg file, got {str(path)!r}; choose one of those endings.")
    return path


def caption(layer: Layer, picture: Picture, output: int = 0) -> str:
    """One line that says what the picture shows."""
    k = layer.n_outputs()
    which = f", output {output + 1} of {k}" if k > 1 else ""
    cells = "; a cell shows the largest entry of those it stands for" if picture.pooled else ""
    return f"A(x) of {layer.key}, one sample{which}: p = {picture.p}, largest entry {picture.scale:.3g}{cells}"
