"""The catalogue as a LaTeX document: one long table that compiles with pdfLaTeX, XeLaTeX or LuaLaTeX."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nqf_registry.report import columns
from nqf_registry.report.columns import Facts
from nqf_registry.report.formula import FormulaError, parse
from nqf_registry.report.formula_symbols import GREEK, OPERATORS
from nqf_registry.report.markdown import GENERATED
from nqf_registry.report.summary import summary

_SPECIAL = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "_": r"\_", "%": r"\%",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    '"': "''", "–": "--", "—": "---", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}", "½": r"$\tfrac12$", "¼": r"$\tfrac14$",
    "·": r"$\cdot$", "‖": r"$\Vert$", "⟨": r"$\langle$", "⟩": r"$\rangle$", "∑": r"$\sum$", "√": r"$\surd$", "∞": r"$\infty$",
    "ᵀ": r"$^{\top}$", "−": "$-$", "′": "$'$", "∂": r"$\partial$", "ℓ": r"$\ell$", "Ł": r"\L{}", "ł": r"\l{}",
}  # fmt: skip
_SPECIAL = {c: f"$\\{name}$" for name, c in {**OPERATORS, **GREEK}.items() if not c.isascii()} | _SPECIAL
_SPECIAL |= {raised: f"$^{{{plain}}}$" for raised, plain in zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)}
_SPECIAL |= {lowered: f"$_{{{plain}}}$" for lowered, plain in zip("₀₁₂₃₄₅₆₇₈₉", "0123456789", strict=True)}

_HEAD = r"""\documentclass[10pt]{article}
\usepackage[a4paper,landscape,margin=12mm]{geometry}
\usepackage{iftex}
\ifPDFTeX\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\fi
\usepackage{amsmath,amssymb,array,booktabs,longtable}
\newcolumntype{L}[1]{>{\raggedright\arraybackslash}p{#1}}
\renewcommand{\arraystretch}{1.5}
\setlength{\parindent}{0pt}
\setlength{\tabcolsep}{4pt}
\providecommand{\lt}{<}\providecommand{\gt}{>}\providecommand{\coloneqq}{\mathrel{:=}}
\providecommand{\bm}[1]{\boldsymbol{#1}}\providecommand{\mathscr}[1]{\mathcal{#1}}
\begin{document}
"""


def escaped(text: object) -> str:
    """Text that LaTeX sets as it is; a character that pdfLaTeX has no glyph for is named by its code."""
    line = " ".join(str(text).split())
    return "".join(_SPECIAL.get(c) or (c if c.isascii() or "\u00c0" <= c <= "\u00ff" else f"[U+{ord(c):04X}]") for c in line)


def formula(latex: str) -> str:
    """A formula in mathematics mode, or typed out where it cannot be read: only commands that are known get into the file."""
    line = " ".join(str(latex).split())
    if not line:
        return "--"
    try:
        parse(line)
    except FormulaError:
        return rf"\texttt{{{escaped(line)}}}"
    return "$" + "".join(_MATHEMATICS.get(c, c) for c in line) + "$"


def _unbroken(blocks: str) -> str:
    """Blocks whose shapes are not broken over two lines."""
    return re.sub(r"\([^()]*\)", lambda shape: shape.group().replace(" ", "~"), blocks).replace(" (", "~(")


def latex(entries: Sequence[Facts]) -> str:
    """The whole document.

    Args:
        entries: facts, in the order in which they are shown.
    """
    rows = []
    for facts in entries:
        cells = (
            rf"\texttt{{{escaped(facts['key'])}}}\newline {escaped(facts['title'])}",
            formula(facts["formula"]),
            formula(columns.structure_formula(facts)),
            _unbroken(escaped(columns.blocks(facts))),
            escaped(columns.rank(facts)),
            escaped(columns.verdict(facts)),
            escaped(columns.remainder(facts)),
        )
        rows.append(" & ".join(cells) + r" \\")
    head = " & ".join(("entry", "$f_x(W)$", "$A(x)$", "neuron", r"rank $A$", "verdict", "remainder")) + r" \\"
    body = "\n".join(rows)
    return (
        f"% {GENERATED.replace('`', '')}\n{_HEAD}"
        "{\\Large Catalogue of neural quadratic forms}\\par\\medskip\n"
        f"{escaped(summary(entries))} The form is "
        "$f_x(W)=f_x(0)+\\operatorname{Tr}[WW^\\top A(x)]+\\text{remainder}$; the columns of $W$ "
        "are neurons. Verdict, rank and remainder are measured.\\par\n"
        "\\small\n\\begin{longtable}{@{}L{50mm}L{64mm}L{76mm}L{24mm}L{8mm}L{18mm}l@{}}\n"
        f"\\toprule\n{head}\n\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n{body}\n\\end{{longtable}}\n\\end{{document}}\n"
    )


# Letters that a formula may hold directly, as the commands that every engine knows.
_MATHEMATICS = {character: f"\\{name} " for name, character in {**OPERATORS, **GREEK}.items() if not character.isascii()}
