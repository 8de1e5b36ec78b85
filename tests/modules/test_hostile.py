"""Modules that are hard on whoever analyses them: each has the right verdict, or a message that says what to change."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 5, bias=False)
        self.down = nn.Linear(5, 2, bias=False)


class InPlace(Base):
    def forward(self, x):
        h = torch.tanh(self.up(x))
        out = torch.zeros(len(x), 2, dtype=x.dtype)
        for i in range(5):
            out += h[:, i : i + 1] * self.down.weight[:, i]
        return out


class Branch(Base):
    def forward(self, x):
        return self.down(torch.tanh(self.up(x))) if float(x.sum()) > 0 else self.down(self.up(x))


class Sdpa(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 6, bias=False)
        self.k = nn.Linear(4, 6, bias=False)
        self.v = nn.Linear(4, 6, bias=False)
        self.o = nn.Linear(6, 4, bias=False)

    def forward(self, x):
        def s(t):
            return t.view(len(x), -1, 3, 2).transpose(1, 2)

        return self.o(
            F.scaled_dot_product_attention(s(self.q(x)), s(self.k(x)), s(self.v(x))).transpose(1, 2).reshape(len(x), -1, 6)
        )


class Old(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.tanh(z)

    @staticmethod
    def backward(ctx, g):
        return g * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2)


class Legacy(Base):
    def forward(self, x):
        return self.down(Old.apply(self.up(x)))


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(3, 5, dtype=torch.cfloat))
        self.v = nn.Parameter(torch.randn(5, 2, dtype=torch.cfloat))

    def forward(self, x):
        return (torch.tanh(x.to(self.w.dtype) @ self.w) @ self.v).real


class Half(Base):
    def __init__(self):
        super().__init__()
        self.half()

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Zero(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 0, bias=False)
        self.down = nn.Linear(0, 2, bias=False)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Hooked(Base):
    def __init__(self):
        super().__init__()
        self.up.register_forward_hook(lambda m, i, o: o * 2)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 5, bias=False)

    def forward(self, x):
        return F.linear(torch.tanh(self.up(x)), self.up.weight.t())


def inputs(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(dtype)


CASES = {
    "dropout": (
        lambda: nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Dropout(0.5), nn.Linear(5, 2)),
        "undecided",
        "call module.eval()",
    ),
    "batch norm": (
        lambda: nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 2)),
        "undecided",
        "after module.eval()",
    ),
    "control flow": (Branch, "undecided", "declare its neurons"),
    "attention kernel": (Sdpa, "nqf", "A[v.weight, o.weight] = 1/2 mean(x) ⊗ I"),
    "legacy function": (
        Legacy,
        "nqf",
        "A(x) cannot be derived: forward raised RuntimeError: In order to use an autograd.Function",
    ),
    "complex": (Complex, "undecided", "view_as_real is not known here"),
    "half": (Half, "nqf", "1/2 x"),
    "hook": (Hooked, "nqf", "A[up.weight, down.weight] = x"),
    "parameter used twice": (Twice, "nqf", "A couples up.weight-up.weight"),
}
REFUSED = {
    "zero size": (Zero, "have a dimension of size 0"),
    "lazy": (lambda: nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.Linear(5, 2)), "call the module once on the example"),
}


def example(name):
    return (
        inputs(6, 4, 4)
        if name == "attention kernel"
        else inputs(6, 3, dtype=torch.float16 if name == "half" else torch.float32)
    )


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_module_has_its_verdict_and_is_left_as_it_was(name):
    made, verdict, said = CASES[name]
    torch.manual_seed(0)
    module = made()
    before = {key: value.clone() for key, value in module.state_dict().items()}
    seen = nqf.analyze(module, example(name))
    assert seen.classification == verdict and said in str(seen), str(seen)
    after = module.state_dict()
    assert list(after) == list(before) and all(torch.equal(after[key], before[key]) for key in before)


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_numbers_yet_is_refused_with_what_to_do(name):
    made, said = REFUSED[name]
    with pytest.raises(InvalidInput, match=said):
        nqf.analyze(made(), example(name))


def test_units_that_are_picked_one_by_one_are_declared_and_then_pass():
    module = InPlace()
    declared = {"up.weight": "d i -> d i", "down.weight": "o d -> d o"}
    report = nqf.verify(nqf.from_module(module, example("in place"), declared))
    assert report.passed and report.classification == "nqf"
