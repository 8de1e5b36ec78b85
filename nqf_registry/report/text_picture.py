"""A(x) as text: one sign a cell, lines between the blocks."""

from __future__ import annotations

from nqf_registry.report.picture import Picture

STRONG, WEAK = 0.5, 1e-10  # of the largest entry
MARKS = {(1, True): "+", (-1, True): "-", (1, False): "'", (-1, False): ","}


def text_picture(picture: Picture, indent: str = "  ") -> str:
    """The picture in characters: + and - for entries above half the largest, ' and , for smaller ones, · for zero.

    Example:
        >>> import nqf_registry as nqf
        >>> from nqf_registry.report.picture import picture_of
        >>> print(text_picture(picture_of(nqf.default_registry().get("two-layer-mlp", n_in=3, n_out=2))))
          ···│+·  u
          ···│,·
          ···│-·
          ───┼──
          +,-│··  v
          ···│··
    """
    starts = {first for _, first, _ in picture.blocks[1:]}
    names = {first: name for name, first, _ in picture.blocks}
    lines = []
    for i, row in enumerate(picture.values.tolist()):
        if i in starts:
            lines.append("".join(("+" if j in starts else "") + "─" for j in range(len(row))).replace("+", "┼"))
        cells = "".join(("│" if j in starts else "") + _mark(value) for j, value in enumerate(row))
        lines.append(f"{cells}  {names[i]}" if i in names else cells)
    return "\n".join(f"{indent}{line}" for line in lines)


def _mark(value: float) -> str:
    if abs(value) <= WEAK:
        return "·"
    return MARKS[(1 if value > 0 else -1, abs(value) >= STRONG)]
