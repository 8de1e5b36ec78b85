"""How far a declared expansion is from the measured one along random rays, where no matrix of it can be formed."""

from __future__ import annotations

from collections.abc import Collection

import torch

from nqf_registry.verify.declared import declared_along, declared_part
from nqf_registry.verify.matrix_free import MatrixFree, random_rays
from nqf_registry.verify.residuals.given import GRADIENTS, check_part, check_setting
from nqf_registry.verify.residuals.structure_matrix import Gap, compare
from nqf_registry.verify.setting import Setting


def gaps_along(setting: Setting, seen: MatrixFree, declared: Collection[str], seed: int = 0) -> dict[str, Gap]:
    """Compares Ā and g along rays of one neuron, B along rays of two less what each neuron does alone, and f(0).

    Args:
        setting: the layer and its inputs.
        seen: its expansion as measured.
        declared: the parts to compare, of "structure", "linear", "cross", "offset"; gradients that a layer writes are no
            part and left aside.
        seed: of the rays.

    Returns:
        The gap of each part; its place is (sample, output, ray). B of a single neuron is left out.

    Raises:
        InvalidInput: no setting, or a part that the layer does not declare.
        Undecided: f is no function, has no length scale, or computes in a coarser arithmetic than float64's.

    Example:
        >>> from nqf_registry.verify.matrix_free import measure_along
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("quadratic-network", n_in=2000, width=2)
        >>> setting = Setting(layer, layer.sample(2, torch.Generator().manual_seed(0)))
        >>> gaps_along(setting, measure_along(setting), ["structure"])["structure"].residual < 1e-12
        True
    """
    check_setting(setting)
    for name in declared:
        if name not in GRADIENTS:
            check_part(setting, name)
    setting.check_exact()
    size, s = setting.spread, setting.scale
    one, two = random_rays(setting, seed, 1), random_rays(setting, seed + 1, 2)
    gaps: dict[str, Gap] = {}
    found = seen.along(one)
    if "structure" in declared:
        said = declared_along(setting, "structure", one)
        gaps["structure"] = compare(said.movedim(0, -1), found.curvature.movedim(0, -1), size / s**2)
    if "linear" in declared:
        said = declared_along(setting, "linear", one)
        gaps["linear"] = compare(said.movedim(0, -1), found.slope.movedim(0, -1), size / s)
    if "cross" in declared and setting.d > 1:
        first, second = two.clone(), two.clone()
        first[:, :, 1:], second[:, :, 0] = 0, 0
        apart = seen.along(torch.cat([two, first, second])).curvature.unflatten(0, (3, len(two)))
        said = declared_along(setting, "cross", two)
        gaps["cross"] = compare(said.movedim(0, -1), (apart[0] - apart[1] - apart[2]).movedim(0, -1), size / s**2)
    if "offset" in declared:
        gaps["offset"] = compare(declared_part(setting, "offset", setting.offset), setting.offset, size)
    return gaps
