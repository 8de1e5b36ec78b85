"""Mutants: layers with one planted fault each, made from any layer that is right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nqf_registry.layer import Layer, declares


@dataclass(frozen=True)
class Mutant:
    """A layer with one planted fault.

    Attributes:
        kind: of fault, the same words for every layer.
        layer: the layer with the fault.
        expected: the checks of which at least one must not hold.
        undecided: whether a check that cannot be decided is the right answer too, as for a layer that computes too coarsely.
    """

    kind: str
    layer: Layer
    expected: tuple[str, ...]
    undecided: bool = False


def altered(layer: Layer, **methods: Any) -> Layer:
    """The same layer with other methods, as an instance of a new class of the same fields.

    Its variants are altered alike, so that the fault is in every instance that is looked at.
    """
    original = type(layer)
    body: dict[str, Any] = {"__module__": original.__module__, "__doc__": original.__doc__, **methods}
    if declares(layer, "variants"):
        body["variants"] = lambda self: [_as(made, variant) for variant in original.variants(self)]  # type: ignore[attr-defined]
    made: Any = dataclass(frozen=True)(type(f"Altered{original.__name__}", (original,), body))
    return _as(made, layer)


def _as(made: Any, layer: Layer) -> Layer:
    """An instance of a class with the fields of a layer."""
    fields = dataclasses.fields(layer)  # type: ignore[arg-type]
    return made(**{field.name: getattr(layer, field.name) for field in fields if field.init})


def plan(layer: Layer) -> list[Mutant]:
    """Every mutant that can be made of a layer, equivalent ones among them."""
    from nqf_registry.mutation.claim_faults import claim_faults
    from nqf_registry.mutation.forward_faults import forward_faults
    from nqf_registry.mutation.structure_faults import structure_faults

    families: tuple[Callable[[Layer], list[Mutant]], ...] = (structure_faults, forward_faults, claim_faults)
    return [mutant for family in families for mutant in family(layer)]
