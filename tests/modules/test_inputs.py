"""Inputs drawn like the example, and second derivatives that torch has in reverse mode alone."""

import torch
from torch import nn

import nqf_registry as nqf


def test_what_is_the_same_for_every_sample_stays_as_it_is():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(4, 2, batch_first=True)

        def forward(self, x, mask):
            return self.attention(x, x, x, attn_mask=mask[0])[0]

    mask = torch.full((3, 3), float("-1e30")).triu(1).expand(6, 3, 3)
    layer = nqf.from_module(Masked(), {"x": torch.randn(6, 3, 4), "mask": mask})
    drawn = layer.sample(5, torch.Generator().manual_seed(0))
    assert torch.equal(drawn["mask"], mask[:5]) and drawn["x"].std(0).min() > 0
    alone = nqf.from_module(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)), torch.ones(1, 2))
    assert alone.sample(4, torch.Generator().manual_seed(0))["0"].std(0).min() > 0  # one sample says nothing of the others


def test_a_gate_grows_though_torch_has_no_forward_mode_of_it():
    gated = nn.Sequential(nn.Linear(4, 12, bias=False), nn.GLU(), nn.Linear(6, 2, bias=False))
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    seen = nqf.analyze(gated, x, targets=y).groups[0]
    assert not seen.cause and seen.growth.inert == ("0.weight[1]",)
    # v σ(b·x) a·x is ½ v a·x + O(|W|³): A = ¼ off(x), and Y has the eigenvalues of (4/5) ¼ Σ y xᵀ
    expected = torch.linalg.svdvals(torch.einsum("ni,no->io", x.double(), y.double()) / 5)
    torch.testing.assert_close(torch.tensor(seen.growth.rates, dtype=torch.float64), expected, rtol=1e-9, atol=0)
