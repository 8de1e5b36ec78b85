"""The columns of the catalogue's table, as words: what Markdown, LaTeX and CSV have in common.

A facts dictionary holds what :func:`nqf_registry.report.catalogue.facts_of` gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Facts = Mapping[str, Any]


def verdict(facts: Facts) -> str:
    """The measured classification, or what did not pass."""
    if facts.get("error"):
        return f"not verified: {facts['error']}"
    checks = facts.get("checks", {}).items()
    stopped = [name for name, check in checks if check.get("stopped")]
    until = f" (time ran out in {', '.join(stopped)})" if stopped else ""
    if facts.get("passed"):
        return f"{facts['classification']}{until}"
    failed = [name for name, check in checks if check["status"] in ("fail", "undecided")]
    return f"does not pass ({facts.get('classification') or 'undecided'}): {', '.join(failed) or 'see its checks'}{until}"


def is_quadratic(facts: Facts) -> bool:
    """Whether a layer was measured to be f(0) + Tr[W Wᵀ A] + remainder with A that is not zero."""
    return facts.get("classification") in ("exact-nqf", "nqf")


def is_general(facts: Facts) -> bool:
    """Whether it has terms linear in a neuron or couplings between neurons too."""
    return facts.get("classification") == "general-nqf"


def has_structure(facts: Facts) -> bool:
    """Whether there is an A(x) to speak of: a layer that is not smooth at W = 0 has none."""
    return facts.get("structure", {}).get("smooth", True)


def structure_formula(facts: Facts) -> str:
    """LaTeX of A(x); empty where the layer has no A(x), whatever is declared."""
    return str(facts["structure_formula"]) if has_structure(facts) else ""


def linear(facts: Facts) -> str:
    """The blocks in which g is not zero."""
    return ", ".join(facts.get("structure", {}).get("linear", ())) or "none"


def cross(facts: Facts) -> str:
    """The pairs of blocks that B couples."""
    return ", ".join(pair.replace("-", "–") for pair in facts.get("structure", {}).get("cross", ())) or "none"


def exact(facts: Facts) -> str:
    """Whether the layer was measured to be its quadratic form; open where it does not pass."""
    if not facts.get("passed"):
        return "?"
    return "yes" if facts.get("classification") == "exact-nqf" else "no"


def remainder(facts: Facts) -> str:
    """The measured order of what the expansion leaves out."""
    if not has_structure(facts):
        return "–"
    order = facts.get("remainder")
    return "none" if order == "exact" else "?" if order is None else f"ε{str(order).translate(_RAISED)}"


def blocks(facts: Facts) -> str:
    """The neuron partition, "u (8), v (1)"."""
    return ", ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in facts.get("blocks", {}).items())


def span(pair: object) -> str:
    """A range [2, 4] as "2–4", [2, 2] as "2"."""
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        return "?"
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}–{pair[1]}"


def rank(facts: Facts) -> str:
    """The rank of A over samples and outputs."""
    return span(facts.get("structure", {}).get("rank"))


def signature(facts: Facts) -> str:
    """Positive and negative eigenvalues, "1+ 1−"."""
    pairs = facts.get("structure", {}).get("signature") or []
    return " or ".join(f"{a}+ {b}−" for a, b in pairs) or "?"


def couplings(facts: Facts) -> str:
    """The coupled pairs of blocks."""
    structure = facts.get("structure", {})
    return ", ".join(pair.replace("-", "–") for pair in structure["couplings"]) or "none" if "couplings" in structure else "?"


def inert(facts: Facts) -> str:
    """The blocks that A does not reach."""
    structure = facts.get("structure", {})
    return ", ".join(structure["inert"]) or "none" if "inert" in structure else "?"


def form(facts: Facts) -> str:
    """What kind of matrix A is, in words; empty where nothing special was recognised."""
    structure = facts.get("structure", {})
    words = []
    if structure.get("diagonal"):
        words.append("diagonal")
    if factor := structure.get("kronecker"):
        axes = ", ".join(f"axis {axis + 1} of {name}" for name, axis in factor["axes"].items())
        words.append(f"A₀ ⊗ I of size {factor['size']} ({axes})")
    if structure.get("bipartite"):
        words.append("bipartite")
    return "; ".join(words)


def sizes(facts: Facts) -> str:
    """The sizes and choices that the entry was measured at."""
    return ", ".join(f"{name}={value}" for name, value in facts.get("sizes", {}).items())


def check_line(check: Mapping[str, Any]) -> str:
    """One check: its status, and the bound on its residual where there is one."""
    words = [*([check["bound"]] if check.get("bound") else []), *(["time ran out"] if check.get("stopped") else [])]
    return f"{check['status']} ({', '.join(words)})" if words else str(check["status"])


def reference_text(reference: Mapping[str, Any]) -> str:
    """One reference on one line."""
    where = ", ".join(
        part
        for part in (
            str(reference.get("venue") or ""),
            f"arXiv {reference['arxiv']}" if reference.get("arxiv") else "",
            f"doi {reference['doi']}" if reference.get("doi") else "",
        )
        if part
    )
    title = str(reference.get("title"))
    end = "" if title.endswith(("?", "!", ".")) else "."
    return f"{reference.get('authors')} ({reference.get('year')}). {title}{end}" + (f" {where}." if where else "")


_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
