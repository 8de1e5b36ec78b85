"""A formula as one line of Unicode text, for terminals, tables of plain text and those who hear a page."""

from __future__ import annotations

import re
from unicodedata import combining

from nqf_registry.report.formula import Accent, Fenced, FormulaError, Fraction, Group, Node, Root, Scripts, Symbol, Table, parse

_SUPERSCRIPT = dict(zip("0123456789+−()dijklmnprstKVT⊤′", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ᵈⁱʲᵏˡᵐⁿᵖʳˢᵗᴷⱽᵀᵀ′", strict=True))
_SUBSCRIPT = dict(zip("0123456789+−()aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ", strict=True))
_FRACTIONS = {("1", "2"): "½", ("1", "3"): "⅓", ("2", "3"): "⅔", ("1", "4"): "¼", ("3", "4"): "¾", ("1", "8"): "⅛"}
_MARKS = {"^": "\u0302", "¯": "\u0304", "~": "\u0303", "→": "\u20d7", "˙": "\u0307", "¨": "\u0308"}
_SIMPLE = re.compile(r"[√‖]?[\w′]+(\([^()]*\))?‖?|.")  # what needs no brackets: a name, or a function of something
_WIDE = frozenset("=≤≥≠≡≈∼≃≅∝⪰⪯≻≺→←↔⇒⇐⇔↦⟼∈∉⊂⊆∪∩±∓+−×⊗⊕⊙⊖≜≔<>")


def text(latex: str) -> str:
    r"""A formula in one line.

    Args:
        latex: mathematics without dollar signs. What cannot be read is returned as typed, on one line.

    Example:
        >>> text(r"\tfrac12 \sum_i v_i\, \phi(u_i^\top x)")
        '½ Σᵢ vᵢ ϕ(uᵢᵀ x)'
    """
    try:
        return " ".join(_join(parse(latex).parts).split())
    except FormulaError:
        return " ".join(latex.split())


def _join(parts: tuple[Node, ...]) -> str:
    out, previous = "", Group(())
    for node in parts:
        piece = _write(node)
        if isinstance(node, Symbol) and node.kind == "operator" and node.text in _WIDE:
            # A sign that begins the formula or follows a bracket is no operation between two things.
            unary = node.text in "+−±∓" and (not out.strip() or out.rstrip()[-1] in "([{⟨,=")
            out += piece if unary else f" {piece} "
        elif isinstance(node, Symbol) and node.text in ",;":
            out += piece + " "
        elif out and piece and _word(node) and out[-1] not in " ([{⟨|‖":
            out += " " + piece
        elif out and isinstance(node, Fenced) and _word(previous):
            out += piece  # softmax(…)
        elif out and piece and out[-1] not in " ([{⟨|‖" and _needs_gap(node, piece, out):
            out += " " + piece
        else:
            out += piece
        previous = node if not (isinstance(node, Symbol) and node.kind == "space") else previous
    return out


def _word(node: Node) -> bool:
    base = node.base if isinstance(node, Scripts) else node
    return isinstance(base, Symbol) and base.kind in ("function", "limit", "large", "word")


def _needs_gap(node: Node, piece: str, before: str) -> bool:
    """Whether two neighbours would otherwise read as one name."""
    base = node.base if isinstance(node, Scripts) else node
    if isinstance(base, Symbol) and base.kind in ("fence", "operator", "space"):
        return base.text == "⟨" and before[-1].isalnum()
    ends_a_name = before[-1].isalnum() or before[-1] in ")]⟩′" or combining(before[-1]) > 0
    return ends_a_name and (piece[0].isalnum() or piece[0] in "(√[")


def _write(node: Node) -> str:
    if isinstance(node, Symbol):
        if node.kind == "space":
            return " " if float(node.text) > 0.2 else ""
        return {"∑": "Σ", "∏": "Π", "⊤": "ᵀ", "⋅": "·"}.get(node.text, node.text)
    if isinstance(node, Group):
        return _join(node.parts)
    if isinstance(node, Scripts):
        base = _write(node.base)
        base = f"({base})" if isinstance(node.base, Fraction) else base
        return base + _script(node.sub, _SUBSCRIPT, "_") + _script(node.sup, _SUPERSCRIPT, "^")
    if isinstance(node, Fraction):
        over, under = _write(node.over), _write(node.under)
        if not node.line:
            return f"{over} over {under}"
        return _FRACTIONS.get((over, under), f"{_bracketed(over)}/{_bracketed(under)}")
    if isinstance(node, Root):
        index = "" if node.index is None else _script(node.index, _SUPERSCRIPT, "^")
        return f"{index}√{_bracketed(_write(node.body))}"
    if isinstance(node, Fenced):
        return f"{node.left}{_write(node.body)}{node.right}"
    if isinstance(node, Table):
        rows = "; ".join(", ".join(_write(cell).strip() for cell in row) for row in node.rows)
        return f"{node.left or '['}{rows}{node.right or ']'}" if (node.left, node.right) != ("(", ")") else f"[{rows}]"
    assert isinstance(node, Accent)
    body = _write(node.body)
    return body + _MARKS[node.mark] if len(body) == 1 else f"{body}{_MARKS[node.mark]}"


def _script(node: Node | None, table: dict[str, str], sign: str) -> str:
    if node is None:
        return ""
    plain = _write(node).replace(" ", "").replace("ᵀ", "⊤" if sign == "^" else "ᵀ")
    if plain and all(letter in table for letter in plain):
        return "".join(table[letter] for letter in plain)
    return sign + (plain if len(plain) == 1 else f"({plain})")


def _bracketed(piece: str) -> str:
    return piece if _SIMPLE.fullmatch(piece) else f"({piece})"
