"""A teacher for any layer: the layer's own quadratic form at low-rank weights of chosen singular values."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput
from nqf_registry.layer import cast
from nqf_registry.quadratic_form import quadratic_form
from nqf_registry.train.data import Data, named
from nqf_registry.train.models import Subject
from nqf_registry.train.numbers import SEEDS, number, whole

TOLERANCE = 0.01
SMALLEST = 1e-12
LARGEST = 1e100  # of noise and singular values, and its inverse the least: squares beyond leave float64


@named("teacher")
def teacher(
    layer: Any,
    n: int = 256,
    rank: int | None = None,
    singular_values: Sequence[float] | None = None,
    seed: int = 0,
    noise: float = 0.0,
    test: int | None = None,
) -> Data:
    """Typical inputs of a layer, with targets from its quadratic form at W*: y = f(0) + c Tr[W* W*ᵀ A(x)].

    Column k of every block of W* is √s_k times a random unit vector, orthogonal to the other columns. The overall size follows
    one rule, whatever the layer: c is the largest factor up to 1 at which the layer itself, at √c W*, differs from its
    quadratic form by at most 1 % (rms over samples and outputs, relative to what the quadratic form adds to f(0)). An exact
    quadratic form keeps c = 1.

    Args:
        layer: a layer or a composition.
        n: training samples.
        rank: number of columns of W* that are not zero, at most the width and the smallest block; 4 if left out, or what fits.
        singular_values: s_k, 1, ½, ¼, … if left out.
        seed: of the inputs, the teacher and the noise.
        noise: standard deviation of normal noise on the training targets, relative to the rms of y − f(0).
        test: test samples, without noise; n/4 if left out.

    Returns:
        The data. ``info`` holds ``weights`` (√c W* by block), ``singular_values``, ``factor`` (c) and ``rule``, a sentence to
        print.

    Raises:
        InvalidInput: rank or singular values do not fit the layer, or its quadratic form is constant on these inputs.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("phase-retrieval", size=4)
        >>> data = nqf.teacher(layer, n=32, rank=2)
        >>> data.y.shape, data.info["factor"]
        (torch.Size([32, 1]), 1.0)
    """
    if not isinstance(layer, Subject):
        raise InvalidInput(f"nqf.teacher takes a layer or a composition, got {type(layer).__name__}.")
    n, seed = whole("n", n, 1), whole("seed", seed, 0, SEEDS)
    test = n // 4 if test is None else whole("test", test, 0)
    noise = number("noise", noise)
    if not 0 <= noise <= LARGEST:
        raise InvalidInput(f"noise must be a number from 0 to {LARGEST:g}, got {noise!r}.")
    zeros = layer.zeros(torch.float64)
    values = _singular_values(layer, zeros, rank, singular_values)
    generator = torch.Generator().manual_seed(seed)
    W = {name: _columns(block, values, generator) for name, block in zeros.items()}
    x = layer.sample(n + test, generator)

    wide = cast(x, torch.float64)
    form = quadratic_form(layer, wide)
    with torch.no_grad():
        base = form.evaluate(zeros)
        taught = form.evaluate(W)
        if not bool(torch.isfinite(taught).all()):
            raise InvalidInput(f"the quadratic form of {layer.key} is not finite on its typical inputs; run nqf verify on it.")
        if not bool((taught - base).abs().max() > 0):
            raise InvalidInput(
                f"the quadratic form of {layer.key} is constant on its typical inputs, so it cannot teach: A(x) = 0 there, "
                f"as for a layer that is not smooth or leads at a higher order. nqf verify says which; train it on data of "
                f"your own, or on the digits (--data digits)."
            )

        def remainder(c: float) -> float:
            at = _scaled(W, c)
            taught = form.evaluate(at)
            return float((layer(at, wide) - taught).square().mean().sqrt() / (taught - base).square().mean().sqrt())

        factor, measured = _largest(layer.key, remainder)
        weights = _scaled(W, factor)
        y = form.evaluate(weights)
    size = float((y - base)[:n].square().mean().sqrt())
    y_train = y[:n] + noise * size * torch.randn(n, y.shape[1], generator=generator, dtype=torch.float64)
    rule = (
        f"teacher: rank {len(values)}, scaled by c = {factor:.4g}, the largest factor up to 1 at which {layer.key} "
        f"stays within "
        f"{TOLERANCE:.0%} of its quadratic form (measured {measured:.2g})"
    )
    return Data(
        x={name: t[:n] for name, t in x.items()},
        y=y_train,
        name="teacher",
        test_x={name: t[n:] for name, t in x.items()} if test else None,
        test_y=y[n:] if test else None,
        info={
            "weights": weights,
            "singular_values": values,
            "factor": factor,
            "remainder": measured,
            "rule": rule,
            "seed": seed,
            "noise": float(noise),
        },
    )


def _singular_values(layer: Any, zeros: dict[str, Tensor], rank: int | None, given: Sequence[float] | None) -> list[float]:
    most = min(min(prod(block.shape[:-1]), block.shape[-1]) for block in zeros.values())
    if rank is not None:
        rank = whole("rank", rank, 1)
    if given is not None:
        listed: Any = given.tolist() if isinstance(given, Tensor | np.ndarray) else given
        if not isinstance(listed, Sequence) or isinstance(listed, str | bytes):
            raise InvalidInput(f"singular_values must be a list of positive numbers such as [1, 0.5], got {given!r}.")
        values = [number("each of singular_values", s) for s in listed]
        if not values or not all(s > 0 for s in values) or (rank is not None and rank != len(values)):
            wanted = "positive numbers" if rank is None else f"{rank} positive numbers, as many as the rank"
            raise InvalidInput(f"singular_values must be {wanted}, got {values}.")
        if not all(1 / LARGEST <= s <= LARGEST for s in values):
            raise InvalidInput(
                f"singular_values must lie from {1 / LARGEST:g} to {LARGEST:g}, since float64 loses what the squares of "
                f"others are; got {values}."
            )
    else:
        values = [0.5**k for k in range(min(4, most) if rank is None else rank)]
    if len(values) > most:
        raise InvalidInput(
            f"a teacher of {layer.key} has rank at most {most}, the least of its widths and block sizes; got {len(values)}."
        )
    return values


def _columns(block: Tensor, values: Sequence[float], generator: torch.Generator) -> Tensor:
    """A block whose first columns are orthogonal with squared norms ``values``, the others zero."""
    size = prod(block.shape[:-1])
    q = torch.linalg.qr(torch.randn(size, len(values), generator=generator, dtype=torch.float64))[0]  # (size, rank)
    flat = torch.zeros(size, block.shape[-1], dtype=torch.float64)
    flat[:, : len(values)] = q * torch.tensor(values, dtype=torch.float64).sqrt()
    return flat.reshape(block.shape)


def _scaled(W: dict[str, Tensor], c: float) -> dict[str, Tensor]:
    return {name: c**0.5 * block for name, block in W.items()}


def _largest(key: str, remainder: Any) -> tuple[float, float]:
    """The largest factor up to 1 whose remainder is within the tolerance, by bisection in its logarithm, and that remainder."""
    if (at_one := remainder(1.0)) <= TOLERANCE:
        return 1.0, at_one
    good = 0.1
    while not (measured := remainder(good)) <= TOLERANCE:
        good /= 10
        if good < SMALLEST:
            raise InvalidInput(
                f"{key} differs from its quadratic form by {measured:.1%} even at weights of size {good**0.5:.0e}: it "
                f"is no quadratic form "
                "near W = 0, so none can teach it. `nqf verify` says what it is."
            )
    bad = 10 * good
    while bad / good > 1.01:
        middle = (bad * good) ** 0.5
        good, bad = (middle, bad) if remainder(middle) <= TOLERANCE else (good, middle)
    return good, remainder(good)
