"""The terms of a structure: contraction order, stacking, and the couplings that hold rows."""

import torch
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry import couplings


@given(st.integers(0, 2**20))
def test_contraction_in_the_cheapest_order_is_the_plain_einsum(seed):
    g = torch.Generator().manual_seed(seed)
    a, b, c, e = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((2, 3), (4, 3), (3, 3), (3, 5)))
    spec = "xi,ni,ij,jy->nxy"
    torch.testing.assert_close(couplings.contract(spec, a, b, c, e), torch.einsum(spec, a, b, c, e), rtol=1e-12, atol=1e-12)


def test_a_repeated_letter_in_one_operand_is_its_diagonal():
    g = torch.Generator().manual_seed(0)
    a, b, c = (torch.randn(3, 3, generator=g, dtype=torch.float64) for _ in range(3))
    expected = (a.diagonal() * b.diagonal() * c.diagonal()).sum()
    torch.testing.assert_close(couplings.contract("ii,ii,ii->", a, b, c), expected)


def test_the_order_is_worked_out_once_for_each_set_of_shapes():
    couplings._plan.cache_clear()
    for _ in range(3):
        couplings.contract("ab,bc,cd->ad", torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 5))
    info = couplings._plan.cache_info()
    assert (info.misses, info.hits) == (1, 2)


def test_no_more_is_formed_than_the_cheapest_order_needs():
    """u x vᵀ over many samples goes through u vᵀ (one matrix) or x u, never through a (samples, in, out) tensor."""
    steps = couplings._plan("iZ,ni,oZ->no", ((8, 4), (1000, 8), (2, 4)))
    assert steps[0][1].split("->")[1] in ("io", "oi")


def test_stacking_goes_by_blocks_each_row_major():
    blocks = {"u": (2, 2), "b": (), "v": (1,)}
    W = {"u": torch.arange(4.0).reshape(2, 2, 1), "b": torch.tensor([10.0]), "v": torch.tensor([[20.0]])}
    stacked = couplings.stack(W, blocks)
    assert stacked.tolist() == [[0], [1], [2], [3], [10], [20]]
    assert couplings.layout(blocks) == {"u": slice(0, 4), "b": slice(4, 5), "v": slice(5, 6)}
    back = couplings.unstack(stacked, blocks)
    assert {name: block.shape for name, block in back.items()} == {name: block.shape for name, block in W.items()}
    assert all(torch.equal(back[name], W[name]) for name in W)


def test_stacking_keeps_a_replica_axis():
    blocks = {"u": (2,), "v": (3, 1)}
    W = {name: torch.randn(5, *shape, 4) for name, shape in blocks.items()}
    stacked = couplings.stack(W, blocks)
    assert stacked.shape == (5, 5, 4)
    assert torch.equal(stacked[2], couplings.stack({name: block[2] for name, block in W.items()}, blocks))
    assert all(torch.equal(block, W[name]) for name, block in couplings.unstack(stacked, blocks).items())


def test_samples_that_pick_one_row_add_up_in_its_gradient():
    index = torch.tensor([1, 1, 0])
    structure = nqf.quadratic("n,n->n", nqf.rows("u", index), nqf.rows("v", torch.tensor([0, 0, 0]))).bind(
        {"u": (3,), "v": (1,)}
    )
    W = {"u": torch.ones(3, 2), "v": torch.full((1, 2), 2.0)}
    grads = structure.pullback(W, torch.tensor([[1.0], [10.0], [100.0]]))
    assert grads["u"].tolist() == [[200, 200], [22, 22], [0, 0]]
    assert grads["v"].tolist() == [[111, 111]]


def test_picking_rows_forms_nothing_of_the_size_of_samples_times_rows():
    """A block of 50,000 rows and 50,000 samples: a one-hot, or a gradient by sample, would take 10 GB."""
    n = 50_000
    index = torch.arange(n).flip(0)
    structure = nqf.quadratic("n,n->n", nqf.rows("u", index), nqf.rows("v", index)).bind({"u": (n,), "v": (n,)})
    W = {"u": torch.ones(n, 2), "v": torch.ones(n, 2)}
    assert torch.equal(structure.evaluate(W), torch.full((n, 1), 2.0))
    assert torch.equal(structure.pullback(W, torch.ones(n, 1))["u"], W["u"])
