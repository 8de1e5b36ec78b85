"""The axes of a module's parameters, by following one call of it operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import core_aten_decompositions
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.modules.axes import Axes, Dim
from nqf_registry.modules.operation import Call
from nqf_registry.modules.rules import rule_for, unknown

INPUT, OUTPUT, CONSTANT = "it runs along an axis of the input", "it is an axis of the output", "a buffer differs along it"


@dataclass(frozen=True, eq=False)
class Traced:
    """What following one call told.

    Attributes:
        axes: all factors.
        parameters: the axes of each parameter.
        unknown: the operations that are not known, so that what they touch is taken as fixed.
    """

    axes: Axes
    parameters: dict[str, list[Dim]]
    unknown: list[str] = field(default_factory=list)


def follow(f: Callable[[dict[str, Tensor], Any], Any], parameters: Mapping[str, Tensor], inputs: Any) -> Traced:
    """Follows f(parameters, inputs).

    Args:
        f: a function of tensors alone; what else it uses is taken for constants.
        parameters: by name.
        inputs: a tensor, or dicts, lists and tuples of them.

    Raises:
        Exception: whatever torch raises where a call cannot be traced, as where values decide what is computed.
    """
    with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        table: Any = core_aten_decompositions()
        graph = make_fx(f, decomposition_table=table)(dict(parameters), inputs)
        follower = _Follower(graph, parameters, inputs)
        follower.run(*torch.utils._pytree.tree_leaves((dict(parameters), inputs)))  # type: ignore[attr-defined]
    return Traced(follower.axes, follower.parameters, list(follower.unknown))


class _Follower(fx.Interpreter):
    """Runs a graph, and keeps the axes of every tensor beside its value."""

    def __init__(self, graph: fx.GraphModule, parameters: Mapping[str, Tensor], inputs: Any) -> None:
        super().__init__(graph, garbage_collect_values=False)
        self.axes = Axes()
        self.parameters = {name: [self.axes.new(size) for size in t.shape] for name, t in parameters.items()}
        self.unknown: dict[str, None] = {}
        self._known: dict[int, list[Dim]] = {}
        self._alive: list[Any] = []  # an id is one tensor's as long as it lives
        self._names = iter(self.parameters)

    def placeholder(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().placeholder(target, args, kwargs)
        if isinstance(value, Tensor):
            name = next(self._names, None)
            self._keep(value, [self.axes.new(n, INPUT) for n in value.shape] if name is None else self.parameters[name])
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, Tensor):
            self._keep(value, self._constant(value))
        return value

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().call_function(target, args, kwargs)
        name = getattr(target, "_opname", None) or getattr(target, "__name__", str(target))
        if name == "getitem":
            if isinstance(value, Tensor) and id(value) not in self._known:
                self._keep(value, [self.axes.new(n, CONSTANT) for n in value.shape])
            return value
        rule = rule_for(name)
        call = Call(self.axes, name, args, kwargs, value, self._known)
        if rule is unknown:
            self.unknown[name] = None
        found = rule(call)
        if isinstance(value, tuple | list):
            for result, dims in zip(value, found, strict=True):
                if isinstance(result, Tensor):
                    self._keep(result, dims)
        elif isinstance(value, Tensor):
            self._keep(value, found)
        return value

    def output(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().output(target, args, kwargs)
        for tensor in torch.utils._pytree.tree_leaves(value):  # type: ignore[attr-defined]
            if isinstance(tensor, Tensor):
                for dim in self._known[id(tensor)]:
                    self.axes.fix(dim, OUTPUT)
        return value

    def _constant(self, value: Tensor) -> list[Dim]:
        """The axes of a constant: those along which it does not change have no factor."""
        return [
            () if bool((value == value.narrow(axis, 0, 1)).all()) else self.axes.new(n, CONSTANT)
            for axis, n in enumerate(value.shape)
        ]

    def _keep(self, value: Tensor, dims: Sequence[Dim]) -> None:
        if len(dims) != value.ndim:
            raise AssertionError(f"{len(dims)} axes for a tensor of {value.ndim}")
        self._known[id(value)] = list(dims)
        self._alive.append(value)
