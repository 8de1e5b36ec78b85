"""Operations that compute: which axes run together, and which a sum or another symmetric function leaves free."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nqf_registry.modules.operation import Call, Dims


def elementwise(call: Call) -> Dims:
    """Operands broadcast against each other: axes at the same place from the right run together."""
    dims: Dims = [()] * call.result.ndim
    for operand in [*call.args, *call.kwargs.values()]:
        if isinstance(operand, Tensor):
            own = call.dims(operand)
            for place in range(1, min(len(own), len(dims)) + 1):
                dims[-place] = call.axes.unite(dims[-place], own[-place])
    return dims


def product(call: Call) -> Dims:
    """``mm`` and ``bmm``: the inner axes run together, and so do those of the batch."""
    a, b = call.dims(call.args[0]), call.dims(call.args[1])
    call.axes.unite(a[-1], b[-2])
    batch = [call.axes.unite(x, y) for x, y in zip(a[:-2], b[:-2], strict=True)]
    return [*batch, a[-2], b[-1]]


def product_and_sum(call: Call) -> Dims:
    """``addmm`` and ``baddbmm``: c + a b."""
    inner = Call(call.axes, call.name, call.args[1:3], {}, call.result, call._known)
    dims = product(inner)
    own = call.dims(call.args[0])
    for place in range(1, len(own) + 1):
        dims[-place] = call.axes.unite(dims[-place], own[-place])
    return dims


def reduced(call: Call) -> Any:
    """Sums, means, extremes, norms: a symmetric function of an axis leaves it free."""
    dims = call.dims(call.args[0])
    which = call.at(1)
    if which is None or which == []:
        which = range(len(dims))
    gone = {axis % len(dims) for axis in ([which] if isinstance(which, int) else which)} if dims else set()
    kept = [() if axis in gone else dim for axis, dim in enumerate(dims)]
    results = call.result if isinstance(call.result, tuple | list) else [call.result]
    found = [kept if r.ndim == len(dims) else [dim for axis, dim in enumerate(dims) if axis not in gone] for r in results]
    return found if isinstance(call.result, tuple | list) else found[0]


def convolved(call: Call) -> Dims:
    """``convolution``: channels run together, positions of the filter and of the image are fixed."""
    image, weight, bias = call.args[:3]
    transposed, groups = call.args[6], call.args[8]
    x, w = call.dims(image), call.dims(weight)
    for dim in [*x[2:], *w[2:]]:
        call.fix(dim)
    own_in, own_out = (w[0], w[1]) if transposed else (w[1], w[0])
    if groups == 1:
        call.axes.unite(x[1], own_in)
        out = own_out
    else:
        channels = image.shape[1]
        by_group, inside = call.axes.reshaped([x[1]], [groups, channels // groups], "groups cut it unevenly")
        if transposed:
            group, first = call.axes.reshaped([w[0]], [groups, channels // groups], "groups cut it unevenly")
            call.axes.unite(inside, first)
            out = (*group, *w[1])
        else:
            group, last = call.axes.reshaped([w[0]], [groups, weight.shape[0] // groups], "groups cut it unevenly")
            call.axes.unite(inside, w[1])
            out = (*group, *last)
        call.axes.unite(by_group, group)
    if bias is not None:
        call.axes.unite(out, call.dims(bias)[0])
    return [x[0], out, *[call.fresh(size) for size in call.result.shape[2:]]]


def pooled(call: Call) -> Any:
    """Pooling over the last axes: samples and channels run through."""
    first = call.result[0] if isinstance(call.result, tuple | list) else call.result
    dims = call.dims(call.args[0])
    spatial = [i for i in range(len(dims)) if first.shape[i] != call.args[0].shape[i]]
    for axis in spatial:
        call.fix(dims[axis])
    found = [call.fresh(first.shape[i]) if i in spatial else dim for i, dim in enumerate(dims)]
    return [found, found] if isinstance(call.result, tuple | list) else found


def normalised(call: Call) -> list[Dims]:
    """``native_layer_norm``: a symmetric function of the last axes, with a weight and a bias along them."""
    dims = call.dims(call.args[0])
    for operand in call.args[2:4]:
        if isinstance(operand, Tensor):
            own = call.dims(operand)
            for place in range(1, len(own) + 1):
                call.axes.unite(dims[-place], own[-place])
    count = len(call.args[1])
    inside = dims[: len(dims) - count] + [()] * count
    return [dims, inside, inside]


def batch_normalised(call: Call) -> list[Dims]:
    """Batch normalisation: each channel by itself."""
    dims = call.dims(call.args[0])
    for operand in call.args[1:5]:
        if isinstance(operand, Tensor):
            call.axes.unite(dims[1], call.dims(operand)[0])
    return [dims if result.ndim == len(dims) else [dims[1]] * result.ndim for result in call.result]


def group_normalised(call: Call) -> list[Dims]:
    """Group normalisation: channels of one group run together."""
    dims, channels, groups = call.dims(call.args[0]), call.args[4], call.args[6]
    group, inside = call.axes.reshaped([dims[1]], [groups, channels // groups], "groups cut it unevenly")
    dims[1] = (*group, *inside)
    for operand in call.args[1:3]:
        if isinstance(operand, Tensor):
            call.axes.unite(dims[1], call.dims(operand)[0])
    return [dims, [dims[0], group], [dims[0], group]]


def trilinear(call: Call) -> Dims:
    """``_trilinear``: a product of three tensors that are unsqueezed, summed over some axes."""
    total = call.args[0].ndim + len(call.args[3])
    dims: Dims = [()] * total
    for tensor, extra in zip(call.args[:3], call.args[3:6], strict=True):
        own = iter(call.dims(tensor))
        for axis in range(total):
            if axis not in extra:
                dims[axis] = call.axes.unite(dims[axis], next(own))
    gone = {axis % total for axis in call.args[6]}
    return [dim for axis, dim in enumerate(dims) if axis not in gone]
