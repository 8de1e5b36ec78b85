"""The neural quadratic form of a layer at given inputs: f(0) + g·μ + Σ_i w_iᵀ Ā w_i + Σ_{i≠j} w_iᵀ B w_j.

Under ZGZ g = B = 0 and it is f(0) + Tr[W Wᵀ A(x)]. What the layer declares is used; what it leaves out is derived by
forward-mode autodiff, and p × p is formed in neither case.

Source: arXiv 2608.13335, Theorem 1 and appendix B.1, B.2.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.arguments import cast, check_cotangent
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, Weights, check_layer_inputs, declares, given_weights
from nqf_registry.structure import Structure


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    r"""The NQF of one layer at n inputs, ready to be evaluated at any W.

    Attributes:
        layer: the layer it approximates.
        x: the inputs, floating ones in the dtype of the weights.
        offset: f(0), (n, k) or a number.
        structure: Ā(x), None where it is derived.
        linear: g(x) by block, (n, k, \*shape); empty under ZGZ.
        cross: B(x); None under ZGZ.
    """

    layer: Layer
    x: Inputs
    offset: Tensor | float
    structure: Structure | None
    linear: Mapping[str, Tensor]
    cross: Structure | None

    @property
    def derived(self) -> bool:
        """Whether the quadratic part comes from autodiff because the layer does not declare all of it."""
        return self.structure is None

    def evaluate(self, W: Weights | Tensor) -> Tensor:
        r"""The quadratic form at W: (n, k), or (R, n, k) for blocks with a leading replica axis, in the dtype of W.

        Args:
            W: blocks (\*shape, d) or stacked (p, d); each may have one leading replica axis R.

        Raises:
            InvalidInput: W does not fit the layer.
        """
        W = given_weights(self.layer, W)[0]
        if self.structure is None:
            return self._derived(W)
        value = self.structure.evaluate(W)
        value = value + (self.offset.to(value.dtype) if isinstance(self.offset, Tensor) else self.offset)
        if self.linear or self.cross is not None:
            mu = {name: block.sum(-1, keepdim=True) for name, block in W.items()}
            value = with_linear(value, self.linear, mu)
            if self.cross is not None:
                value = value + self.cross.evaluate(mu) - self.cross.evaluate(W)
        return value

    def pullback(self, W: Weights | Tensor, cotangent: Tensor) -> dict[str, Tensor]:
        """Gradient by W of Σ cotangent · NQF, a dict of blocks.

        Args:
            W: blocks or stacked, with or without a leading replica axis.
            cotangent: (n, k), or (R, n, k) as the weights.

        Raises:
            InvalidInput: W does not fit the layer, or the cotangent not the outputs.
        """
        W = given_weights(self.layer, W)[0]
        if self.structure is None:
            return self._derived_pullback(W, cotangent)
        total = self.structure.pullback(W, cotangent)  # which looks at the cotangent's shape
        cotangent = cotangent.to(next(iter(W.values())).dtype)
        if self.linear or self.cross is not None:
            for name, part in linear_pullback(self.linear, cotangent).items():
                total[name] += part
            if self.cross is not None:
                mu = {name: block.sum(-1, keepdim=True) for name, block in W.items()}
                together, alone = self.cross.pullback(mu, cotangent), self.cross.pullback(W, cotangent)
                for name in total:
                    total[name] += together[name] - alone[name]
        return total

    def _derived_pullback(self, W: Weights, cotangent: Tensor) -> dict[str, Tensor]:
        """The gradient of φ = Σ cotangent · f at zero and its Hessian times W, from one forward pass over the gradient."""
        names, blocks = tuple(W), self.layer.blocks()
        shapes = {name: (*blocks[name], W[name].shape[-1]) for name in names}
        replicated = W[names[0]].ndim == len(shapes[names[0]]) + 1
        zeros = {name: W[name].new_zeros(shapes[name]) for name in names}
        x = dict(cast(self.x, zeros[names[0]].dtype))
        with sdpa_kernel(SDPBackend.MATH), torch.no_grad():
            n_k = tuple(self.layer.forward(zeros, x).shape)
        replicas = [len(W[names[0]])] if replicated else []
        check_cotangent(self.layer.key, cotangent, (*replicas, *n_k))

        def one(V: dict[str, Tensor], c: Tensor) -> dict[str, Tensor]:
            def phi(at: dict[str, Tensor]) -> Tensor:
                out = self.layer.forward(at, x)
                return (out * c.to(out.dtype)).sum()

            try:
                both: Any = torch.func.jvp(torch.func.grad(phi), (zeros,), (V,))
            except NotImplementedError:  # torch has no forward mode of some operations, glu's among them
                both = _twice_backwards(phi, zeros, V)
            slope, curvature = both
            return {name: (slope[name] + curvature[name]).detach() for name in names}

        # The fused kernels have no second derivative, see _derived.
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            if not replicated:
                return one({name: W[name].detach() for name in names}, cotangent)
            parts = [one({name: W[name][r].detach() for name in names}, cotangent[r]) for r in range(replicas[0])]
        return {name: torch.stack([part[name] for part in parts]) for name in names}

    def _derived(self, W: Weights) -> Tensor:
        """f(0) + Df(0)[W] + ½ D²f(0)[W, W] by two nested forward passes."""
        names, blocks = tuple(W), self.layer.blocks()
        zeros = tuple(W[name].new_zeros(*blocks[name], W[name].shape[-1]) for name in names)
        x = cast(self.x, zeros[0].dtype)

        def f(*parts: Tensor) -> Tensor:
            return self.layer.forward(dict(zip(names, parts, strict=True)), dict(x))

        def along(*parts: Tensor) -> Tensor:
            def first(*at: Tensor) -> tuple[Any, ...]:
                return torch.func.jvp(f, at, parts)

            (value, slope), (_, curvature) = torch.func.jvp(first, zeros, parts)[:2]
            return value + slope + curvature / 2

        tensors = [W[name] for name in names]
        wanted = torch.is_grad_enabled()
        # The fused kernels have no second derivative: neither attention's nor, where gradients are off, silu's and mish's.
        with sdpa_kernel(SDPBackend.MATH), torch.enable_grad():
            if tensors[0].ndim == len(blocks[names[0]]) + 1:
                value = along(*tensors)
            else:
                value = torch.stack([along(*parts) for parts in zip(*(t.unbind(0) for t in tensors), strict=True)])
        return value if wanted else value.detach()


def _twice_backwards(phi: Any, at: dict[str, Tensor], V: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The gradient of φ and its Hessian times V, both in reverse mode."""

    def along(w: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        slope = torch.func.grad(phi)(w)
        total: Any = sum((slope[name] * V[name]).sum() for name in w)
        return total, slope

    curvature, slope = torch.func.grad(along, has_aux=True)(at)
    return slope, curvature


def with_linear(value: Tensor, linear: Mapping[str, Tensor], mu: Weights) -> Tensor:
    r"""Outputs (..., n, k) and g·μ, from g by block (n, k, \*shape) and μ as one neuron, blocks (..., \*shape, 1)."""
    for name, g in linear.items():
        axes = g.ndim - 2
        dims: Any = (list(range(-axes, 0)), list(range(2, g.ndim)))
        value = value + torch.tensordot(mu[name][..., 0], g.to(mu[name].dtype), dims=dims)
    return value


def linear_pullback(linear: Mapping[str, Tensor], cotangent: Tensor) -> dict[str, Tensor]:
    r"""The gradient by μ of Σ cotangent · g·μ, blocks (..., \*shape, 1)."""
    dims: Any = ([-2, -1], [0, 1])
    return {name: torch.tensordot(cotangent, g.to(cotangent.dtype), dims=dims)[..., None] for name, g in linear.items()}


@functools.singledispatch
def quadratic_form(subject: Any, x: Inputs, dtype: torch.dtype | None = None) -> Any:
    """The NQF of a layer or a composition at inputs x.

    Args:
        subject: any layer; where it claims ZGZ its linear and cross parts are zero, else they are taken as declared, and the
            whole form is derived if one of structure, linear and cross is left out. Or a composition: its nodes of form
            "follow" and "nqf" become their forms at their own inputs.
        x: inputs with leading axis n.
        dtype: dtype in which f(0), g, Ā and B are computed: floating inputs are cast to it. By default theirs. Results have the
            dtype of the weights either way.

    Returns:
        For a layer a :class:`QuadraticForm`; always an object with ``evaluate(W)`` and ``pullback(W, cotangent)``.

    Raises:
        InvalidInput: the subject is neither, or x does not fit it.
    """
    raise InvalidInput(f"quadratic_form takes a layer or a composition, got {type(subject).__name__}.")


@quadratic_form.register
def _(subject: Layer, x: Inputs, dtype: torch.dtype | None = None) -> QuadraticForm:
    layer: Layer = subject
    own: Any = subject
    check_layer_inputs(layer, x)
    x = cast(x, dtype)
    complete = declares(layer, "structure") and (layer.claims.zgz or (declares(layer, "linear") and declares(layer, "cross")))
    if not complete:
        return QuadraticForm(layer, x, 0.0, None, {}, None)
    general = not layer.claims.zgz
    return QuadraticForm(
        layer, x, offset(layer, x, dtype), own.structure(x), own.linear(x) if general else {}, own.cross(x) if general else None
    )


def offset(layer: Layer, x: Inputs, dtype: torch.dtype | None = None) -> Tensor | float:
    """f(0): as declared by ``layer.offset(x)``, else the forward pass at W = 0."""
    own: Any = layer
    if declares(layer, "offset"):
        return own.offset(x)
    floating = [t for t in x.values() if t.is_floating_point()]
    dtype = dtype or (floating[0].dtype if floating else torch.get_default_dtype())
    device = next(iter(x.values())).device
    blocks = layer.blocks()
    zeros = {name: torch.zeros(*shape, layer.width, dtype=dtype, device=device) for name, shape in blocks.items()}
    if layer.batched:
        return layer.forward({name: t[None] for name, t in zeros.items()}, dict(x))[0]
    return layer.forward(zeros, dict(x))
