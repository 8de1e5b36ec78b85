"""Operations that move, cut, join or pick: what they say of axes."""

from __future__ import annotations

from math import gcd

from nqf_registry.modules.axes import Dim
from nqf_registry.modules.operation import POSITION, Call, Dims


def permuted(call: Call) -> Dims:
    """``permute``."""
    dims = call.dims(call.args[0])
    return [dims[axis] for axis in call.args[1]]


def transposed(call: Call) -> Dims:
    """``t`` and ``transpose``."""
    dims = call.dims(call.args[0])
    one, other = (call.args[1], call.args[2]) if len(call.args) > 2 else (-2, -1)
    if len(dims) > 1:
        dims[one], dims[other] = dims[other], dims[one]
    return dims


def viewed(call: Call) -> Dims:
    """``view`` and its kin: axes are cut and joined."""
    source = call.args[0]
    # along an axis without factor nothing changes, so it is free to be cut like any other
    dims = [dim or call.axes.new(size) for dim, size in zip(call.dims(source), source.shape, strict=True)]
    return call.axes.reshaped(dims, call.result.shape, f"a {call.name} cuts it unevenly")


def unchanged(call: Call) -> Dims:
    """The same axes."""
    return call.dims(call.args[0])


def expanded(call: Call) -> Dims:
    """``expand``: axes that are repeated have no factor."""
    dims = call.dims(call.args[0])
    return [()] * (call.result.ndim - len(dims)) + dims


def unsqueezed(call: Call) -> Dims:
    """``unsqueeze``."""
    dims = call.dims(call.args[0])
    place = call.args[1] % (len(dims) + 1)
    return [*dims[:place], (), *dims[place:]]


def squeezed(call: Call) -> Dims:
    """``squeeze``: axes of size 1 are dropped."""
    shape, dims = call.args[0].shape, call.dims(call.args[0])
    which = call.at(1)
    chosen = range(len(shape)) if which is None else [which] if isinstance(which, int) else which
    gone = {axis % len(shape) for axis in chosen if shape[axis] == 1}
    return [dim for axis, dim in enumerate(dims) if axis not in gone]


def picked(call: Call) -> Dims:
    """``select``: one position of an axis."""
    dims = call.dims(call.args[0])
    axis = call.args[1] % len(dims)
    call.axes.fix(dims[axis], POSITION.format(name=call.name))
    return dims[:axis] + dims[axis + 1 :]


def sliced(call: Call) -> Dims:
    """``slice``: equal parts of an axis are an outer factor that is fixed, and an inner one."""
    dims, shape = call.dims(call.args[0]), call.args[0].shape
    axis = call.at(1, 0) % len(dims)
    length, step = call.result.shape[axis], call.at(4, 1)
    if length == shape[axis]:
        return dims
    start = call.at(2) or 0
    dims[axis] = _part(call, dims[axis], shape[axis], start % shape[axis], length if step == 1 else 0)
    return dims


def split(call: Call) -> list[Dims]:
    """``split`` and ``split_with_sizes``."""
    dims, shape = call.dims(call.args[0]), call.args[0].shape
    axis = call.at(2, call.kwargs.get("dim", 0)) % len(dims)
    found, start = [], 0
    for piece in call.result:
        length = piece.shape[axis]
        own = dims.copy()
        own[axis] = dims[axis] if length == shape[axis] else _part(call, dims[axis], shape[axis], start, length)
        found.append(own)
        start += length
    return found


def _part(call: Call, dim: Dim, size: int, start: int, length: int) -> Dim:
    """A run of an axis: some positions of an outer factor, and the inner factor, where axis and run are made of equal runs."""
    unit = gcd(size, start, length)
    if unit > 1:
        outer, inner = call.axes.reshaped([dim], [size // unit, unit], POSITION.format(name=call.name))
        call.axes.fix(outer, POSITION.format(name=call.name))
        return call.fresh(length // unit) + inner
    call.axes.fix(dim, POSITION.format(name=call.name))
    return call.fresh(length)


def joined(call: Call) -> Dims:
    """``cat``: the axis along which parts are joined is fixed, in them and in the result; the others run together."""
    parts = [tensor for tensor in call.args[0] if tensor.numel()]
    dims = [call.dims(tensor) for tensor in parts]
    axis = call.at(1, call.kwargs.get("dim", 0)) % len(dims[0])
    found = dims[0].copy()
    for other in dims[1:]:
        for place, dim in enumerate(other):
            if place != axis:
                found[place] = call.axes.unite(found[place], dim)
    if len(dims) > 1:
        for own in dims:
            call.fix(own[axis])
        found[axis] = call.fresh(call.result.shape[axis])
    return found


def stacked(call: Call) -> Dims:
    """``stack``."""
    dims = [call.dims(tensor) for tensor in call.args[0]]
    axis = call.at(1, call.kwargs.get("dim", 0)) % (len(dims[0]) + 1)
    found = dims[0].copy()
    for other in dims[1:]:
        found = [call.axes.unite(x, y) for x, y in zip(found, other, strict=True)]
    return [*found[:axis], call.fresh(len(dims)), *found[axis:]]


def looked_up(call: Call) -> Dims:
    """``embedding``: rows are picked by number, columns run through."""
    rows, columns = call.dims(call.args[0])
    call.axes.fix(rows, POSITION.format(name=call.name))
    return [*call.dims(call.args[1]), columns]


def bagged(call: Call) -> list[Dims]:
    """``_embedding_bag``: rows are picked by number and summed, columns run through."""
    rows, columns = call.dims(call.args[0])
    call.axes.fix(rows, POSITION.format(name=call.name))
    pooled, *counts = call.result
    return [[call.fresh(len(pooled)), columns], *([call.fresh(size) for size in count.shape] for count in counts)]


def numbered(call: Call) -> Dims:
    """``arange``: every position is another number."""
    return [call.fresh(size) for size in call.result.shape]


def indexed(call: Call) -> Dims:
    """``index_select``, ``gather`` and sorting: the axis is handled by position, the others run through."""
    dims = call.dims(call.args[0])
    axis = call.args[1] % len(dims)
    call.axes.fix(dims[axis], POSITION.format(name=call.name))
    dims[axis] = call.fresh(call.result.shape[axis])
    return dims


def running(call: Call) -> Dims:
    """``cumsum`` and its kin: the order along one axis counts."""
    dims = call.dims(call.args[0])
    call.fix(dims[call.args[1] % len(dims)])
    return dims


def constant(call: Call) -> Dims:
    """A tensor of one value: nothing changes along any axis."""
    return [()] * call.result.ndim
