"""The gated unit's own tests: each check of the verifier is a test, and what is known to fail says why."""

from dataclasses import dataclass
from pathlib import Path

import gated_unit
import torch
from gated_unit import GatedUnit

import nqf_registry as nqf
from nqf_registry.testing import ExpectedFailure, fake_distribution, parametrize_with_checks


@dataclass(frozen=True)
class RectifiedGate(GatedUnit):
    """The same behind a gate relu(g . x), which has a kink at zero and no quadratic form."""

    key = "rectified-gate"

    def unit(self, w, x):
        return (torch.tanh(x["x"] @ w["u"]) * torch.relu(x["x"] @ w["g"]))[:, None] * w["v"]


KNOWN = {
    "rectified-gate": {
        "smoothness": ExpectedFailure("relu has a kink", example="smoothness"),
        "structure-matrix": "A is that of the sigmoid gate",
        "remainder-order": "with a kink at zero there is no quadratic form",
    }
}


@parametrize_with_checks([GatedUnit(), GatedUnit(n_in=3, n_out=2), RectifiedGate()], KNOWN, profile="dev")
def test_gated_units(layer, check):
    check(layer)


def test_it_is_found_where_it_is_installed(tmp_path):
    module = {"gated_unit": Path(gated_unit.__file__)}
    with fake_distribution(tmp_path, "my-gates", modules=module, entry_points={"gated-unit": "gated_unit"}):
        entries = {entry.key: entry.distribution for entry in nqf.Registry.load().entries()}
    assert entries["gated-unit"] == "my-gates"
