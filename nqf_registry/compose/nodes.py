"""The kinds of node: a layer, a sum, a concatenation, the identity.

A kind is one frozen dataclass that says from which sources its ports are fed, which port it gives for which it gets, and how
it computes. A new kind is one more such class, listed in ``KINDS``; the check, the graph, the YAML reader and the drawing ask
only these methods.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from nqf_registry.compose.ports import EdgeError, PortError, listed
from nqf_registry.layer import Layer, Port, Weights
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.spelling import did_you_mean

FORMS = ("follow", "original", "nqf")
Values = Mapping[str, Tensor]  # what arrives, by port
Bound = Callable[[Weights], Tensor]  # a node at given values: weights in, output out


@dataclass(frozen=True)
class Node:
    """One node of a graph.

    Attributes:
        kind: the word that YAML and messages use.
        options: further fields that YAML may give beside the kind's own.
    """

    kind: ClassVar[str] = ""
    options: ClassVar[tuple[str, ...]] = ()

    def sources(self) -> dict[str, str]:
        """Which node or input feeds each port."""
        raise NotImplementedError

    def output(self, given: Mapping[str, Port]) -> Port:
        """The port that the node gives when its ports get these.

        Raises:
            PortError: one of them does not fit.
        """
        raise NotImplementedError

    def bind(self, values: Values, quadratic: bool, dtype: torch.dtype) -> Bound:
        r"""The node at given values, as a function of its weights alone.

        What depends on the values only (a structure matrix, a sum) is computed here, once.

        Args:
            values: what its ports get, (n, \*shape) each.
            quadratic: whether a node that follows is to be its quadratic form.
            dtype: dtype of the weights.
        """
        raise NotImplementedError

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """The neuron partition of the node; empty for a node without parameters."""
        return {}


@dataclass(frozen=True)
class LayerNode(Node):
    """A layer with its sizes.

    Attributes:
        layer: the layer.
        feeds: the source of each port.
        form: "original" (as written), "nqf" (its quadratic form at the node's own inputs), or "follow": original where the
            composition is taken as it is, and the quadratic form in ``quadratic_form(composition, x)``.
        residual: False; or True to add the input of the only port to the output; or the name of the port to add.
    """

    kind: ClassVar[str] = "layer"
    options: ClassVar[tuple[str, ...]] = ("sizes", "from", "form", "residual")

    layer: Layer
    feeds: Mapping[str, str] = field(default_factory=dict)
    form: str = "follow"
    residual: bool | str = False

    def sources(self) -> dict[str, str]:
        """The source of each port, in the order of the layer's ports."""
        return dict(self.feeds)

    @functools.cached_property
    def ports(self) -> dict[str, Port]:
        """The layer's ports, asked once."""
        return self.layer.ports()

    @functools.cached_property
    def outputs(self) -> int:
        """The layer's k, asked once."""
        return self.layer.n_outputs()

    @property
    def added_port(self) -> str | None:
        """The port whose input is added to the output, None without a residual."""
        if self.residual is True:
            return next(iter(self.ports))
        return self.residual or None

    def output(self, given: Mapping[str, Port]) -> Port:
        """The layer's k outputs; ports must have its shapes exactly, and integers meet integers."""
        ports = self.ports
        if not given and ports:
            name, port = next(iter(ports.items()))
            raise PortError(
                name, f"port {name!r} {port} of {self.layer.key} is fed by nothing; name a source for it under from."
            )
        for name in given:
            if name not in ports:
                raise PortError(
                    name, f"{self.layer.key} has no port {name!r}.{did_you_mean(name, ports)} Its ports: {listed(ports)}."
                )
        for name, port in ports.items():
            if name not in given:
                raise PortError(
                    name, f"port {name!r} {port} of {self.layer.key} is fed by nothing; name a source for it under from."
                )
            if given[name] != port:
                numbers = " numbers" if given[name].integer and not port.integer else ""
                raise EdgeError(name, str(given[name]), f"{port}{numbers}")
        result = Port((self.outputs,))
        self._check_residual(ports, result)
        return result

    def _check_residual(self, ports: Mapping[str, Port], result: Port) -> None:
        if self.residual is False:
            return
        if self.residual is True and len(ports) > 1:
            name = next(iter(ports))
            raise PortError(
                name, f"residual: true is for a layer with one port; write the one to add, such as residual: {name}."
            )
        name = self.added_port or ""
        if name not in ports:
            raise PortError(
                name, f"residual: {self.layer.key} has no port {name!r}.{did_you_mean(name, ports)} Its ports: {listed(ports)}."
            )
        if ports[name] != result:
            raise PortError(
                name, f"residual: port {name!r} gets {ports[name]}, the layer gives {result}; a sum needs the same shape twice."
            )

    def bind(self, values: Values, quadratic: bool, dtype: torch.dtype) -> Bound:
        """The layer, or its quadratic form at these values, plus the residual."""
        if self.form == "nqf" or (self.form == "follow" and quadratic):
            evaluate: Bound = quadratic_form(self.layer, values, dtype).evaluate
        else:
            evaluate = functools.partial(self._original, values)
        if self.added_port is None:
            return evaluate
        added = values[self.added_port]
        return lambda W: evaluate(W) + added

    def _original(self, values: Values, W: Weights) -> Tensor:
        return self.layer(W, values)

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """The layer's own partition."""
        return self.layer.blocks()


@dataclass(frozen=True)
class _Joined(Node):
    """A node without parameters that joins any number of sources."""

    parts: tuple[str, ...]

    def sources(self) -> dict[str, str]:
        """The sources, at ports named 0, 1, …"""
        return {str(i): name for i, name in enumerate(self.parts)}

    def _floating(self, given: Mapping[str, Port]) -> None:
        for name, port in given.items():
            if port.integer:
                raise EdgeError(name, str(port), "numbers, no integers")

    def join(self, tensors: list[Tensor]) -> Tensor:
        """The output from all inputs."""
        raise NotImplementedError

    def bind(self, values: Values, quadratic: bool, dtype: torch.dtype) -> Bound:
        """The joined values, whatever the weights."""
        value = self.join([values[name] for name in self.sources()])
        return lambda W: value


@dataclass(frozen=True)
class Sum(_Joined):
    """The sum of its sources, all of one shape."""

    kind: ClassVar[str] = "sum"

    def output(self, given: Mapping[str, Port]) -> Port:
        """The shape that all sources share."""
        self._floating(given)
        first = given["0"]
        for name, port in given.items():
            if port.shape != first.shape:
                raise EdgeError(name, str(port), f"the shape of its first part, {self.parts[0]} {first}")
        return first

    def join(self, tensors: list[Tensor]) -> Tensor:
        """The sum."""
        return functools.reduce(torch.add, tensors)


@dataclass(frozen=True)
class Concat(_Joined):
    """Its sources side by side along the last axis; the other axes must agree."""

    kind: ClassVar[str] = "concat"

    def output(self, given: Mapping[str, Port]) -> Port:
        """The last axis is the sum of the sources'."""
        self._floating(given)
        first = given["0"]
        for name, port in given.items():
            if not port.shape:
                raise EdgeError(name, str(port), "at least one axis, to join along the last")
            if port.shape[:-1] != first.shape[:-1]:
                raise EdgeError(name, str(port), f"all axes but the last as in its first part, {self.parts[0]} {first}")
        return Port((*first.shape[:-1], sum(port.shape[-1] for port in given.values())))

    def join(self, tensors: list[Tensor]) -> Tensor:
        """The concatenation."""
        return torch.cat(tensors, -1)


@dataclass(frozen=True)
class Identity(_Joined):
    """Its only source, under another name."""

    kind: ClassVar[str] = "identity"

    def output(self, given: Mapping[str, Port]) -> Port:
        """The port of the source."""
        return given["0"]

    def join(self, tensors: list[Tensor]) -> Tensor:
        """The value itself."""
        return tensors[0]


KINDS: dict[str, type[Node]] = {cls.kind: cls for cls in (LayerNode, Sum, Concat, Identity)}


def sizes_of(layer: Layer) -> dict[str, Any]:
    """The sizes that make this layer again, by field."""
    return {f.name: getattr(layer, f.name) for f in dataclasses.fields(layer) if f.init}  # type: ignore[arg-type]
