"""The size of W at which a layer leaves the leading term of its expansion at zero; every step of a test is a fraction of it.

A layer with inputs of size 10⁴ lives at weights of size 10⁻⁴, so no fixed step is right. The even and the odd part of f along
random rays are power laws in the size ε of W near zero; the scale is where the first of them ends. Rounding is measured, not
assumed: the third difference of f over relative steps of 2⁻²⁰ holds nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from nqf_registry.layer import Inputs, Layer, cast

OCTAVES = (-34, 28)  # sizes 2^-34 to 2^28: inputs between 1e-4 and 1e4, with room for what a layer multiplies them by
RAYS = 3
OUTPUTS = 16
JITTER = 2.0**-20  # above the resolution of float32, so that a layer that computes in it is seen to
ABOVE_ROUNDING = 64.0
JUMP = 2.0**30
LATE = 7  # octaves: near rounding slopes are not yet those of a power law
BUDGET = 2**22  # numbers in one batch of weights: 32 MiB


@dataclass(frozen=True, eq=False)
class Profile:
    """How f changes with the size ε of W along random rays, octave by octave.

    Attributes:
        sizes: ε, (J,).
        even: root mean square of f(εR) + f(−εR) − 2 f(0) over rays, samples and outputs, (J,).
        odd: the same of f(εR) − f(−εR).
        rounding: the same of the measured rounding error of f.
        spread: max over rays of |f(εR) − f(0)| by sample and output, (J, n, k).
        magnitude: max |f(εR)|, (J,).
        finite: whether f is finite at this size, (J,).
        outputs: the same by output, where there are several; of sixteen of them where there are more.
    """

    sizes: Tensor
    even: Tensor
    odd: Tensor
    rounding: Tensor
    spread: Tensor
    magnitude: Tensor
    finite: Tensor
    outputs: tuple[Profile, ...] = ()


@dataclass(frozen=True)
class Scale:
    """What the profile says.

    Attributes:
        size: the length scale of W; 1, or the nearest size inside the range measured, where the leading term never ends.
        order: the exponent of the leading term of f(εR) − f(0), None where f does not depend on W near zero.
        homogeneous: whether the leading term holds up to the largest size at which f is finite.
        index: the position in the profile at which f is seen to move; that of ``size`` unless f is constant up to there.
    """

    size: float
    order: float | None
    homogeneous: bool
    index: int


def profile(layer: Layer, x: Inputs, seed: int = 0) -> Profile:
    """Evaluates a layer along a few random rays at sizes an octave apart."""
    x = cast(x, torch.float64)
    generator = torch.Generator().manual_seed(seed)
    p, d = layer.n_params, layer.width
    sizes = 2.0 ** torch.arange(OCTAVES[0], OCTAVES[1] + 1, dtype=torch.float64)
    rays = torch.randn(RAYS, p, d, generator=generator, dtype=torch.float64)
    factors = torch.tensor([1.0, -1.0, 1 + JITTER, 1 + 2 * JITTER, 1 + 3 * JITTER], dtype=torch.float64)
    octaves = max(1, BUDGET // (len(factors) * rays.numel()))  # evaluated together
    values = torch.cat(
        [
            evaluate(layer, x, torch.einsum("j,f,rpd->jfrpd", part, factors, rays).reshape(-1, p, d))
            for part in sizes.split(octaves)
        ]
    )
    values = values.reshape(len(sizes), len(factors), RAYS, *values.shape[1:])  # (J, 5, rays, n, k)
    zero = evaluate(layer, x, torch.zeros(1, p, d, dtype=torch.float64))
    k = values.shape[-1]
    chosen = range(0, k, -(-k // OUTPUTS)) if k > 1 else ()
    parts = (_profiled(sizes, values[..., o : o + 1], zero[..., o : o + 1]) for o in chosen)
    return replace(_profiled(sizes, values, zero), outputs=tuple(parts))


def _profiled(sizes: Tensor, values: Tensor, zero: Tensor) -> Profile:
    """The profile of values (J, factors, rays, n, k) and of f(0), (1, n, k)."""
    there, back, second, third, fourth = values.unbind(1)
    if not zero.isfinite().all():  # a hole at zero itself: what f tends to is the reference
        zero = (there[:1] + back[:1]).mean(1) / 2
    rounding = _rms(fourth - 3 * third + 3 * second - there) / 20**0.5
    magnitude = values.abs().amax((1, 2, 3, 4))
    # f moves, but not over steps that float64 resolves: the layer computes in a coarser dtype
    still = ((second == there) & (third == there) & (fourth == there)).flatten(1).all(1)
    still &= (there - zero).abs().amax((1, 2, 3)) > 1e-6 * magnitude
    rounding = torch.maximum(rounding, torch.where(still, JITTER, 2.0**-54) * magnitude)
    return Profile(
        sizes,
        _rms(there + back - 2 * zero),
        _rms(there - back),
        rounding,
        (there - zero).abs().amax(1),
        magnitude,
        values.flatten(1).isfinite().all(1),
    )


def evaluate(layer: Layer, x: Inputs, stacked: Tensor) -> Tensor:
    """F at stacked weights (R, p, d): (R, n, k), in pieces that keep what a layer makes of them under a budget of numbers."""
    n = next(iter(x.values())).shape[0]
    piece = max(1, BUDGET // (max(stacked[0].numel(), layer.footprint) * max(n, 1)))
    with (
        sdpa_kernel(SDPBackend.MATH),
        torch.no_grad(),
    ):  # the fused attention kernels have no second derivative, and other digits
        return torch.cat([layer(layer.unstack(part), x) for part in stacked.split(piece)])


def find_scale(measured: Profile) -> Scale | None:
    """The length scale of a profile; None where f follows no power law near zero that rounding leaves visible.

    The smallest of any output, since one that grows without end hides the others in the mean.
    """
    found = _find(measured)
    if found is None or found.order is None:
        return found
    parts = [_find(part) for part in measured.outputs]
    if len(parts) == measured.spread.shape[-1] and all(part is not None for part in parts):
        # Each follows its own law: where the mean leaves one, the output that is largest has changed.
        whole = next((part for part in parts if part is not None and part.order is not None), found)
        found = replace(whole, order=found.order)
    for part in parts:
        if part is None or part.order is None or part.homogeneous:
            continue
        if found.homogeneous or part.size < found.size:
            found = replace(part, order=found.order)
    return found


def _find(measured: Profile) -> Scale | None:
    sizes, last = measured.sizes, int(measured.finite.long().cumprod(0).sum()) - 1
    signal = measured.even + measured.odd
    if last < 0:
        return None
    if float((signal[: last + 1] > ABOVE_ROUNDING * measured.rounding[: last + 1]).sum()) == 0:
        index = int((sizes - 1).abs().argmin())
        return Scale(1.0, None, True, min(index, last))
    first = int((signal > ABOVE_ROUNDING * measured.rounding).long().argmax())
    if first > 0 and float(signal[first]) > JUMP * float(measured.rounding[first]):  # no power law rises that fast from nothing
        return Scale(float(sizes[first - 1]), None, False, first)
    runs = []
    both = (measured.even.square() + measured.odd.square()).sqrt()  # ends where the one part overtakes the other
    for part, other in ((measured.even, measured.odd), (measured.odd, measured.even), (both, 0 * both)):
        visible = measured.finite & (part > ABOVE_ROUNDING * measured.rounding) & (part > 1e-11 * other)
        run = _first_run(part, visible, last)
        if run is not None:
            runs.append(run)
    if not runs:
        return None
    bottom, top = max(run[0] for run in runs), min(run[1] for run in runs)
    order = min(run[2] for run in runs)
    if top < last:
        return Scale(float(sizes[top]), order, False, top)
    index = max(bottom, min(int((sizes - 1).abs().argmin()), last))
    return Scale(float(sizes[index]), order, True, index)


def _first_run(part: Tensor, visible: Tensor, last: int) -> tuple[int, int, float] | None:
    """The lowest range of octaves over which ``part`` is a power law: first and last index, and the exponent.

    A law that begins far above the smallest change that is seen is none of the leading term, which rounding then hides.
    """
    slopes = [
        float(torch.log2(part[j + 1] / part[j])) if visible[j] and visible[j + 1] and j < last else float("nan")
        for j in range(len(part) - 1)
    ]
    seen = next((j for j, slope in enumerate(slopes) if slope == slope), 0)
    for length, spread in ((8, 0.05), (5, 0.03), (3, 0.02)):
        for start in range(min(len(slopes) - length, seen + LATE) + 1):
            window = slopes[start : start + length]
            if all(s == s for s in window) and max(window) - min(window) <= spread and min(window) > 0.4:
                order = sum(window) / length
                order = float(round(order)) if abs(order - round(order)) <= spread else order
                # The departure is added up: softmax saturates into another power law of the same order, with slopes little off.
                top, departure = start + length, 0.0
                while top < len(slopes) and abs(departure := departure + slopes[top] - order) <= 0.08:  # nan ends the range too
                    top += 1
                return start, top, order
    return None


def length_scale(layer: Layer, x: Inputs, seed: int = 0) -> float:
    """The size ε of W at which the layer begins to leave the leading terms of its expansion at zero.

    Args:
        layer: any layer.
        x: inputs with leading axis n.
        seed: of the random rays.

    Returns:
        A power of two; 1 for a layer that is homogeneous, and 2⁻³⁴ where no power law was found (f is not smooth, or constant).
    """
    scale = find_scale(profile(layer, x, seed))
    return 2.0 ** OCTAVES[0] if scale is None else scale.size


def _rms(values: Tensor) -> Tensor:
    """Root mean square over all but the first axis; infinite values stay out of the way of the mask that follows."""
    return values.flatten(1).square().mean(1).sqrt()
