"""What a structure matrix may be made of: functions of a module's inputs that occur in A(x), and the code that computes each.

Tokens, channels and positions are axes of the inputs; a feature keeps the sample axis first. The list is tried against A(x)
numerically, so a name that is missing here costs a closed form, never a wrong one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations
from math import prod

import torch
from torch import Tensor
from torch.nn import functional as F

MOST = 2**22  # numbers in one feature; a larger one is left out
CLASSES = 512  # integers up to here are tried as one-hot rows


@dataclass(frozen=True, eq=False)
class Feature:
    """A function of the inputs.

    Attributes:
        text: its name as printed.
        code: a Python expression of ``x``, the inputs by name, with ``F`` for torch.nn.functional.
        value: (n, ...).
    """

    text: str
    code: str
    value: Tensor


def features(x: Mapping[str, Tensor], windows: AbstractSet[tuple[int, ...]], sizes: AbstractSet[int]) -> list[Feature]:
    """Every feature of these inputs, the simple ones first.

    Args:
        x: inputs by name.
        windows: shapes of convolution kernels to cut windows of.
        sizes: lengths that one-hot rows may have.
    """
    single = [f for name, t in x.items() for f in _of_input(name, t, len(x) == 1, windows, sizes)]
    found = [*single, *(g for f in single for g in _means(f))]
    pairs = [product for f, g in combinations(single, 2) for product in _product(f, g)]
    squares = [product for f in single for product in _product(f, f)]
    found += [h for p in (*squares, *pairs) for h in (p, *_means(p))]
    return [f for f in found if f.value.numel() <= MOST]


def _of_input(
    name: str, t: Tensor, alone: bool, windows: AbstractSet[tuple[int, ...]], sizes: AbstractSet[int]
) -> Iterator[Feature]:
    text, code = "x" if alone else f"x{name}" if name.isdigit() else name, f"x[{name!r}]"
    if not t.is_floating_point():
        for size in sorted(sizes):
            if int(t.min()) >= 0 and int(t.max()) < size <= CLASSES:
                hot = F.one_hot(t.long(), size).double()
                yield Feature(f"onehot({text})", f"F.one_hot({code}.long(), {size})", hot)
        return
    t = t.double()
    plain = Feature(text, code, t)
    yield plain
    if t.ndim > 1 and t.shape[-1] > 1:
        width = (t.shape[-1],)
        yield Feature(f"layernorm({text})", f"F.layer_norm({code}, {width})", F.layer_norm(t, width))
        yield Feature(f"rmsnorm({text})", f"F.rms_norm({code}, {width})", F.rms_norm(t, width))
    for window in sorted(windows):
        yield from _windows(plain, window)


def _means(f: Feature) -> Iterator[Feature]:
    """Means over axes behind the samples, and running ones."""
    axes = range(1, f.value.ndim)
    for count in range(1, len(axes) + 1):
        for chosen in combinations(axes, count):
            if count < len(axes) or f.value.ndim == 2:
                which = chosen[0] if count == 1 else chosen
                over = "" if f.value.ndim <= 3 and chosen == (1,) else f", {which}"
                yield Feature(f"mean({f.text}{over})", f"{f.code}.mean({which})", f.value.mean(chosen))
    if f.value.ndim >= 3:
        length = f.value.shape[1]
        steps = torch.arange(1, length + 1, dtype=torch.float64).reshape(-1, *[1] * (f.value.ndim - 2))
        ones = ", ".join(["-1", *["1"] * (f.value.ndim - 2)])
        yield Feature(
            f"running_mean({f.text})",
            f"{f.code}.cumsum(1) / torch.arange(1, {length} + 1, device={f.code}.device).reshape({ones})",
            f.value.cumsum(1) / steps,
        )


def _windows(f: Feature, window: tuple[int, ...]) -> Iterator[Feature]:
    """The windows that a convolution without padding cuts, positions before the window's own axes, at strides 1 to 3."""
    first = f.value.ndim - len(window)
    if first < 1 or any(size > have for size, have in zip(window, f.value.shape[first:], strict=True)):
        return
    for stride in (1, 2, 3, window[0]):
        value, code = f.value, f.code
        for i, size in enumerate(window):
            value = value.unfold(first + i, size, stride)
            code += f".unfold({first + i}, {size}, {stride})"
        if prod(value.shape) <= MOST:
            size_text = "×".join(map(str, window))
            yield Feature(f"windows({f.text}, {size_text}" + (f", stride {stride})" if stride > 1 else ")"), code, value)


def _product(f: Feature, g: Feature) -> Iterator[Feature]:
    """Outer products by sample, and those at the same place of the first axis."""
    a, b = f.value, g.value
    letters = "abcdefghijklm"
    if a.ndim + b.ndim - 2 > 6:
        return
    left, right = letters[: a.ndim - 1], letters[a.ndim - 1 : a.ndim + b.ndim - 2]
    options = [(left, right)]
    if a.ndim > 2 and b.ndim > 2 and a.shape[1] == b.shape[1]:
        options.append((left, left[0] + right[1:]))
    for first, second in options:
        out = first + "".join(letter for letter in second if letter not in first)
        size = prod(dict(zip(first + second, (*a.shape[1:], *b.shape[1:]), strict=True)).values())
        if size * len(a) <= MOST:
            spec = f"n{first},n{second}->n{out}"
            tail = ".double()" if "one_hot" in f.code + g.code else ""
            code = f'torch.einsum("{spec}", {f.code}{tail}, {g.code}{tail})'
            yield Feature(f"{f.text}·{g.text}", code, torch.einsum(spec, a, b))
