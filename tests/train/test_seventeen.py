"""Every entry of the registry through one call: from small weights the original stays with its quadratic form.

The claim of arXiv 2608.13335, section 3, as a measurement: up to the half-saturation of the first mode the two loss curves
differ by at most 5 % of the initial loss.
"""

import numpy as np
import pytest

import nqf_registry as nqf

REGISTRY = nqf.default_registry()


def test_all_seventeen_are_here():
    assert len(REGISTRY.keys()) >= 17


@pytest.mark.parametrize("key", REGISTRY.keys())
def test_original_stays_with_its_quadratic_form(key):
    layer = REGISTRY.get(key)
    run = nqf.compare(
        layer, nqf.teacher(layer), steps=300, scale=1e-3, dtype="float64", records=range(301), probes="top-mode", verify=False
    )
    steps, loss = run.curves("train_loss")
    original, form = loss[:, 0]
    z = run.data["top-mode"].sel(model="nqf").values[0]
    half = int(nqf.half_saturation(z))
    assert 0 < half < len(steps) - 1, "the first mode never reached half of what it ends at"
    assert z[half] > 100 * z[0], "the first mode did not start small"
    assert form[half] < 0.8 * form[0], "nothing was learned until then"
    deviation = np.abs(original - form)[: half + 1].max() / form[0]
    assert deviation <= 0.05
    print(f"{key}: {deviation:.1e} until step {steps[half]}")
