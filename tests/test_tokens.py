"""What layers that read tokens or hold fixed numbers share."""

import random

import pytest
import torch

import nqf_registry as nqf

LAYER = nqf.default_registry().get("quadratic-network")


def test_a_table_is_cut_into_tokens_row_by_row():
    table = torch.arange(12.0).reshape(2, 6)
    tokens = nqf.as_tokens(LAYER, table, 3, 2)
    assert tokens.shape == (2, 3, 2) and tokens[1, 2].tolist() == [10.0, 11.0]


@pytest.mark.parametrize(
    ("table", "words"),
    [(torch.zeros(2, 5), "3 · 2 features as tokens; the data has 5"), (torch.zeros(6), r"table of features \(n, 6\)")],
)
def test_a_table_of_another_size_is_named(table, words):
    with pytest.raises(nqf.InvalidInput, match=words):
        nqf.as_tokens(LAYER, table, 3, 2)


def test_fixed_numbers_follow_their_seed_alone():
    like, before = torch.zeros(1, dtype=torch.float64), torch.get_rng_state()
    one, same, other = (nqf.fixed_normal(seed, (200, 3), 0.5, like) for seed in (0, 0, 1))
    assert torch.equal(one, same) and not torch.equal(one, other) and torch.equal(before, torch.get_rng_state())
    assert one.shape == (200, 3) and float(one.std()) == pytest.approx(0.5, rel=0.1)
    assert torch.equal(nqf.fixed_normal(0, (200, 3), 0.5, like.float()), one.float())
    generator = random.Random(0)
    assert one.flatten()[:4].tolist() == [generator.gauss(0.0, 0.5) for _ in range(4)]


def test_fixed_numbers_may_be_asked_for_inside_vmap():
    x = torch.ones(3, 4)
    out = torch.func.vmap(lambda row: row @ nqf.fixed_normal(7, (4,), 1.0, row))(x)
    assert torch.equal(out[0], out[2]) and out.shape == (3,)


@pytest.mark.parametrize("seed", [-1, 0.5, None])
def test_a_seed_counts_from_zero(seed):
    with pytest.raises(nqf.InvalidInput, match="integer from 0 up"):
        nqf.fixed_normal(seed, (2,), 1.0, torch.zeros(1))
