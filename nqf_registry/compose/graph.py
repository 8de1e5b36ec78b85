"""A composition: an acyclic graph of layers that is evaluated, trained and approximated as one.

Each node computes h = f(W, its inputs), or its quadratic form h_k = f_k(0) + Tr[M A_k(its inputs)], and the gradients of all
weights follow through the graph.

Source: arXiv 2608.13335, appendix B.4.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from nqf_registry.arguments import cast, check_cotangent, check_inputs, check_weights
from nqf_registry.compose.check import Origin, edges_of, order_of, ports_of
from nqf_registry.compose.nodes import FORMS, Bound, LayerNode, Node
from nqf_registry.compose.ports import check_title, kind_of, listed, shown
from nqf_registry.errors import GraphError, InvalidInput
from nqf_registry.layer import Inputs, Layer, Port, Weights
from nqf_registry.layer_validation import MOST_WEIGHTS
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.spelling import did_you_mean

if TYPE_CHECKING:
    import networkx


@dataclass(frozen=True)
class Composition:
    r"""A checked graph of layers, and a subject to train like a single layer.

    Its weights are one dict, "node.block" to tensor (\*shape, d of that node), each with at most one leading replica axis.
    Write it in YAML (:func:`nqf_registry.load_composition`) or with :class:`nqf_registry.Graph`; making one checks it.

    Attributes:
        key: its name.
        inputs: the graph inputs, name to port.
        nodes: the nodes by name.
        output: the node whose value is the output, (n, k).
        origin: where it was written, for messages.

    Raises:
        GraphError: the graph is not valid; the message names nodes, ports and shapes.
    """

    batched: ClassVar[bool] = False

    key: str
    inputs: Mapping[str, Port]
    nodes: Mapping[str, Node]
    output: str
    origin: Origin = field(default=Origin(), compare=False, repr=False)
    order: tuple[str, ...] = field(init=False, compare=False, repr=False)
    shapes: Mapping[str, Port] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_title(self.key, self.origin.at("name"))
        order = order_of(self.inputs, self.nodes, self.output, self.origin)
        _check_size(self)
        shapes = ports_of(self.inputs, self.nodes, order, self.output, self.origin)
        for name, value in (("order", order), ("shapes", shapes)):
            object.__setattr__(self, name, value)

    def __hash__(self) -> int:
        return hash((self.key, self.output, self.order))

    # ------------------------------------------------------------------------------------------------- what it is made of

    def layers(self) -> dict[str, Layer]:
        """The layer of each layer node, in the order of evaluation."""
        return {name: node.layer for name in self.order if isinstance(node := self.nodes[name], LayerNode)}

    def forms(self) -> dict[str, str]:
        """The form of each layer node: original, nqf or follow."""
        return {name: node.form for name in self.order if isinstance(node := self.nodes[name], LayerNode)}

    def with_forms(self, form: str | Mapping[str, str] | None = None, **forms: str) -> Composition:
        """A copy whose layer nodes have other forms; the weights stay the same.

        Args:
            form: one form for all nodes, or forms by node.
            **forms: forms by node, over ``form``.

        Raises:
            InvalidInput: a form or a node is unknown.
        """
        have = self.forms()
        wanted = {**(dict.fromkeys(have, form) if isinstance(form, str) else dict(form or {})), **forms}
        for name, word in wanted.items():
            if name not in have:
                raise InvalidInput(
                    f"{self.key} has no layer node {name!r}.{did_you_mean(name, have)} Its layer nodes: {listed(have)}."
                )
            if word not in FORMS:
                raise InvalidInput(f"the form of {name!r} must be one of {', '.join(FORMS)}, got {shown(word)}.")
        changed = {name: dataclasses.replace(self.nodes[name], form=word) for name, word in wanted.items()}  # type: ignore[call-arg]
        return dataclasses.replace(self, nodes={**self.nodes, **changed})

    def edges(self) -> networkx.DiGraph:
        """The graph as networkx: nodes with ``kind`` ("input" among them) and ``port``, edges with the ``ports`` they feed."""
        graph = edges_of(self.inputs, self.nodes)
        for name in graph:
            kind = "input" if name in self.inputs else self.nodes[name].kind
            graph.nodes[name].update(kind=kind, port=self.shapes[name])
        return graph

    def ports(self) -> dict[str, Port]:
        """The graph inputs by name."""
        return dict(self.inputs)

    def n_outputs(self) -> int:
        """k, the number of outputs."""
        return self.shapes[self.output].shape[0]

    def blocks(self) -> dict[str, tuple[int, ...]]:
        """The blocks of all nodes, "node.block" to the shape of one neuron's."""
        return {f"{name}.{block}": shape for name in self.order for block, shape in self.nodes[name].blocks().items()}

    @property
    def n_weights(self) -> int:
        """The number of weights of all nodes together, Σ p · d."""
        return sum(layer.n_params * layer.width for layer in self.layers().values())

    # ---------------------------------------------------------------------------------------------- weights and inputs

    def zeros(self, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """W = 0 at every node."""
        return _joined({name: layer.zeros(dtype, device) for name, layer in self.layers().items()})

    def random(
        self,
        generator: torch.Generator,
        scale: float = 1.0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> dict[str, Tensor]:
        """W with independent normal entries of standard deviation ``scale`` at every node, the same whatever the forms are."""
        return _joined({name: layer.random(generator, scale, dtype, device) for name, layer in self.layers().items()})

    def sample(self, n: int, generator: torch.Generator) -> dict[str, Tensor]:
        """Typical inputs, n of them: what the layers that read them take as typical, standard normal where no layer does.

        Where several layers read one integer input, each takes its own indices, and the least of them is in the range of all.
        """
        x: dict[str, Tensor] = {}
        for name, layer in self.layers().items():
            direct = {port: source for port, source in self.nodes[name].sources().items() if source in self.inputs}
            if any(source not in x or self.inputs[source].integer for source in direct.values()):
                typical = layer.sample(n, generator)
                for port, source in direct.items():
                    if source not in x:
                        x[source] = typical[port]
                    elif self.inputs[source].integer:
                        x[source] = torch.minimum(x[source], typical[port])
        for name, port in self.inputs.items():
            if name not in x:
                x[name] = torch.randn(n, *port.shape, generator=generator)
        return x

    def encode(self, features: Tensor) -> dict[str, Tensor]:
        """Turns a table of feature vectors (n, m) into the graph inputs.

        As the layer does that reads all of them directly, such as attention with its context and query; otherwise the only
        floating input, reshaped.

        Raises:
            InvalidInput: the sizes differ, or there are several inputs that no layer reads alone.
        """
        for name, layer in self.layers().items():
            sources = self.nodes[name].sources()
            if set(sources.values()) == set(self.inputs):
                encoded = layer.encode(features)
                return {source: encoded[port] for port, source in sources.items()}
        m = features.shape[1]
        if len(self.inputs) == 1:
            name, port = next(iter(self.inputs.items()))
            if not port.integer and prod(port.shape) == m:
                return {name: features.reshape(len(features), *port.shape)}
        raise InvalidInput(
            f"{self.key} takes {', '.join(f'{name} {port}' for name, port in self.inputs.items())}; the data has {m} features "
            "a sample. "
            f"Give it one input that holds {m} numbers."
        )

    # ------------------------------------------------------------------------------------------------------- evaluation

    def __call__(self, W: Weights, x: Inputs) -> Tensor:
        """The output at n inputs, nodes whose form is "follow" as they are written.

        Args:
            W: the blocks of all nodes; each may have one leading replica axis R.
            x: inputs with leading axis n; floating ones are cast to the dtype of W, integer ones to int64.

        Returns:
            (n, k), or (R, n, k).

        Raises:
            InvalidInput: W or x have the wrong names or shapes.
        """
        return self.bind(x).evaluate(W)

    def bind(self, x: Inputs, quadratic: bool = False) -> BoundComposition:
        """The composition at fixed inputs, ready to be evaluated at any W; what depends on x alone is computed once.

        Args:
            x: inputs with leading axis n.
            quadratic: whether nodes that follow are their quadratic forms.

        Raises:
            InvalidInput: x has the wrong names or shapes.
        """
        self._check_inputs(x)
        return BoundComposition(self, x, quadratic)

    def _check_inputs(self, x: Inputs) -> None:
        check_inputs(self.key, x)
        if set(x) != set(self.inputs):
            raise InvalidInput(f"{self.key}: x must be a dict of the inputs {listed(self.inputs)}; got {listed(map(str, x))}.")
        for name, port in self.inputs.items():
            got = Port(tuple(x[name].shape[1:]), not x[name].is_floating_point())
            if got.integer != port.integer:
                raise InvalidInput(f"{self.key}: the input {name!r} takes {kind_of(port)}, got {x[name].dtype}.")
            if got.shape != port.shape:
                raise InvalidInput(f"{self.key}: the input {name!r} takes {port}, got {got}.")

    def to_yaml(self) -> str:
        """The composition as YAML; equal compositions give the same text, and reading it back gives an equal one."""
        from nqf_registry.compose.spec import to_yaml

        return to_yaml(self)

    @classmethod
    def from_yaml(cls, text: str, registry: Any = None) -> Composition:
        """The composition that a YAML text describes; see :mod:`nqf_registry.compose.spec`."""
        from nqf_registry.compose.spec import from_yaml

        return from_yaml(text, registry)


# Compositions, by the classes of their layers, of which vmap refused one: their replicas are looped over.
_looped: set[frozenset[type]] = set()


def _check_size(composition: Composition) -> None:
    nodes = [(name, node) for name, node in composition.nodes.items() if isinstance(node, LayerNode)]
    total = sum(node.layer.n_params * node.layer.width for _, node in nodes)
    if total > MOST_WEIGHTS:
        name, node = max(nodes, key=lambda pair: pair[1].layer.n_params * pair[1].layer.width)
        raise GraphError(
            f"{composition.origin.at('nodes', name)}the graph would have {total:,} weights, more than the {MOST_WEIGHTS:,} "
            f"that a composition may have; the largest node is {name!r} with {node.layer.n_params * node.layer.width:,}."
        )


def _joined(weights: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Weights by node to the flat dict "node.block"."""
    return {f"{name}.{block}": t for name, blocks in weights.items() for block, t in blocks.items()}


class BoundComposition:
    """A composition at n inputs, as a function of its weights.

    Nodes that no weight reaches before are bound once for each dtype: their structure matrices, and sums of inputs, are not
    computed again at every step.
    """

    def __init__(self, composition: Composition, x: Inputs, quadratic: bool) -> None:
        self.composition = composition
        self.x = x
        self.quadratic = quadratic
        self._fixed: dict[torch.dtype, tuple[dict[str, Tensor], dict[str, Bound]]] = {}

    def evaluate(self, W: Weights) -> Tensor:
        """The output at W: (n, k), or (R, n, k) for blocks with a leading replica axis.

        Raises:
            InvalidInput: W has the wrong blocks or shapes.
        """
        replicas, dtype = self._check(W)
        values, bound = self._fix(dtype)
        if replicas is None:
            return self._run(W, values, bound, dtype)
        if replicas == 1:  # nothing to map over
            return self._run({name: block[0] for name, block in W.items()}, values, bound, dtype)[None]
        names = tuple(W)

        def one(*parts: Tensor) -> Tensor:
            return self._run(dict(zip(names, parts, strict=True)), values, bound, dtype)

        return self._mapped(one, [W[name] for name in names])

    def pullback(self, W: Weights, cotangent: Tensor) -> dict[str, Tensor]:
        """Gradient by W of Σ cotangent · output, by autograd; cotangent (n, k), or (R, n, k) as the weights."""
        leaves = {name: block.detach().requires_grad_() for name, block in W.items()}
        with torch.enable_grad():
            out = self.evaluate(leaves)
        if not out.requires_grad:  # a form without a single coupling
            return {name: torch.zeros_like(block) for name, block in W.items()}
        check_cotangent(self.composition.key, cotangent, out.shape)
        grads = torch.autograd.grad(out, list(leaves.values()), cotangent.to(out.dtype), allow_unused=True)
        return {name: torch.zeros_like(W[name]) if g is None else g for name, g in zip(leaves, grads, strict=True)}

    def _check(self, W: Weights) -> tuple[int | None, torch.dtype]:
        key, blocks = self.composition.key, self.composition.blocks()
        if not isinstance(W, Mapping) or set(W) != set(blocks):
            have = listed(map(str, W)) if isinstance(W, Mapping) else type(W).__name__
            raise InvalidInput(f"{key}: W must be a dict of the blocks {', '.join(blocks)}; got {have}.")
        counts = {}
        for name, layer in self.composition.layers().items():
            own = {block: W[f"{name}.{block}"] for block in layer.blocks()}
            counts[name] = check_weights(f"{key}, node {name}", layer.blocks(), own)
        if len(set(counts.values())) > 1:
            raise InvalidInput(f"{key}: the nodes must share one replica axis, got replicas {counts} (None is no such axis).")
        return next(iter(counts.values())), next(iter(W.values())).dtype

    def _fix(self, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, Bound]]:
        """The values that depend on x alone, and the nodes bound to such values."""
        if dtype not in self._fixed:
            values, bound = cast(self.x, dtype), {}
            for name in self.composition.order:
                node = self.composition.nodes[name]
                sources = node.sources()
                if all(source in values for source in sources.values()):
                    there = node.bind({port: values[source] for port, source in sources.items()}, self.quadratic, dtype)
                    if node.blocks():
                        bound[name] = there
                    else:
                        values[name] = there({})
            self._fixed[dtype] = values, bound
        return self._fixed[dtype]

    def _run(self, W: Weights, fixed: Mapping[str, Tensor], bound: Mapping[str, Bound], dtype: torch.dtype) -> Tensor:
        values = dict(fixed)
        for name in self.composition.order:
            if name in values:
                continue
            node = self.composition.nodes[name]
            there = bound.get(name)
            if there is None:
                there = node.bind({port: values[source] for port, source in node.sources().items()}, self.quadratic, dtype)
            values[name] = there({block: W[f"{name}.{block}"] for block in node.blocks()})
        return values[self.composition.output]

    def _mapped(self, one: Any, parts: list[Tensor]) -> Tensor:
        """Maps over the replicas by vmap, or by a loop where a layer refuses it, as ``layer.mapped`` does for one layer."""
        classes = frozenset(type(layer) for layer in self.composition.layers().values())
        if classes not in _looped:
            try:
                return torch.func.vmap(one)(*parts)
            except Exception:  # vmap's refusals have no class of their own
                result = torch.stack([one(*columns) for columns in zip(*(p.unbind(0) for p in parts), strict=True)])
                _looped.add(classes)
                return result
        return torch.stack([one(*columns) for columns in zip(*(p.unbind(0) for p in parts), strict=True)])


@quadratic_form.register
def _(subject: Composition, x: Inputs, dtype: torch.dtype | None = None) -> BoundComposition:
    return subject.bind(cast(x, dtype) if dtype is not None else x, quadratic=True)
