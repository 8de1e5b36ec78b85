"""Formulas: what is read, how it is written, and that nothing unknown gets through."""

import re
from xml.etree import ElementTree

import pytest

from nqf_registry.report.formula import FormulaError, parse
from nqf_registry.report.formula_mathml import mathml
from nqf_registry.report.formula_text import text

KNOWN = {
    r"\langle S, W W^\top\rangle": "⟨S, W Wᵀ⟩",
    r"\tfrac12\begin{pmatrix}0 & S\\ S^\top & 0\end{pmatrix}": "½ [0, S; Sᵀ, 0]",
    r"f(W)=\sum_{i=1}^d v_i\,\phi(u_i^\top x)": "f(W) = Σ_(i=1)ᵈ vᵢ ϕ(uᵢᵀ x)",
    r"\frac{1}{2\sqrt{d_k}}\,x u^\top\otimes I": "1/(2 √dₖ) x uᵀ ⊗ I",
    r"c^\top X\,\mathrm{softmax}\!\left(x/\sqrt{d_k}\right)": "cᵀ X softmax(x/√dₖ)",
    r"\lVert W\Delta\rVert^2": "‖W Δ‖²",
    r"\tfrac{1}{2}\phi'(0)": "½ ϕ′(0)",
    r"x\in\mathbb{R}^n": "x ∈ ℝⁿ",
    r"-a + (-b)": "−a + (−b)",
}


@pytest.mark.parametrize("latex", KNOWN)
def test_known_formulas_read_as_one_line(latex):
    assert text(latex) == KNOWN[latex]


@pytest.mark.parametrize("latex", KNOWN)
def test_mathml_is_well_formed_and_has_only_presentation_elements(latex):
    tree = ElementTree.fromstring(mathml(latex, display=True))
    names = {element.tag for element in tree.iter()}
    assert names <= {"math", "mrow", "mi", "mn", "mo", "mtext", "mspace", "msub", "msup", "msubsup", "munder", "mover",
                     "munderover", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd"}  # fmt: skip


def test_scripts_keep_their_base_and_order():
    root = ElementTree.fromstring(mathml(r"W_i^\top"))[0][0]
    assert (root.tag, [child.text for child in root]) == ("msubsup", ["W", "i", "⊤"])
    fraction = ElementTree.fromstring(mathml(r"\frac{a}{b}"))[0][0]
    assert (fraction.tag, [child.text for child in fraction]) == ("mfrac", ["a", "b"])


@pytest.mark.parametrize(
    "latex",
    [r"\input{x}", r"\write18{ls}", r"\def\x{y}", "{x", "x}", r"\begin{tikzpicture}\end{tikzpicture}", r"\begin{pmatrix}x",
     "a & b", "$x$", "x % y", r"x^a^b", "", "   ", r"\left( x", r"\text{\input{x}}", "{" * 60 + "}" * 60, r"\mathrm{x", "\\"],
)  # fmt: skip
def test_anything_else_is_refused(latex):
    with pytest.raises(FormulaError):
        parse(latex)
    assert text(latex) == " ".join(latex.split())


def test_markup_characters_are_escaped():
    written = mathml("a < b > c")
    assert "<mo>&lt;</mo>" in written and re.search(r"<b\b", written) is None
    assert "<script>" not in mathml(r"\text{<script>}")
