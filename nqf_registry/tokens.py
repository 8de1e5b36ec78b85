"""A table of feature vectors cut into tokens, for layers that read sequences."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nqf_registry.errors import InvalidInput


def as_tokens(layer: Any, features: Tensor, tokens: int, dim: int) -> Tensor:
    """Features (n, tokens · dim) as tokens (n, tokens, dim), one after the other; an image gives its rows.

    Args:
        layer: the layer that reads them; its key stands in the message.
        features: the table.
        tokens: number of tokens a sample.
        dim: size of a token.

    Raises:
        InvalidInput: the table has another number of columns, or is no table.
    """
    if features.ndim != 2:
        raise InvalidInput(f"{layer.key} reads a table of features (n, {tokens * dim}), got the shape {tuple(features.shape)}.")
    if features.shape[1] != tokens * dim:
        raise InvalidInput(
            f"{layer.key} reads tokens · dim = {tokens} · {dim} features as tokens; the data has {features.shape[1]}. "
            "Set tokens and dim to match, for an image of r × r pixels tokens=r and dim=r."
        )
    return features.reshape(len(features), tokens, dim)
