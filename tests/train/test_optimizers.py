"""Every rule against torch.optim, step by step in float64, alone and with one rate and weight decay a replica."""

import pytest
import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.train.optimizers import OPTIMIZERS
from nqf_registry.train.rules import find_optimizer

TORCH = {
    "gd": lambda p, lr, decay: torch.optim.SGD(p, lr=lr, weight_decay=decay),
    "momentum": lambda p, lr, decay: torch.optim.SGD(p, lr=lr, weight_decay=decay, momentum=0.8),
    "nesterov": lambda p, lr, decay: torch.optim.SGD(p, lr=lr, weight_decay=decay, momentum=0.8, nesterov=True),
    "adam": lambda p, lr, decay: torch.optim.Adam(p, lr=lr, weight_decay=decay),
}


def weights(replicas, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = {"u": (3, 4), "v": (2, 3, 4)}
    return {name: torch.randn(replicas, *shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}


def gradient(W):
    """Of a function that is no quadratic, so that an error of any step shows in the next."""
    return {name: torch.sin(block) + 0.1 * block**3 for name, block in W.items()}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_follows_torch_optim_step_by_step(name, decay):
    lr = 0.05
    W, leaves = weights(1), {n: b[0].clone().requires_grad_() for n, b in weights(1).items()}
    rule = OPTIMIZERS[name]((lr,), (decay,), 0.8 if OPTIMIZERS[name].takes_momentum else 0.0)
    reference, slots = TORCH[name](list(leaves.values()), lr, decay), rule.slots(W)
    for count in range(1, 31):
        rule.step(W, gradient(W), slots, count)
        for n, g in gradient({n: b.detach() for n, b in leaves.items()}).items():
            leaves[n].grad = g
        reference.step()
        for n, block in W.items():
            torch.testing.assert_close(block[0], leaves[n].detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_every_replica_has_its_own_rate_and_decay(name):
    rates, decays = (0.01, 0.1, 0.05), (0.0, 0.2, 0.4)
    beta = 0.8 if OPTIMIZERS[name].takes_momentum else 0.0
    together, rule = weights(3), OPTIMIZERS[name](rates, decays, beta)
    alone = [{n: b[r : r + 1].clone() for n, b in weights(3).items()} for r in range(3)]
    slots = rule.slots(together)
    singles = [OPTIMIZERS[name]((rates[r],), (decays[r],), beta) for r in range(3)]
    held = [single.slots(W) for single, W in zip(singles, alone, strict=True)]
    for count in range(1, 11):
        rule.step(together, gradient(together), slots, count)
        for r in range(3):
            singles[r].step(alone[r], gradient(alone[r]), held[r], count)
    for r in range(3):
        for n, block in together.items():
            torch.testing.assert_close(block[r], alone[r][n][0], rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("name", [name for name, rule in OPTIMIZERS.items() if rule.linear])
def test_stability_limit_separates_decay_from_growth(name):
    beta = 0.7 if OPTIMIZERS[name].takes_momentum else 0.0
    limit = OPTIMIZERS[name]((1.0,), (0.0,), beta).stability_limit()
    for factor, stable in ((0.99, True), (1.01, False)):
        W = {"w": torch.ones(1, 1, dtype=torch.float64)}
        rule = OPTIMIZERS[name]((factor * limit,), (0.0,), beta)
        slots = rule.slots(W)
        for count in range(1, 3001):
            rule.step(W, dict(W), slots, count)  # curvature one
        assert (abs(float(W["w"])) < 1.0) == stable


def test_the_gradient_is_not_written_to():
    for rule in OPTIMIZERS.values():
        W = weights(2)
        g = gradient(W)
        before = {n: b.clone() for n, b in g.items()}
        made = rule((0.1,), (0.5,), 0.0)
        made.step(W, g, made.slots(W), 1)
        assert all(torch.equal(g[n], before[n]) for n in g)


def test_unknown_rule_is_named():
    with pytest.raises(InvalidInput, match=r"'adm'.*Did you mean 'adam'"):
        find_optimizer("adm")
