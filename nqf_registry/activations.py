"""Activation functions by name, with what a quadratic form needs of them: value, slope and curvature at 0, and their parity."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, pi, sqrt

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean


@dataclass(frozen=True)
class Activation:
    """A scalar function φ and its expansion at zero, φ(z) = value + slope·z + ½ curvature·z² + O(z³).

    Attributes:
        name: what :func:`activation` knows it by.
        function: φ, element-wise.
        value: φ(0).
        slope: φ'(0); the mean of both sides at a kink.
        curvature: φ''(0); the mean of both sides at a kink.
        odd: φ(−z) = −φ(z).
        smooth: three times continuously differentiable near 0; a kink elsewhere does no harm there.
        pull: c φ'(z) as one function of c, z and φ(z), where torch has it or it is short; left out, it is taken by autograd.
        in_place: φ and c φ'(z) written over z and over c, for a φ whose slope follows from its value: functions of z, and of c
            and φ(z).
    """

    name: str
    function: Callable[[Tensor], Tensor]
    value: float = 0.0
    slope: float = 1.0
    curvature: float = 0.0
    odd: bool = False
    smooth: bool = True
    pull: Callable[[Tensor, Tensor, Tensor], Tensor] | None = field(default=None, compare=False)
    in_place: tuple[Callable[[Tensor], Tensor], Callable[[Tensor, Tensor], Tensor]] | None = field(default=None, compare=False)

    def __call__(self, z: Tensor) -> Tensor:
        """φ(z), element-wise."""
        return self.function(z)

    def linearise(self, z: Tensor, overwrite: bool = False) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """φ(z), and the function that turns a cotangent c of it into c φ'(z); both element-wise.

        Args:
            z: where.
            overwrite: whether the memory of z, and that of c, may be taken for the results: new memory costs more than φ.

        Example:
            >>> import torch
            >>> value, pullback = activation("tanh").linearise(torch.tensor([0.0]))
            >>> pullback(torch.tensor([3.0]))
            tensor([3.])
        """
        pull = self.pull
        if overwrite and self.in_place is not None and not (z.requires_grad and torch.is_grad_enabled()):
            there, back = self.in_place
            value = there(z)
            return value, lambda cotangent: back(cotangent, value)
        if pull is not None:
            value = self.function(z)
            return value, lambda cotangent: pull(cotangent, z, value)
        with torch.enable_grad():
            leaf = z.detach().requires_grad_()
            out = self.function(leaf)
        return out.detach(), lambda cotangent: torch.autograd.grad(out, leaf, cotangent, retain_graph=True)[0]


def _gelu_tanh(z: Tensor) -> Tensor:
    return F.gelu(z, approximate="tanh")


def _silu(z: Tensor) -> Tensor:
    return z * torch.sigmoid(z)  # F.silu and F.mish have fused gradients, which forward-mode autodiff refuses under no_grad


def _mish(z: Tensor) -> Tensor:
    return z * torch.tanh(F.softplus(z))


def _identity(z: Tensor) -> Tensor:
    return z


def _tanh_pull(cotangent: Tensor, z: Tensor, value: Tensor) -> Tensor:
    return torch.ops.aten.tanh_backward(cotangent, value)


def _tanh_there(z: Tensor) -> Tensor:
    """Writes tanh(z) over z: numpy's is up to seven times as quick as torch's on one or two threads, and as accurate."""
    if z.device.type == "cpu" and z.dtype in _NUMPY and torch.get_num_threads() <= 2:
        with contextlib.suppress(RuntimeError):  # a tensor inside a transform has no memory of its own
            memory = z.detach().numpy()
            np.tanh(memory, out=memory)
            return z
    return torch.tanh_(z)


def _tanh_back(cotangent: Tensor, value: Tensor) -> Tensor:
    if 0 in cotangent.stride():  # the same numbers stand for several, and cannot be written over
        return torch.ops.aten.tanh_backward(cotangent, value)
    return torch.ops.aten.tanh_backward.grad_input(cotangent, value, grad_input=cotangent)


def _sigmoid_back(cotangent: Tensor, value: Tensor) -> Tensor:
    if 0 in cotangent.stride():
        return torch.ops.aten.sigmoid_backward(cotangent, value)
    return torch.ops.aten.sigmoid_backward.grad_input(cotangent, value, grad_input=cotangent)


def _sigmoid_pull(cotangent: Tensor, z: Tensor, value: Tensor) -> Tensor:
    return torch.ops.aten.sigmoid_backward(cotangent, value)


_NUMPY = (torch.float32, torch.float64)

_KNOWN = {
    phi.name: phi
    for phi in (
        Activation("identity", _identity, odd=True, pull=lambda cotangent, z, value: cotangent),
        Activation("tanh", torch.tanh, odd=True, pull=_tanh_pull, in_place=(_tanh_there, _tanh_back)),
        Activation(
            "erf", torch.erf, slope=2 / sqrt(pi), odd=True, pull=lambda c, z, value: c * torch.exp(-z * z) * (2 / sqrt(pi))
        ),
        Activation("sin", torch.sin, odd=True, pull=lambda cotangent, z, value: cotangent * torch.cos(z)),
        Activation("arctan", torch.atan, odd=True),
        Activation("gelu", F.gelu, slope=0.5, curvature=sqrt(2 / pi)),
        Activation("gelu-tanh", _gelu_tanh, slope=0.5, curvature=sqrt(2 / pi)),
        Activation("silu", _silu, slope=0.5, curvature=0.5),
        Activation("mish", _mish, slope=0.6, curvature=0.64),  # tanh(ln 2) = 3/5 and 1 − (3/5)²
        Activation(
            "sigmoid", torch.sigmoid, value=0.5, slope=0.25, pull=_sigmoid_pull, in_place=(torch.sigmoid_, _sigmoid_back)
        ),
        Activation("softplus", F.softplus, value=log(2), slope=0.5, curvature=0.25),
        Activation("hardtanh", F.hardtanh, odd=True),
        # Kinks at zero: known so that one can see what a quadratic form makes of them.
        Activation("softsign", F.softsign, odd=True, smooth=False),
        Activation("relu", F.relu, slope=0.5, smooth=False),
        Activation("leaky-relu", F.leaky_relu, slope=0.505, smooth=False),
        Activation("elu", F.elu, curvature=0.5, smooth=False),
    )
}


def activation(name: str) -> Activation:
    """The activation function of this name.

    Args:
        name: one of :func:`activations`, such as "tanh" or "gelu".

    Raises:
        InvalidInput: no activation has this name.

    Example:
        >>> phi = activation("tanh")
        >>> phi.slope, phi.odd
        (1.0, True)
    """
    if not isinstance(name, str) or name not in _KNOWN:
        hint = did_you_mean(name, _KNOWN) if isinstance(name, str) else ""
        raise InvalidInput(f"expected an activation by name, one of {', '.join(activations())}; got {name!r}.{hint}")
    return _KNOWN[name]


def activations() -> tuple[str, ...]:
    """The names of all activation functions, sorted."""
    return tuple(sorted(_KNOWN))
