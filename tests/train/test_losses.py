import math

import pytest
import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.train.losses import LOSSES, find_loss


def example(n=7, k=3, replicas=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    outputs = torch.randn(replicas, n, k, generator=generator, dtype=torch.float64)
    return outputs, torch.randn(n, k, generator=generator).sign().double()


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_cotangent_is_the_derivative_of_the_mean(loss):
    outputs, y = example()
    leaf = outputs.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss.value(leaf, y).sum(), leaf)
    torch.testing.assert_close(loss.cotangent(outputs, y), expected, rtol=1e-13, atol=1e-16)


def test_values_by_hand():
    y = torch.tensor([[1.0, -1.0], [1.0, 1.0]], dtype=torch.float64)
    f = torch.tensor([[[0.5, 0.0], [2.0, -1.0]]], dtype=torch.float64)
    assert LOSSES["squared"].value(f, y).item() == pytest.approx((0.25 + 1.0 + 1.0 + 4.0) / 2, rel=1e-15)
    by_hand = (math.log1p(math.exp(-0.5)) + math.log(2) + math.log1p(math.exp(-2)) + math.log1p(math.exp(1))) / 2
    assert LOSSES["logistic"].value(f, y).item() == pytest.approx(by_hand, rel=1e-15)


@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
def test_chunks_add_up(loss):
    outputs, y = example(n=8)
    parts = loss.total(outputs[:, :3], y[:3]) + loss.total(outputs[:, 3:], y[3:])
    torch.testing.assert_close(parts / 8, loss.value(outputs, y))


def test_logistic_overflows_nowhere():
    loss, y = LOSSES["logistic"], torch.ones(1, 1)
    far = torch.tensor([[[-1e4]], [[1e4]]])
    assert torch.isfinite(loss.value(far, y)).all() and torch.isfinite(loss.cotangent(far, y)).all()


def test_logistic_refuses_other_labels():
    with pytest.raises(InvalidInput, match=r"labels -1 and \+1; these targets hold 0.5"):
        LOSSES["logistic"].check(torch.tensor([[1.0], [0.5]]))


def test_unknown_loss_is_named():
    with pytest.raises(InvalidInput, match=r"'logistik'.*Did you mean 'logistic'"):
        find_loss("logistik")
