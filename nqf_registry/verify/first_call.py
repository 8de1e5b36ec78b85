"""One call of a layer before any check: what keeps it from being evaluated at all is said once, in its own terms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Layer, cast, declares
from nqf_registry.verify.explanation import explain
from nqf_registry.verify.guard import contained

SAMPLES = 8


def first_call(layer: Layer, largest: int) -> str:
    """What keeps a layer from being evaluated; "" where nothing does.

    Args:
        layer: at the width to be verified.
        largest: numbers in W above which the layer is not called here.
    """
    try:
        with contained():
            if wrong := _wrong_variants(layer):
                return wrong
            x = layer.sample(SAMPLES, torch.Generator().manual_seed(0))
            if wrong := _wrong_sample(x):
                return wrong
            x = cast(x, torch.float64)
            p, d = layer.n_params, layer.width
            if p * d > largest:
                return ""
            W = layer.unstack(torch.randn(p, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64))
            with torch.no_grad():
                if declares(layer, "unit") and not declares(layer, "forward"):
                    part = layer.unit({name: block[..., 0] for name, block in W.items()}, x)
                    if wrong := _wrong_unit(part):
                        return wrong
                layer(W, x)
    except Exception as error:
        return explain(error, layer)
    return ""


def _wrong_variants(layer: Any) -> str:
    if not declares(layer, "variants"):
        return ""
    for variant in layer.variants():
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
