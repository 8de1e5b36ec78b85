"""A run too large for the machine is refused with its figure before anything of it is made."""

import pytest

import nqf_registry as nqf


@pytest.mark.parametrize(("replicas", "word"), [(10**11, "from 1 to 1000000"), (10**6, "need about .* GiB")])
def test_too_many_replicas(replicas, word):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=1, width=100_000)
    data = nqf.Data(*_table(layer), name="table")
    with pytest.raises(nqf.InvalidInput, match=word):
        nqf.compare(layer, data, replicas=replicas, lr=0.1)


def _table(layer):
    import torch

    return layer.sample(4, torch.Generator().manual_seed(0)), torch.ones(4, 1)
