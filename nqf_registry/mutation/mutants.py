"""Mutants: layers with one planted fault each, made from any layer that is right."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nqf_registry.layer import Inputs, Layer, Weights, declares

Forward = Callable[[Weights, Inputs], Tensor]
Fault = Callable[[Forward, Weights, Inputs], Tensor]


@dataclass(frozen=True)
class Mutant:
    """A layer with one planted fault.

    Attributes:
        kind: of fault, the same words for every layer.
        layer: the layer with the fault.
        expected: the checks of which at least one must not hold.
        undecided: whether a check that cannot be decided is the right answer too, as for a layer that computes too coarsely.
        description: what was done to the layer, one line.
    """

    kind: str
    layer: Layer
    expected: tuple[str, ...]
    undecided: bool = False
    description: str = ""


def altered(layer: Layer, **methods: Any) -> Layer:
    """The same layer with other methods, as an instance of a new class of the same fields.

    Its variants are altered alike, so that the fault is in every instance that is looked at.
    """
    original = type(layer)
    body: dict[str, Any] = {"__module__": original.__module__, "__doc__": original.__doc__, **methods}
    if declares(layer, "variants") and "variants" not in methods:
        body["variants"] = lambda self: [_as(made, variant) for variant in original.variants(self)]  # type: ignore[attr-defined]
    made: Any = dataclass(frozen=True)(type(f"Altered{original.__name__}", (original,), body))
    return _as(made, layer)


def computing(layer: Layer, fault: Fault) -> Layer:
    """The same layer with another forward pass; what it declares stays.

    Args:
        layer: the right one.
        fault: the wrong value, from the right forward pass and weights and inputs of one replica.
    """
    original: Any = type(layer).forward

    def forward(self: Layer, W: Weights, x: Inputs) -> Tensor:
        return fault(lambda weights, inputs: original(self, weights, inputs), W, x)

    def forward_one(self: Layer, W: Weights, x: Inputs) -> Tensor:
        def f(weights: Weights, inputs: Inputs) -> Tensor:
            return original(self, {name: block[None] for name, block in weights.items()}, inputs)[0]

        return fault(f, W, x)

    methods: dict[str, Any] = {"forward": forward}
    if layer.batched:  # a fault sees one replica, whatever the layer takes
        methods = {"forward": forward_one, "batched": False}
    return altered(layer, **methods, **without_gradient(layer))


def without_gradient(layer: Layer) -> dict[str, None]:
    """What to alter so that a gradient which the layer writes itself, which is right, takes no part in a fault of its f."""
    return {name: None for name in ("pullback", "linearise") if declares(layer, name)}


def first(W: Weights) -> Tensor:
    """The first parameter of every neuron, (d,)."""
    block = next(iter(W.values()))
    return block.reshape(-1, block.shape[-1])[0]


def _as(made: Any, layer: Layer) -> Layer:
    """An instance of a class with the fields of a layer."""
    fields = dataclasses.fields(layer)  # type: ignore[arg-type]
    return made(**{field.name: getattr(layer, field.name) for field in fields if field.init})


def plan(layer: Layer) -> list[Mutant]:
    """Every mutant that can be made of a layer, equivalent ones among them."""
    from nqf_registry.mutation.call_faults import call_faults
    from nqf_registry.mutation.claim_faults import claim_faults
    from nqf_registry.mutation.forward_faults import forward_faults
    from nqf_registry.mutation.gradient_faults import gradient_faults
    from nqf_registry.mutation.kink_faults import kink_faults
    from nqf_registry.mutation.partition_faults import partition_faults
    from nqf_registry.mutation.structure_faults import structure_faults

    families: tuple[Callable[[Layer], list[Mutant]], ...] = (
        structure_faults,
        forward_faults,
        kink_faults,
        gradient_faults,
        call_faults,
        partition_faults,
        claim_faults,
    )
    return [mutant for family in families for mutant in family(layer)]
