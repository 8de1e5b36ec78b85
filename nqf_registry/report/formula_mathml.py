"""MathML of a formula: readable in any browser without JavaScript or a font, and coloured like the text around it."""

from __future__ import annotations

from html import escape

from nqf_registry.report.formula import Accent, Fenced, Fraction, Group, Node, Root, Scripts, Symbol, Table, parse


def mathml(latex: str, display: bool = False) -> str:
    r"""A ``<math>`` element for a formula.

    Args:
        latex: mathematics without dollar signs.
        display: on a line of its own, with limits above and below sums.

    Raises:
        FormulaError: the formula cannot be read; see :func:`nqf_registry.report.formula.parse`.

    Example:
        >>> mathml(r"x^2")
        '<math><mrow><msup><mi>x</mi><mn>2</mn></msup></mrow></math>'
    """
    attributes = ' display="block"' if display else ""
    return f"<math{attributes}>{_write(parse(latex))}</math>"


def _write(node: Node) -> str:
    if isinstance(node, Symbol):
        return _symbol(node)
    if isinstance(node, Group):
        return "<mrow>" + "".join(map(_write, node.parts)) + "</mrow>"
    if isinstance(node, Scripts):
        return _scripts(node)
    if isinstance(node, Fraction):
        line = "" if node.line else ' linethickness="0"'
        return f"<mfrac{line}>{_write(node.over)}{_write(node.under)}</mfrac>"
    if isinstance(node, Root):
        body = _write(node.body)
        return f"<msqrt>{body}</msqrt>" if node.index is None else f"<mroot>{body}{_write(node.index)}</mroot>"
    if isinstance(node, Fenced):
        return f"<mrow>{_fence(node.left, 'prefix')}{_write(node.body)}{_fence(node.right, 'postfix')}</mrow>"
    if isinstance(node, Table):
        rows = "".join("<mtr>" + "".join(f"<mtd>{_cell(cell)}</mtd>" for cell in row) + "</mtr>" for row in node.rows)
        return f"<mrow>{_fence(node.left, 'prefix')}<mtable>{rows}</mtable>{_fence(node.right, 'postfix')}</mrow>"
    assert isinstance(node, Accent)
    return f'<mover accent="true">{_write(node.body)}<mo stretchy="false">{escape(node.mark)}</mo></mover>'


def _cell(node: Node) -> str:
    # A cell is a row by itself; an <mrow> in it would fill it and so stand left instead of in the middle.
    return "".join(map(_write, node.parts)) if isinstance(node, Group) else _write(node)


def _symbol(node: Symbol) -> str:
    text = escape(node.text)
    match node.kind:
        case "number":
            return f"<mn>{text}</mn>"
        case "operator" | "large":
            return f"<mo>{text}</mo>"
        case "fence":
            return f'<mo stretchy="false">{text}</mo>'
        case "function":
            return f"<mi>{text}</mi><mo>\u2061</mo>"  # function application: the browser sets the space
        case "limit":
            return f'<mo movablelimits="true">{text}</mo>'
        case "space":
            return f'<mspace width="{text}em"/>'
        case "word":
            if len(node.text) == 1:
                return f'<mi mathvariant="normal">{text}</mi>'
            return f"<mtext>{text}</mtext>"
    if node.text == "⊤":  # the transpose: an operator's spacing would be wrong in a superscript
        return '<mi mathvariant="normal">⊤</mi>'
    # Capital Greek letters stand upright, as LaTeX sets them.
    return f'<mi mathvariant="normal">{text}</mi>' if node.text in "ΓΔΘΛΞΠΣΥΦΨΩ∞∇∅" else f"<mi>{text}</mi>"


def _scripts(node: Scripts) -> str:
    limits = isinstance(node.base, Symbol) and (
        node.base.kind == "limit" or (node.base.kind == "large" and node.base.text != "∫")
    )
    under, over, both = ("munder", "mover", "munderover") if limits else ("msub", "msup", "msubsup")
    base = node.base
    if isinstance(base, Symbol) and base.kind == "function":
        written, after = f"<mi>{escape(base.text)}</mi>", "<mo>\u2061</mo>"
    else:
        written, after = _write(base), ""
    if node.sub is not None and node.sup is not None:
        return f"<{both}>{written}{_write(node.sub)}{_write(node.sup)}</{both}>{after}"
    if node.sub is not None:
        return f"<{under}>{written}{_write(node.sub)}</{under}>{after}"
    assert node.sup is not None
    return f"<{over}>{written}{_write(node.sup)}</{over}>{after}"


def _fence(text: str, form: str) -> str:
    return f'<mo fence="true" form="{form}" stretchy="true">{escape(text)}</mo>' if text else ""
