"""``analyze``: what a module is, in one call: its neurons, for each group the verdict and the form of A(x)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from nqf_registry.layer import Layer
from nqf_registry.modules.adapter import from_module
from nqf_registry.modules.call import Output
from nqf_registry.modules.find import Found, Neurons, find_neurons
from nqf_registry.report.structure_facts import measurable, structure_facts
from nqf_registry.verify.report import Report
from nqf_registry.verify.suite import verify


@dataclass(frozen=True, eq=False)
class GroupAnalysis:
    """One group of neurons of a module.

    Attributes:
        neurons: the group.
        layer: the module as a layer of these neurons.
        report: its verdict.
        structure: the facts of A(x) at a few inputs, see :func:`nqf_registry.report.structure_facts.structure_facts`; empty
            where the group has no quadratic form, or where it is too large for one in full.
    """

    neurons: Neurons
    layer: Layer
    report: Report
    structure: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [str(self.neurons), f"  verdict: {self.report.line()}"]
        facts = self.structure
        if facts:
            coupled = ", ".join(facts["couplings"]) or "nothing"
            lines.append(f"  A couples {coupled}; rank {_rank(facts['rank'])} of {self.layer.n_params}")
            inert = [
                *facts["inert"],
                *([f"{facts['inert_parameters']} parameters in all"] if facts["inert_parameters"] else []),
            ]
            if inert:
                lines.append(f"  inert at quadratic order: {', '.join(inert)}")
            if facts["kronecker"]:
                axes = ", ".join(f"{name} (axis {axis})" for name, axis in facts["kronecker"]["axes"].items())
                lines.append(f"  A = (…) ⊗ I of size {facts['kronecker']['size']}, along {axes}")
            if facts["diagonal"]:
                lines.append("  A is diagonal")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found out about a module.

    Attributes:
        module: the name of its class.
        found: its neurons, and what was fixed, refuted or undecided.
        groups: each group of neurons with its verdict.
    """

    module: str
    found: Found
    groups: tuple[GroupAnalysis, ...]

    @property
    def classification(self) -> str:
        """That of the outermost group; ``no-neurons`` where there is none, ``undecided`` where it cannot be followed."""
        if self.groups:
            return self.groups[0].report.classification
        return "undecided" if self.found.undecided else "no-neurons"

    def __str__(self) -> str:
        if not self.groups:
            return f"{self.module}: {self.classification}\n{self.found}"
        said = [*self.found.refuted, *self.found.undecided]
        return "\n".join([f"{self.module}: {self.classification}", *map(str, self.groups), *(f"note: {text}" for text in said)])

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {
            "module": self.module,
            "classification": self.classification,
            "groups": [
                {
                    "width": group.neurons.width,
                    "patterns": dict(group.neurons.partition.patterns),
                    "sizes": dict(group.neurons.partition.sizes),
                    "residual": group.neurons.residual,
                    "structure": dict(group.structure),
                    "report": group.report.to_dict(),
                }
                for group in self.groups
            ],
            "fixed": dict(self.found.fixed),
            "inert": list(self.found.inert),
            "refuted": list(self.found.refuted),
            "undecided": list(self.found.undecided),
        }


def analyze(module: nn.Module, example: Any, *, output: Output = None, profile: str = "dev") -> Analysis:
    """Finds the neurons of a module and says of each group what it is.

    Args:
        module: any ``torch.nn.Module``; it is not touched.
        example: its inputs with a leading sample axis: a tensor, a tuple of them, or a dict of keywords.
        output: which of several outputs, see :func:`nqf_registry.from_module`.
        profile: how much to measure: dev, ci or deep.

    Raises:
        InvalidInput: this is no module, the example does not fit, or the profile is unknown.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> print(analyze(nn.Sequential(nn.Linear(3, 6, bias=False), nn.Tanh(), nn.Linear(6, 2)), torch.randn(5, 3)))
        Sequential: nqf
        6 units (d = 6, a = 3, b = 2): 0.weight: d a -> d a; 2.weight: b d -> d b
          verdict: sequential: passed, nqf, 9 of 9 checks ran (dev)
          A couples 0.weight-2.weight; rank 2 of 5
    """
    found = find_neurons(module, example, output)
    groups = []
    for neurons in found.groups:
        layer = from_module(module, example, neurons, output=output)
        report = verify(layer, profile)
        quadratic = report.classification in ("exact-nqf", "nqf", "general-nqf")
        groups.append(GroupAnalysis(neurons, layer, report, structure_facts(layer) if quadratic and measurable(layer) else {}))
    return Analysis(type(getattr(module, "_orig_mod", module)).__name__, found, tuple(groups))


def _rank(ranks: Any) -> str:
    low, high = min(ranks), max(ranks)
    return str(low) if low == high else f"{low} to {high}"
