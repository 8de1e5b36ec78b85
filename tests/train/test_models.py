import dataclasses

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput
from nqf_registry.train.gradients import formed
from nqf_registry.train.losses import LOSSES
from nqf_registry.train.models import initial_weights


def setting(layer, n=9, replicas=3):
    x = {name: t.double() for name, t in layer.sample(n, torch.Generator().manual_seed(1)).items()}
    W = initial_weights(layer, range(replicas), 0.7, torch.float64)
    y = torch.randn(n, layer.n_outputs(), generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return x, W, y


@dataclasses.dataclass(frozen=True)
class Written(nqf.Layer):
    """f = sum_i v_i sin(u_i . x) with a gradient of its own, doubled so that its use shows."""

    key = "test-written"
    width: int = 4

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return torch.sin(x["x"] @ W["u"]) @ W["v"].mT

    def pullback(self, W, x, cotangent):
        h = x["x"] @ W["u"]
        return {"u": 2 * x["x"].mT @ ((cotangent @ W["v"]) * torch.cos(h)), "v": 2 * cotangent.mT @ torch.sin(h)}


@dataclasses.dataclass(frozen=True)
class WrittenBatched(Written):
    key = "test-written-batched"
    batched = True


@dataclasses.dataclass(frozen=True)
class WrittenLooped(Written):
    """One that vmap refuses: it looks at a value."""

    key = "test-written-looped"

    def pullback(self, W, x, cotangent):
        return super().pullback(W, x, cotangent) if float(cotangent.abs().max()) > 0 else W


def reference(model, x, W, y, loss):
    """Gradient of every replica by autograd through its evaluation alone."""
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    f = model.subject if isinstance(model, nqf.Original) else lambda V, x: nqf.quadratic_form(model.subject, x).evaluate(V)
    value = loss.value(f(leaves, x), y).sum()
    return dict(zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True))


@pytest.mark.parametrize("kind", [nqf.Original, nqf.NQF])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=list(LOSSES))
@pytest.mark.parametrize("replicas", [1, 3])
def test_gradient_is_that_of_the_loss(units, kind, loss, replicas):
    x, W, y = setting(units, replicas=replicas)
    y = y.sign() if loss.name == "logistic" else y
    found = kind(units).objective(x, y, loss).gradient(W)
    for name, expected in reference(kind(units), x, W, y, loss).items():
        torch.testing.assert_close(formed(found[name]), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("layer", [Written(), WrittenBatched(), WrittenLooped()], ids=lambda layer: layer.key)
@pytest.mark.parametrize("replicas", [1, 3])
def test_a_written_gradient_is_used(layer, replicas):
    x, W, y = setting(layer, replicas=replicas)
    layer_forward = Written() if layer.batched else layer
    loss = LOSSES["squared"]
    found = nqf.Original(layer).objective(x, y, loss).gradient(W)
    for name, expected in reference(nqf.Original(layer_forward), x, W, y, loss).items():
        torch.testing.assert_close(found[name], 2 * expected, rtol=1e-11, atol=1e-13)


def test_outputs_are_the_layer_and_its_form(units):
    x, W, _ = setting(units)
    torch.testing.assert_close(nqf.Original(units).outputs(W, x), units(W, x))
    torch.testing.assert_close(nqf.NQF(units).outputs(W, x), nqf.quadratic_form(units, x).evaluate(W))


def test_a_derived_form_trains_too(units):
    @dataclasses.dataclass(frozen=True)
    class Derived(nqf.Layer):
        key = "test-derived"
        width: int = 4
        blocks = type(units).blocks
        sample = type(units).sample
        forward = type(units).forward
        n_in: int = 5
        n_out: int = 2

    layer, loss = Derived(), LOSSES["squared"]
    x, W, y = setting(layer)
    found = nqf.NQF(layer).objective(x, y, loss).gradient(W)
    expected = nqf.NQF(dataclasses.replace(units, width=4)).objective(x, y, loss).gradient(W)
    for name in W:
        torch.testing.assert_close(formed(found[name]), formed(expected[name]), rtol=1e-10, atol=1e-12)


def test_nothing_is_attached_to_the_weights(units):
    x, W, y = setting(units)
    before = {name: block.clone() for name, block in W.items()}
    for kind in (nqf.Original, nqf.NQF):
        model = kind(units)
        model.objective(x, y, LOSSES["squared"]).gradient(W)
        state = model.start(W)
        state["u"].add_(1)
    assert all(torch.equal(W[name], before[name]) and not W[name].requires_grad for name in W)


def test_a_replica_starts_where_its_seed_alone_would(units):
    together = nqf.Original(units).init([4, 7], scale=[0.1, 0.2], dtype=torch.float64)
    alone = nqf.Original(units).init([7], scale=0.2, dtype=torch.float64)
    assert all(torch.equal(together[name][1:], alone[name]) for name in together)


def test_wrong_use_is_told(units):
    with pytest.raises(InvalidInput, match="takes a layer or a composition, got str"):
        nqf.NQF("two-layer-mlp")
    with pytest.raises(InvalidInput, match="2 seeds need as many scales"):
        nqf.NQF(units).init([0, 1], scale=[0.1])
