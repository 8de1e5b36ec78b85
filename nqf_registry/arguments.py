"""Weights, inputs and cotangents as they are given, against what they have to be: checks of shapes, a few microseconds each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput, LayerError

Blocks = Mapping[str, tuple[int, ...]]

_NARROW = {torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32, torch.uint64}


def cast(x: Mapping[str, Tensor], dtype: torch.dtype | None) -> dict[str, Tensor]:
    """Floating inputs in a dtype (None: as they are), and integers (tokens, indices) in int64, which is what picks.

    Torch reads a tensor of uint8 as a mask, and picks by none of the other narrow types.
    """
    return {
        name: (t if dtype is None else t.to(dtype)) if t.is_floating_point() else t.long() if t.dtype in _NARROW else t
        for name, t in x.items()
    }


def check_weights(key: str, blocks: Blocks, W: Mapping[str, Tensor]) -> int | None:
    """The number of replicas, None without a replica axis.

    Raises:
        InvalidInput: blocks are missing, unknown, no floating tensors or of the wrong shape.
    """
    if not isinstance(W, Mapping) or W.keys() != blocks.keys():
        have = ", ".join(map(str, W)) if isinstance(W, Mapping) else type(W).__name__
        raise InvalidInput(f"{key}: W must be a dict of the blocks {', '.join(blocks)}; got {have}.")
    seen = set()
    for name, shape in blocks.items():
        block = W[name]
        if not isinstance(block, Tensor) or not block.is_floating_point():
            what = str(block.dtype) if isinstance(block, Tensor) else f"{type(block).__module__}.{type(block).__qualname__}"
            raise InvalidInput(
                f"{key}: block {name!r} must be a floating torch tensor {(*shape, 'd')}, got {what}; "
                "torch.as_tensor(block, dtype=torch.float32) makes one."
            )
        got = tuple(block.shape)
        lead = len(got) - len(shape) - 1
        if lead not in (0, 1) or got[lead:-1] != tuple(shape):
            raise InvalidInput(f"{key}: block {name!r} must be {(*shape, 'd')}, with the neuron axis last, got {got}.")
        seen.add((got[0] if lead else None, got[-1], block.dtype))
    if len(seen) > 1:
        given = {name: (tuple(block.shape), block.dtype) for name, block in W.items()}
        raise InvalidInput(f"{key}: the blocks must share one width and one replica axis, and one dtype; got {given}.")
    replicas = seen.pop()[0] if seen else None
    if replicas == 0:
        raise InvalidInput(f"{key}: W has a replica axis with 0 replicas; give at least one, or leave the axis out.")
    return replicas


def check_inputs(key: str, x: Mapping[str, Tensor], ports: Mapping[str, Any] | None = None) -> int:
    """The number of samples.

    Args:
        key: name of what takes the inputs.
        x: the inputs.
        ports: the inputs that it takes, each with ``shape`` and ``integer``; None where they are not known.

    Raises:
        InvalidInput: x is no dict of tensors with one common leading axis, or does not fit the ports.
    """
    if not isinstance(x, Mapping) or not x or not all(isinstance(t, Tensor) and t.ndim for t in x.values()):
        what = {name: _described(t) for name, t in x.items()} if isinstance(x, Mapping) else _described(x)
        raise InvalidInput(f"{key}: x must be a dict of tensors with a leading sample axis, got {what or 'an empty dict'}.")
    counts = {name: len(t) for name, t in x.items()}
    if len(set(counts.values())) > 1:
        raise InvalidInput(f"{key}: the inputs have different numbers of samples: {counts}.")
    if ports is not None:
        if x.keys() != ports.keys():
            takes = ", ".join(f"{name} {port}" for name, port in ports.items())
            raise InvalidInput(f"{key}: x must be a dict of the inputs {takes}; got {', '.join(map(str, x))}.")
        for name, port in ports.items():
            t = x[name]
            if tuple(t.shape)[1:] != port.shape:
                raise InvalidInput(f"{key}: the input {name!r} takes {port}, got the shape {tuple(t.shape)}.")
            if t.is_floating_point() == port.integer or t.is_complex():
                kind = "integers" if port.integer else "floating numbers"
                raise InvalidInput(f"{key}: the input {name!r} takes {kind} {port}, got {t.dtype}; convert it first.")
    return next(iter(counts.values()))


def check_samples(what: str, n: int) -> None:
    """Refuses an empty table.

    Raises:
        InvalidInput: n is 0.
    """
    if n < 1:
        raise InvalidInput(f"{what} needs at least one sample, got inputs of 0 samples.")


def check_cotangent(key: str, cotangent: Tensor, shape: tuple[int, ...]) -> None:
    """A cotangent has the shape of the outputs; einsum would repeat an axis of size 1 silently.

    Raises:
        InvalidInput: it has another, or is no tensor.
    """
    if not isinstance(cotangent, Tensor) or cotangent.shape != shape:
        raise InvalidInput(
            f"{key}: the cotangent must have the shape of the outputs, {tuple(shape)}, got {_described(cotangent)}; "
            "expand it, or give W the same replica axis."
        )


def check_gradient(key: str, gradient: Any, W: Mapping[str, Tensor], method: str = "pullback") -> dict[str, Tensor]:
    """What a layer's own ``pullback``, or that of its ``linearise``, returned: a dict like W.

    Raises:
        LayerError: it lacks a block, has one too many, or a block has another shape than the weights.
    """
    what = method if method == "pullback" else f"the pullback of {method}"
    if not isinstance(gradient, Mapping) or gradient.keys() != W.keys():
        have = (", ".join(map(str, gradient)) or "none") if isinstance(gradient, Mapping) else type(gradient).__name__
        raise LayerError(f"{key}: {what} must return a dict of the blocks {', '.join(W)}; got {have}.")
    for name, block in W.items():
        if not isinstance(gradient[name], Tensor) or gradient[name].shape != block.shape:
            raise LayerError(
                f"{key}: {what} must return block {name!r} in the shape of W, {tuple(block.shape)}; "
                f"got {_described(gradient[name])}."
            )
    return dict(gradient)


def _described(value: Any) -> str:
    return f"the shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
