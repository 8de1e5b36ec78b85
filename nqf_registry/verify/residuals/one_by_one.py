"""How far what is declared for several samples is from what is declared for each of them alone."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Inputs
from nqf_registry.verify.residuals.given import check_part, given_weights
from nqf_registry.verify.setting import Setting


def one_by_one(setting: Setting, declared: list[str], stacked: Tensor) -> tuple[float, str, int]:
    """The largest relative difference over the declared parts, which part that is, and of which sample.

    Args:
        setting: the layer and its inputs.
        declared: names of the parts that the layer declares, of structure, linear, cross and offset.
        stacked: weights (R, p, d) that the quadratic parts are evaluated at, so that no p × p matrix is formed.

    Returns:
        The difference, nan where there is nothing to compare: no part, or a single sample.

    Raises:
        InvalidInput: no setting, weights that do not fit it, or a part that the layer does not declare.
    """
    stacked = given_weights(setting, stacked, "stacked", many=True)
    for name in declared:
        check_part(setting, name)
    if not declared or setting.n == 1:
        return float("nan"), "", 0
    worst = (0.0, "", 0)
    for name in declared:
        together = _samples(setting, name, setting.x, stacked)
        size = max(float(together.abs().max()), 1e-300)
        for i in range(setting.n):
            alone = _samples(setting, name, {key: t[i : i + 1] for key, t in setting.x.items()}, stacked)
            gap = float((alone[0] - together[i]).abs().max()) / size if alone.shape[1:] == together.shape[1:] else torch.inf
            gap = torch.inf if gap != gap else gap  # Python's max would drop a nan
            worst = max(worst, (gap, name, i), key=lambda found: found[0])
    return worst


def _samples(setting: Setting, name: str, x: Inputs, stacked: Tensor) -> Tensor:
    """One part as (n, numbers)."""
    own: Any = setting.layer
    n = next(iter(x.values())).shape[0]
    value = getattr(own, name)({key: t.clone() for key, t in x.items()})
    if name in ("structure", "cross"):
        return value.evaluate(own.unstack(stacked)).movedim(1, 0).reshape(n, -1).double()
    if name == "linear":
        parts = [block.expand(n, *block.shape[1:]).reshape(n, -1).double() for _, block in sorted(value.items())]
        return torch.cat(parts, -1) if parts else torch.zeros(n, 1, dtype=torch.float64)
    number = value.double() if isinstance(value, Tensor) else torch.tensor(float(value), dtype=torch.float64)
    return number.expand(n, *number.shape[1:]).reshape(n, -1) if number.ndim else number.expand(n, 1)
