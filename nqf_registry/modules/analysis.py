"""``analyze``: what a module is, in one call: its neurons, for each group the verdict and the form of A(x)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nqf_registry.dynamics.spectrum import GrowthSpectrum, growth_spectrum
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, cast
from nqf_registry.modules.adapter import ModuleLayer, from_module
from nqf_registry.modules.call import Output, module_call
from nqf_registry.modules.find import Found, Neurons, find_neurons
from nqf_registry.modules.recognise import Recognised, recognise
from nqf_registry.report.picture import picture_of
from nqf_registry.report.structure_facts import measurable, structure_facts, structure_of
from nqf_registry.report.text_picture import text_picture
from nqf_registry.sketched import described, sketch
from nqf_registry.train.data import Data
from nqf_registry.verify.explanation import explain
from nqf_registry.verify.report import OVER, Report
from nqf_registry.verify.suite import verify

TRAINING = "the module is in training mode; what it is in use shows after module.eval()"
CELLS = 32  # a picture in characters has at most about so many a side


@dataclass(frozen=True, eq=False)
class GroupAnalysis:
    """One group of neurons of a module.

    Attributes:
        neurons: the group.
        layer: the module as a layer of these neurons.
        report: its verdict.
        structure: the facts of A(x) at a few inputs, see :func:`nqf_registry.report.structure_facts.structure_facts`; empty
            where the group has no quadratic form, or where it is too large for one in full.
        form: the closed form of A(x), as far as one is known; None where there are no facts.
        picture: A(x) of one sample and output in characters; empty where there are no facts.
        growth: the fastest growth rates; None where the group has no quadratic form.
        through: how a layer that is too large to be verified itself was measured; empty for the others.
        cause: what kept A(x) from being derived, though the group has one; empty where nothing did.
    """

    neurons: Neurons
    layer: Layer
    report: Report
    structure: Mapping[str, Any] = field(default_factory=dict)
    form: Recognised | None = None
    picture: str = ""
    growth: GrowthSpectrum | None = None
    through: str = ""
    cause: str = ""

    def __str__(self) -> str:
        lines = [str(self.neurons), f"  verdict: {self.report.line()}"]
        lines += [f"  {self.through}"] if self.through else []
        lines += [f"  {check.message}" for check in self.report.checks if check.broken][:1]
        if self.cause:
            lines.append(f"  A(x) cannot be derived: {self.cause}")
        lines += self._structured() if self.structure else self._grown()
        if self.form is not None:
            lines += [f"  {line}" for line in str(self.form).splitlines()]
        if self.growth is not None:
            lines.append(f"  growth rates: {self.growth}")
        if self.picture:
            lines += ["  A(x) of one sample and output:", self.picture]
        return "\n".join(lines)

    def _structured(self) -> list[str]:
        """What A(x) in full shows."""
        facts = self.structure
        coupled = ", ".join(facts["couplings"]) or "nothing"
        lines = [f"  A couples {coupled}; rank {_rank(facts['rank'])} of {self.layer.n_params}"]
        inert = list(self.growth.inert if self.growth is not None else facts["inert"])
        if inert:
            lines.append(f"  inert at quadratic order: {', '.join(inert)}")
        if facts["kronecker"]:
            axes = ", ".join(f"{name} (axis {axis})" for name, axis in facts["kronecker"]["axes"].items())
            lines.append(f"  A = (…) ⊗ I of size {facts['kronecker']['size']}, along {axes}")
        if facts["diagonal"]:
            lines.append("  A is diagonal")
        return lines

    def _grown(self) -> list[str]:
        """What the growth operator shows of A(x) where that is too large to be written out."""
        grown = self.growth
        if grown is None:
            return []
        lines = [f"  A couples {', '.join(grown.couplings) or 'nothing'} of {self.layer.n_params} numbers a neuron"]
        if grown.inert:
            lines.append(f"  inert at quadratic order: {', '.join(grown.inert)}")
        if grown.identity > 1:
            axes = ", ".join(f"{name} (axis {axis})" for name, axis in grown.axes.items())
            lines.append(f"  Σ y A = (…) ⊗ I of size {grown.identity}, along {axes}")
        return lines


@dataclass(frozen=True, eq=False)
class Analysis:
    """What was found out about a module.

    Attributes:
        module: the name of its class.
        found: its neurons, and what was fixed, refuted or undecided.
        groups: each group of neurons with its verdict.
        training: whether the module was in training mode, in which dropout and batch norm depend on more than a sample.
    """

    module: str
    found: Found
    groups: tuple[GroupAnalysis, ...]
    training: bool = False

    @property
    def classification(self) -> str:
        """That of the outermost group; ``no-neurons`` where there is none, ``undecided`` where it cannot be followed."""
        if self.groups:
            return self.groups[0].report.classification
        return "undecided" if self.found.undecided else "no-neurons"

    def __str__(self) -> str:
        mode = [TRAINING] if self.training and self.classification == "undecided" else []
        if not self.groups:
            return "\n".join([f"{self.module}: {self.classification}", str(self.found), *(f"note: {text}" for text in mode)])
        said = [*self.found.refuted, *self.found.undecided, *mode]
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
                    "form": [str(term) for term in group.form.terms] if group.form is not None else [],
                    "closed_form": group.form is not None and group.form.complete,
                    "through": group.through,
                    "cause": group.cause,
                    "growth": dataclasses.asdict(group.growth) if group.growth is not None else None,
                    "report": group.report.to_dict(),
                }
                for group in self.groups
            ],
            "fixed": dict(self.found.fixed),
            "inert": list(self.found.inert),
            "refuted": list(self.found.refuted),
            "undecided": list(self.found.undecided),
        }


def analyze(
    module: nn.Module, example: Any, *, targets: Tensor | None = None, output: Output = None, profile: str = "dev"
) -> Analysis:
    """Finds the neurons of a module and says of each group what it is.

    Args:
        module: any ``torch.nn.Module``; it is not touched.
        example: its inputs with a leading sample axis: a tensor, a tuple of them, or a dict of keywords.
        targets: what the outputs at the example are to become, (n, ...), for the growth rates; random normal numbers if left
            out.
        output: which of several outputs, see :func:`nqf_registry.from_module`.
        profile: how much to measure: brief, dev, ci or deep.

    Raises:
        InvalidInput: this is no module, the example or the targets do not fit, or the profile is unknown.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> perceptron = nn.Sequential(nn.Linear(3, 6, bias=False), nn.Tanh(), nn.Linear(6, 1, bias=False))
        >>> print(analyze(perceptron, torch.eye(3), targets=torch.ones(3)))
        Sequential: nqf
        6 units (d = 6, a = 3, b = 1): 0.weight: d a -> d a; 2.weight: b d -> d b
          verdict: sequential: passed, nqf, 9 of 9 checks ran (dev)
          A couples 0.weight-2.weight; rank 2 of 4
          A[0.weight, 2.weight] = 1/2 x
          growth rates: 1.155
          A(x) of one sample and output:
          ···│+  0.weight
          ···│'
          ···│-
          ───┼─
          +'-│·  2.weight
    """
    found = find_neurons(module, example, output)
    groups = []
    for neurons in found.groups:
        layer = from_module(module, example, neurons, output=output)
        report, through = _verdict(layer, profile)
        more: dict[str, Any] = {"through": through}
        if report.classification in ("exact-nqf", "nqf", "general-nqf"):
            data = _data(module, example, output, targets)
            try:
                more["growth"] = growth_spectrum(layer, data)
                if measurable(layer) and not through:  # a row of A(x) takes as long as a gradient
                    more |= {"structure": structure_facts(layer), "form": _form(layer), "picture": _picture(layer)}
            except Exception as error:  # torch refuses second derivatives in many ways
                more = {"through": through, "cause": explain(error, layer)}
        groups.append(GroupAnalysis(neurons, layer, report, **more))
    inner = getattr(module, "_orig_mod", module)
    return Analysis(type(inner).__name__, found, tuple(groups), bool(inner.training))


def _verdict(layer: Layer, profile: str) -> tuple[Report, str]:
    """The report of a layer, and what it was measured through: a sketch where the layer itself is over the budget."""
    report = verify(layer, profile)
    if not any(check.why == OVER for check in report.checks):
        return report, ""
    small = sketch(layer)
    return verify(small, "brief" if profile == "dev" else profile), described(small)


def _data(module: nn.Module, example: Any, output: Output, targets: Tensor | None) -> Data:
    """The example with targets for its outputs."""
    call, x = module_call(module, example, output)
    with torch.no_grad():
        shape = call(call.parameters, x).shape
    if targets is None:
        targets = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if not isinstance(targets, Tensor) or targets.shape[:1] != shape[:1] or targets.numel() != shape.numel():
        what = tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__
        raise InvalidInput(f"targets must be {shape[1]} numbers for each of the {shape[0]} samples of the example; got {what}.")
    return Data(x, targets.reshape(shape))


def _form(layer: Layer) -> Recognised:
    """The closed form of A(x) that two independent sets of inputs agree about."""
    assert isinstance(layer, ModuleLayer)
    n = max(3, measurable(layer))
    parameters = {name: p.double() if p.is_floating_point() else p for name, p in layer.call.parameters.items()}
    found = []
    for seed in (0, 1):
        x = cast(layer.sample(n, torch.Generator().manual_seed(seed)), torch.float64)
        with torch.no_grad():
            outputs = layer.call.shaped(parameters, x).shape[1:]
        found.append(recognise(layer, x, structure_of(layer, x).dense(torch.float64), tuple(outputs)))
    return found[0].agreed(found[1])


def _picture(layer: Layer) -> str:
    """A(x) in characters, of one sample and the first output."""
    return text_picture(picture_of(layer, cells=CELLS))


def _rank(ranks: Any) -> str:
    low, high = min(ranks), max(ranks)
    return str(low) if low == high else f"{low} to {high}"
