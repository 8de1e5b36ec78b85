"""Found neurons equal those that one declares by hand, nothing else is proposed, and what cannot be decided is said."""

import pytest
import torch
from torch import nn

import nqf_registry as nqf
from nqf_registry.modules.partition import declared


def seeded(make):
    torch.manual_seed(0)
    return make().eval()


class Gated(nn.Module):
    """A SwiGLU feed-forward of three matrices."""

    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(4, 6, bias=False), nn.Linear(4, 6, bias=False), nn.Linear(6, 4, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class GroupedQuery(nn.Module):
    """Six query heads of size 2 on three heads of keys and values."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(4, n, bias=False) for n in (12, 6, 6, 12))
        self.o = nn.Linear(12, 4, bias=False)

    def forward(self, x):
        n, t, _ = x.shape
        q = self.q(x).view(n, t, 6, 2).transpose(1, 2)
        k, v = (
            m(x).view(n, t, 3, 2).transpose(1, 2)[:, :, None].expand(n, 3, 2, t, 2).reshape(n, 6, t, 2)
            for m in (self.k, self.v)
        )
        return self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, 12))


class Adapter(nn.Module):
    """A frozen matrix with a low-rank one beside it."""

    def __init__(self):
        super().__init__()
        self.base, self.a, self.b = nn.Linear(5, 4), nn.Linear(5, 3, bias=False), nn.Linear(3, 4, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def tokens():
    return torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))


def rows(n):
    return torch.randn(3, n, generator=torch.Generator().manual_seed(0))


HEADS = {"in_proj_weight": "(t h k) m -> h t k m", "in_proj_bias": "(t h k) -> h t k", "out_proj.weight": "m (h k) -> h m k"}
INNER = {"in_proj_weight": "(t h k) m -> k t h m", "in_proj_bias": "(t h k) -> k t h", "out_proj.weight": "m (h k) -> k m h"}
CASES = {
    "perceptron": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)),
        lambda: rows(4),
        [{"0.weight": "d i -> d i", "0.bias": "d -> d", "2.weight": "o d -> d o"}],
    ),
    "attention": (
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda: (tokens(),) * 3,
        [HEADS, INNER],
    ),
    "encoder": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu"),
        tokens,
        [
            {f"self_attn.{name}": pattern for name, pattern in HEADS.items()},
            {f"self_attn.{name}": pattern for name, pattern in INNER.items()},
            {"linear1.weight": "d i -> d i", "linear1.bias": "d -> d", "linear2.weight": "o d -> d o"},
        ],
    ),
    "convolution": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3), nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)),
        lambda: torch.randn(3, 2, 7, 7, generator=torch.Generator().manual_seed(0)),
        [{"0.weight": "d c a b -> d c a b", "0.bias": "d -> d", "4.weight": "o d -> d o"}],
    ),
    "gated": (Gated, lambda: rows(4), [{"gate.weight": "d i -> d i", "up.weight": "d i -> d i", "down.weight": "o d -> d o"}]),
    "glu": (
        lambda: nn.Sequential(nn.Linear(4, 12), nn.GLU(), nn.Linear(6, 2)),
        lambda: rows(4),
        [{"0.weight": "(t d) i -> d t i", "0.bias": "(t d) -> d t", "2.weight": "o d -> d o"}],
    ),
    "adapter": (Adapter, lambda: rows(5), [{"a.weight": "d i -> d i", "b.weight": "o d -> d o"}]),
    "normalised": (
        lambda: nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 2)),
        lambda: rows(4),
        [{"0.weight": "d i -> d i", "0.bias": "d -> d", "1.weight": "d -> d", "1.bias": "d -> d", "3.weight": "o d -> d o"}],
    ),
    "lstm": (lambda: nn.LSTMCell(4, 6), lambda: (rows(4), (rows(6), rows(6))), []),
    "gru": (lambda: nn.GRUCell(4, 6), lambda: (rows(4), rows(6)), []),
    "bilinear": (lambda: nn.Bilinear(3, 4, 5), lambda: (rows(3), rows(4)), []),
    "embedding": (lambda: nn.Embedding(7, 3), lambda: torch.tensor([[0, 3], [6, 1]]), []),
    "linear": (lambda: nn.Linear(4, 5), lambda: rows(4), []),
}


def rows_of(block):
    """The numbers of each neuron in order, (p, d)."""
    return block.reshape(-1, block.shape[-1]).sort(0).values


def same(found, pattern, parameters, sizes):
    """Whether two partitions take the same numbers to the same neuron, whatever the order within it."""
    wanted = declared(pattern, parameters, sizes)
    if found.patterns.keys() != wanted.patterns.keys() or found.width != wanted.width:
        return False
    numbers = {name: torch.arange(p.numel()).reshape(p.shape) for name, p in parameters.items()}
    one, other = found.blocks(numbers), wanted.blocks(numbers)
    return all(torch.equal(rows_of(one[name]), rows_of(other[name])) for name in one)


@pytest.mark.parametrize("name", CASES)
def test_found_neurons_are_those_of_hand(name):
    make, example, wanted = CASES[name]
    module = seeded(make)
    x = example()
    if name == "lstm":
        module, x = Cell(module), (x[0], *x[1])
        wanted = []
    found = nqf.find_neurons(module, x)
    parameters = dict(module.named_parameters())
    assert len(found.groups) == len(wanted), str(found)
    for pattern in wanted:
        sizes = {"h": 2, "k": 4} if "(t h k)" in "".join(pattern.values()) else {"t": 2}
        assert any(same(group.partition, pattern, parameters, sizes) for group in found.groups), pattern
    assert not found.refuted and not found.undecided
    if not wanted:
        assert "no interchangeable units" in str(found) and found.fixed


class Cell(nn.Module):
    """An LSTM cell with its state as two inputs."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell

    def forward(self, x, h, c):
        return self.cell(x, (h, c))


def test_heads_that_share_keys_are_nested():
    """Groups of queries move with their keys; the two queries of a group move by themselves, and so do sizes inside heads."""
    found = nqf.find_neurons(seeded(GroupedQuery), tokens()[..., :4])
    sets = [(group.width, set(group.partition.patterns)) for group in found.groups]
    assert (3, {"q.weight", "k.weight", "v.weight", "o.weight"}) in sets  # heads of keys
    assert (2, {"q.weight", "o.weight"}) in sets  # queries within one
    assert (2, {"q.weight", "k.weight"}) in sets and (2, {"v.weight", "o.weight"}) in sets  # entries of queries, of values
    assert not found.refuted and not found.undecided


def test_what_does_not_act_proves_nothing():
    found = nqf.find_neurons(nn.LSTMCell(4, 6), rows(4))  # from a state of zero, the weights on it do nothing
    assert not found.groups and found.inert == ("weight_hh",)


def test_what_is_not_known_is_said_and_not_guessed():
    class Sorting(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 2)

        def forward(self, x):
            return self.down(self.up(x).sort(-1).values)

    found = nqf.find_neurons(Sorting(), rows(3))
    assert not found.groups and "sort is not known here" in str(found)


def test_control_flow_on_values_cannot_be_traced():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(3, 5)

        def forward(self, x):
            return self.up(x) if x.sum() > 0 else -self.up(x)

    found = nqf.find_neurons(Branching(), rows(3))
    assert not found.groups and "cannot be traced" in found.undecided[0]


def test_heads_are_found_where_queries_are_cut_from_keys_and_values():
    """Cross-attention cuts (q, k, v) into one part and two."""
    attention = nn.MultiheadAttention(6, 2, batch_first=True)
    memory = torch.randn(4, 3, 6)
    found = nqf.find_neurons(attention, (torch.randn(4, 5, 6), memory, memory))
    assert [group.width for group in found.groups] == [2, 3] and not found.refuted and not found.undecided
    assert all("in_proj_weight" in group.partition.patterns for group in found.groups)


def test_parts_of_unequal_length_share_the_units_that_both_are_made_of():
    class Cut(nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.first, self.sizes = nn.Linear(3, sum(sizes)), sizes

        def forward(self, x):
            few, many = self.first(x).split(self.sizes, -1)
            return (few.tanh().sum(-1) * many.square().sum(-1))[:, None]

    both = nqf.find_neurons(Cut([4, 8]), torch.randn(5, 3))
    assert [group.width for group in both.groups] == [4]
    assert not nqf.find_neurons(Cut([4, 7]), torch.randn(5, 3)).groups


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_columns_of_an_embedding_bag_are_units():
    module = nn.Sequential(nn.EmbeddingBag(5, 3), nn.Linear(3, 4))
    found = nqf.find_neurons(module, torch.arange(16).reshape(8, 2) % 5)
    assert [dict(group.partition.patterns) for group in found.groups] == [{"0.weight": "a d -> d a", "1.weight": "b d -> d b"}]
    assert not found.undecided
