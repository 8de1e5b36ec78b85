"""A setting: one layer at one width and one set of inputs, in float64, with its length scale and its measured rounding.

Every residual takes a setting and stacked weights (R, p, d). Nothing here decides; it only evaluates.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nqf_registry import length_scale
from nqf_registry.arguments import check_samples
from nqf_registry.errors import InvalidInput
from nqf_registry.layer import Inputs, Layer, cast, check_layer_inputs, class_hint
from nqf_registry.verify.tolerances import EQUAL, PRECISION


class Undecided(Exception):
    """A measurement that cannot decide, with the reason; the check that met it has status ``undecided``."""


class Nothing(Undecided):
    """An example at which there is nothing to measure, such as signs at W = 0; a check draws another."""


REPEATED = (0, 16, 32, 48)  # octaves of the profile at which f is asked twice, from 2⁻³⁴ to 2¹⁴


@dataclass(frozen=True, eq=False)
class Setting:
    """A layer at given inputs.

    Attributes:
        layer: the layer, at the width to be measured.
        x: its inputs; floating ones are taken in float64.
        seed: of the rays that the length scale is measured along.

    Raises:
        InvalidInput: this is no layer, the inputs do not fit it, or there are none.
    """

    layer: Layer
    x: Inputs
    seed: int = 0

    def __post_init__(self) -> None:
        if not isinstance(self.layer, Layer):
            raise InvalidInput(f"a setting takes an nqf.Layer, got {type(self.layer).__name__}{class_hint(self.layer)}.")
        check_samples("a setting", check_layer_inputs(self.layer, self.x))
        object.__setattr__(self, "x", cast(self.x, torch.float64))

    @property
    def p(self) -> int:
        """Parameters of one neuron."""
        return self.layer.n_params

    @property
    def d(self) -> int:
        """Number of neurons."""
        return self.layer.width

    @property
    def n(self) -> int:
        """Number of samples."""
        return next(iter(self.x.values())).shape[0]

    def values(self, stacked: Tensor) -> Tensor:
        """Values of f at weights (R, p, d), as (R, n, k)."""
        values = length_scale.evaluate(self.layer, self.x, stacked.to(torch.float64))
        if values.dtype != torch.float64:
            raise Undecided(
                f"float64 weights and inputs gave {values.dtype} outputs; the checks need float64 throughout. Make the "
                "tensors that the layer creates itself with the dtype of the weights."
            )
        return values

    @functools.cached_property
    def zero(self) -> Tensor:
        """W = 0, (p, d)."""
        return torch.zeros(self.p, self.d, dtype=torch.float64)

    @functools.cached_property
    def offset(self) -> Tensor:
        """f(0), (n, k)."""
        return self.values(self.zero[None])[0]

    @functools.cached_property
    def profile(self) -> length_scale.Profile:
        """F along random rays, octave by octave."""
        return length_scale.profile(self.layer, self.x, self.seed)

    @functools.cached_property
    def _repeated(self) -> float:
        """The largest difference of two values of f at the same weights, relative to |f|; inf where one alone is finite."""
        generator = torch.Generator().manual_seed(self.seed)
        rays = torch.randn(length_scale.RAYS, self.p, self.d, generator=generator, dtype=torch.float64)
        sizes = self.profile.sizes[list(REPEATED)]
        points = torch.cat([self.zero[None], torch.einsum("j,rpd->jrpd", sizes, rays).flatten(0, 1)])
        first, second = (self.values(points).flatten(1) for _ in range(2))  # (points, n k)
        same = (first == second) | (first.isnan() & second.isnan())
        size = torch.maximum(first.abs(), second.abs())
        size = size.maximum(1e-3 * size.amax(1, keepdim=True))
        gaps = torch.where(same, torch.zeros_like(first), (first - second).abs() / size)
        return float(gaps.nan_to_num(torch.inf).max())

    @functools.cached_property
    def _scale(self) -> length_scale.Scale:
        if self._repeated > EQUAL:  # first of all: noise has a profile too, and all that is taken off as rounding is the noise
            raise Undecided(
                f"f gave two values for the same W and x (they differ by {self._repeated:.1e} of |f|), so nothing else can be "
                "measured of it. Take what draws or counts calls out of forward; the residual determinism says how far "
                "repeated calls differ."
            )
        found = length_scale.find_scale(self.profile)
        if found is None:
            raise Undecided(
                "f(εR) − f(0) follows no power of ε that rounding leaves visible between ε = 2⁻³⁴ and 2²⁸, so there is "
                "no length scale to measure at. Rescale the layer, or look at f along a ray."
            )
        return found

    @property
    def scale(self) -> float:
        """The size of W at which the layer leaves its leading order; a power of two."""
        return self._scale.size

    @property
    def order(self) -> float | None:
        """The exponent of f(εR) − f(0) as ε → 0; None where f does not depend on W."""
        return self._scale.order

    @property
    def homogeneous(self) -> bool:
        """Whether f follows its leading order at every size at which it is finite."""
        return self._scale.homogeneous

    @functools.cached_property
    def spread(self) -> Tensor:
        """|f(W) − f(0)| at the length scale, by sample and output (n, k): the size that errors are measured against.

        An output a thousand times smaller than the largest counts as a thousandth of it, so that rounding decides nothing.
        """
        spread = self.profile.spread[self._scale.index]
        return spread.clamp_min(1e-3 * float(spread.max())).clamp_min(1e-300)

    @functools.cached_property
    def precision(self) -> float:
        """Relative rounding error of f at the length scale."""
        index = self._scale.index
        return float(self.profile.rounding[index] / self.profile.magnitude[index].clamp_min(1e-300))

    def check_exact(self) -> None:
        """What residuals rest on: f is a function, and computes as float64 does, since measured rounding is taken off them.

        Raises:
            Undecided: f gave two values for the same W and x, has no length scale, or computes in a coarser arithmetic.
        """
        if self.offset.isfinite().all() and self.precision > PRECISION:
            raise Undecided(
                f"the layer computes with a relative rounding error of {self.precision:.0e}, float64 has 1e-16; look "
                "for a cast to float32 inside forward."
            )

    def rounding(self, sizes: Tensor) -> Tensor:
        """Measured rounding error of f at weights of these sizes, from the nearest octave of the profile."""
        octaves = torch.log2(sizes).round().long() - length_scale.OCTAVES[0]
        return self.profile.rounding[octaves.clamp(0, len(self.profile.sizes) - 1)]

    def neuron_function(self, others: Tensor, neuron: int) -> Callable[[Tensor], Tensor]:
        """F as a function of one neuron (p,), the others held at (p, d)."""
        left, right = others[:, :neuron], others[:, neuron + 1 :]

        def f(w: Tensor) -> Tensor:
            return self.layer(self.layer.unstack(torch.cat([left, w[:, None], right], -1)), self.x)

        return f
