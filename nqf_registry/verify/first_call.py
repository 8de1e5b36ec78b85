"""One call of a layer before any check: what keeps it from being evaluated at all is said once, in its own terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.errors import one_line
from nqf_registry.layer import Layer, cast, declares
from nqf_registry.verify.explanation import explain
from nqf_registry.verify.guard import contained

SAMPLES = 8
POINTS = 136  # weights that one measurement evaluates together, at most
LARGEST = 2**20  # numbers in W
VARIANTS = 64
INPUTS = 2**31  # bytes of the inputs of one measurement


class TooLarge(Exception):
    """Verifying the layer would take more memory than the budget, or than there is; the text says how much."""


def first_call(layer: Layer) -> str:
    """What keeps a layer from being evaluated; "" where nothing does.

    Args:
        layer: at the width to be verified.

    Raises:
        TooLarge: its weights or inputs are over the budget of memory, or the call ran out of it.
    """
    try:
        with contained():
            if wrong := _wrong_variants(layer):
                return wrong
            p, d = layer.n_params, layer.width
            if p * d > LARGEST:
                raise TooLarge(too_many(layer))
            _refuse_large_inputs(layer)
            x = layer.sample(SAMPLES, torch.Generator().manual_seed(0))
            if wrong := _wrong_sample(x):
                return wrong
            x = cast(x, torch.float64)
            W = layer.unstack(torch.randn(p, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
            with torch.no_grad():
                if declares(layer, "unit") and not declares(layer, "forward"):
                    part = layer.unit({name: block[..., 0] for name, block in W.items()}, x)
                    if wrong := _wrong_unit(part):
                        return wrong
                if wrong := _wrong_output(layer(W, x)):
                    return wrong
    except TooLarge:
        raise
    except Exception as error:
        if _out_of_memory(error):
            raise TooLarge(
                f"there was not the memory for one call ({explain(error, layer)}), so nothing was measured. Verify the layer "
                "at smaller sizes."
            ) from error
        return explain(error, layer)
    return ""


def too_many(layer: Layer) -> str:
    """Why a layer with so many weights is not measured."""
    numbers = layer.n_params * layer.width
    return (
        f"W has {numbers} numbers at width {layer.width}; the points of one check would take {_gib(numbers * POINTS * 8)} and "
        f"the budget is {_gib(LARGEST * POINTS * 8)}, so nothing was measured. Verify the layer at smaller sizes."
    )


def _refuse_large_inputs(layer: Layer) -> None:
    x = layer.sample(1, torch.Generator().manual_seed(0))
    if not isinstance(x, Mapping):
        return
    needed = SAMPLES * 8 * sum(t.numel() for t in x.values() if isinstance(t, Tensor))
    if needed > INPUTS:
        raise TooLarge(
            f"the inputs of {SAMPLES} samples would take {_gib(needed)} in float64 and the budget is {_gib(INPUTS)}, so "
            "nothing was measured. Verify the layer at smaller sizes."
        )


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether an exception, or what caused it, is that memory ran out; torch has no class for it on a CPU."""
    while error is not None:
        if isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in one_line(error):
            return True
        error = error.__cause__
    return False


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _wrong_variants(layer: Any) -> str:
    if not declares(layer, "variants"):
        return ""
    for count, variant in enumerate(layer.variants()):
        if count == VARIANTS:
            return f"variants must give at most {VARIANTS} further layers; there were more"
        if not isinstance(variant, Layer):
            return f"variants must give further layers, got {type(variant).__name__}"
    return ""


def _wrong_sample(x: object) -> str:
    expected = "sample must return a dict of tensors with leading axis n"
    if not isinstance(x, Mapping) or not x:
        return f"{expected}, got {type(x).__name__ if not isinstance(x, Mapping) else 'an empty dict'}"
    for name, value in x.items():
        if not isinstance(value, Tensor):
            return f"{expected}; {name!r} is {type(value).__name__}"
        if value.ndim == 0 or value.shape[0] != SAMPLES:
            return f"{expected}; asked for n = {SAMPLES}, {name!r} has the shape {tuple(value.shape)}"
        if value.is_floating_point() and not bool(value.isfinite().all()):
            wrong = int((~value.isfinite()).sum())
            return f"sample must return finite numbers; {wrong} of the {value.numel()} of {name!r} are nan or infinite"
    return ""


def _wrong_output(out: Tensor) -> str:
    expected = "forward must return real floating numbers (n, k), k ≥ 1, as a dense tensor"
    if out.layout != torch.strided:
        return f"{expected}; got one of layout {str(out.layout).removeprefix('torch.')}: to_dense() makes one"
    if not out.is_floating_point():
        return f"{expected}; got {str(out.dtype).removeprefix('torch.')}"
    if out.shape[-1] == 0:
        return f"{expected}; got the shape {tuple(out.shape)}"
    return ""


def _wrong_unit(part: object) -> str:
    expected = "unit must return (n, k), k outputs"
    if not isinstance(part, Tensor):
        return f"{expected}; got {type(part).__name__}"
    shape = tuple(part.shape)
    if part.ndim == 2 and shape[0] == SAMPLES:
        return ""
    hint = ": add [:, None] for one output" if shape == (SAMPLES,) else f", where n = {SAMPLES}"
    return f"{expected}; got {shape}{hint}"
