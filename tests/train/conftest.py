"""Small layers of the trainer's tests, and the plain loop that it is compared with."""

from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf


@dataclass(frozen=True)
class Units(nqf.Layer):
    """f(W) = sum_i v_i tanh(u_i . x), differentiated by autograd."""

    key = "test-units"
    n_in: int = 5
    n_out: int = 2
    width: int = 6

    def blocks(self):
        return {"u": (self.n_in,), "v": (self.n_out,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, self.n_in, generator=generator)}

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"]) @ W["v"].mT

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")


@dataclass(frozen=True)
class Fragile(Units):
    """Units whose output is not a number once a weight exceeds one."""

    key = "test-fragile"

    def forward(self, W, x):
        far = torch.stack([block.abs().amax((-2, -1)) for block in W.values()]).amax(0) > 1
        return torch.where(far, float("nan"), super().forward(W, x))


def by_hand(outputs, W, y, steps, make, batches=None, loss=None):
    """The loop that one writes by hand: weights after every step, by autograd and torch.optim.

    ``outputs(W, index)`` of some samples, ``make(parameters)`` the optimiser.
    """
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    rule = make(list(leaves.values()))
    history = [{name: block.detach().clone() for name, block in leaves.items()}]
    for step in range(steps):
        index = slice(None) if batches is None else batches.at(step)
        out, target = outputs(leaves, index), y[index]
        value = ((out - target) ** 2).sum() / len(target) if loss is None else loss(out, target)
        rule.zero_grad()
        value.backward()
        rule.step()
        history.append({name: block.detach().clone() for name, block in leaves.items()})
    return history


@pytest.fixture
def loop_by_hand():
    return by_hand


@pytest.fixture
def fragile():
    return Fragile()


@pytest.fixture
def units():
    return Units()


@pytest.fixture
def data(units):
    return nqf.teacher(units, n=40, seed=3)
