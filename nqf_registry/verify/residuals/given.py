"""What a residual is given, against what it has to be: a setting, stacked weights, directions. Every residual begins here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nqf_registry.arguments import check_weights
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Layer, declares
from nqf_registry.verify.setting import Setting

PARTS = ("structure", "linear", "cross", "offset")
GRADIENTS = ("pullback", "linearise")


def check_setting(setting: Any) -> None:
    """A residual takes a setting.

    Raises:
        InvalidInput: it is something else, such as the layer itself.
    """
    if isinstance(setting, Setting):
        return
    got = f"the layer {setting.key or type(setting).__name__} itself" if isinstance(setting, Layer) else type(setting).__name__
    raise InvalidInput(
        f"a residual takes a Setting, a layer at given inputs; got {got}. Make one by Setting(layer, layer.sample(4, "
        "torch.Generator().manual_seed(0))); it is in nqf_registry.verify.residuals."
    )


def check_declared(setting: Setting, name: str) -> None:
    """A residual of what a layer declares needs that it does.

    Raises:
        InvalidInput: it does not.
    """
    if not declares(setting.layer, name):
        raise InvalidInput(
            f"{setting.layer.key}: there is no {name} to measure, the layer does not declare it. Define {name} on the layer, "
            "or leave this residual out."
        )


def check_part(setting: Setting, name: Any) -> None:
    """One of the parts of an expansion, which the layer declares.

    Raises:
        InvalidInput: there is no such part, or it is not declared.
    """
    if name not in PARTS:
        raise InvalidInput(f"the parts of an expansion are {', '.join(PARTS)}; got {name!r}.")
    check_declared(setting, name)


def given_weights(setting: Setting, W: Any, name: str = "W", many: bool = False) -> Tensor:
    """Weights as stacked float64 tensors, (p, d), or (R, p, d) where a residual takes many; one is then taken as R = 1.

    Args:
        setting: the layer and its inputs.
        W: stacked, or a dict of blocks as the layer takes it; of any floating dtype, on any device.
        name: of the argument, for the message.
        many: whether the residual takes a leading axis.

    Raises:
        InvalidInput: no setting, or weights of another shape or kind, empty, nan or infinite.
    """
    check_setting(setting)
    layer, shape = setting.layer, (setting.p, setting.d)
    if isinstance(W, Mapping):
        check_weights(layer.key, layer.blocks(), W)
        W = layer.stack(W)
    expected = (
        f"{layer.key}: {name} must be stacked floating weights {'(R, p, d)' if many else '(p, d)'} with p = {setting.p} and "
        f"d = {setting.d}, or a dict of the blocks {', '.join(layer.blocks())}"
    )
    if not isinstance(W, Tensor) or not W.is_floating_point():
        got = f"a tensor of {W.dtype}" if isinstance(W, Tensor) else type(W).__name__
        raise InvalidInput(f"{expected}; got {got}. torch.as_tensor({name}, dtype=torch.float64) makes a tensor.")
    if tuple(W.shape[-2:]) != shape or W.ndim not in ((2, 3) if many else (2,)) or not W.numel():
        raise InvalidInput(f"{expected}; got the shape {tuple(W.shape)}. layer.stack(blocks) makes stacked weights.")
    stacked = W.detach().to("cpu", torch.float64)
    check_finite(stacked, f"{layer.key}: {name}")
    return stacked[None] if many and stacked.ndim == 2 else stacked


def given_directions(setting: Setting, rays: Any, name: str = "rays", many: bool = False) -> Tensor:
    """Directions in the space of W: like :func:`given_weights`, and none of them zero, along which nothing is measured."""
    stacked = given_weights(setting, rays, name, many)
    check_moving(stacked, f"{setting.layer.key}: {name}")
    return stacked


def given_columns(setting: Setting, directions: Any) -> Tensor:
    """Directions (q, p) of one neuron, of float64 and none of them zero.

    Raises:
        InvalidInput: they are of another shape or kind, empty, nan, infinite or zero.
    """
    what = f"{setting.layer.key}: directions"
    if (
        not isinstance(directions, Tensor)
        or not directions.is_floating_point()
        or directions.shape[1:] != (setting.p,)
        or not directions.numel()
    ):
        got = f"{directions.dtype} {tuple(directions.shape)}" if isinstance(directions, Tensor) else type(directions).__name__
        raise InvalidInput(
            f"{what} must be a floating tensor (q, p) of one or more directions of one neuron, p = {setting.p}; got {got}. "
            "torch.eye(setting.p, dtype=torch.float64) takes each parameter in turn."
        )
    columns = directions.detach().to("cpu", torch.float64)
    check_finite(columns, what)
    check_moving(columns[..., None], what)
    return columns


def check_finite(numbers: Tensor, what: str) -> None:
    """Refuses nan and infinite numbers.

    Raises:
        InvalidInput: there are some.
    """
    bad = int((~numbers.isfinite()).sum())
    if bad:
        raise InvalidInput(
            f"{what} must be finite; {bad} of its {numbers.numel()} numbers are nan or infinite. Residuals are measured at "
            "finite weights."
        )


def check_moving(rays: Tensor, what: str) -> None:
    """Refuses directions (…, p, d) of length zero.

    Raises:
        InvalidInput: there is one.
    """
    if bool((rays == 0).all(-1).all(-1).any()):
        raise InvalidInput(
            f"{what} must be a direction that is not zero: nothing can be measured along zero. Draw it by torch.randn."
        )


def given_neuron(setting: Setting, neuron: Any) -> int:
    """The index of one neuron.

    Raises:
        InvalidInput: there is no such neuron.
    """
    if isinstance(neuron, bool) or not isinstance(neuron, int) or not 0 <= neuron < setting.d:
        raise InvalidInput(f"{setting.layer.key}: neuron must be one of 0 … {setting.d - 1}, got {neuron!r}.")
    return neuron


def given_orders(setting: Setting, orders: Any) -> list[list[int]]:
    """Permutations of the neurons.

    Raises:
        InvalidInput: there is none, one of them is no permutation of 0 … d − 1, or all of them leave every neuron in place.
    """
    d, key = setting.d, setting.layer.key
    try:
        listed = [[int(i) for i in order] for order in orders]
    except (TypeError, ValueError):
        listed = []
    if not listed:
        raise InvalidInput(
            f"{key}: orders must be a list of permutations, each a list of the d = {d} indices of the neurons; got "
            f"{_short(orders)}. One is {[*range(1, d), 0]}."
        )
    identity = list(range(d))
    for order in listed:
        if sorted(order) != identity:
            raise InvalidInput(
                f"{key}: each of the orders must be a permutation, with every index 0 … {d - 1} once; got {_short(order)}."
            )
    if all(order == identity for order in listed):
        raise InvalidInput(
            f"{key}: all the orders leave every neuron in its place, so nothing would be measured; give one that moves a neuron"
            f"{', at a width of two or more' if d == 1 else ''}."
        )
    return listed


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
