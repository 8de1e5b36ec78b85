"""Forward passes that are no plain functions of real tensors: each gets the true verdict, or the reason why there is none."""

import os
import sys

import pytest
import torch

import nqf_registry as nqf


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("even this fails")


class Tanh(torch.autograd.Function):
    """Written as one wrote it before vmap: the context is an argument of forward."""

    factor = 1.0

    @staticmethod
    def forward(ctx, z):
        value = torch.tanh(z)
        ctx.save_for_backward(value)
        return value

    @classmethod
    def backward(cls, ctx, g):
        (value,) = ctx.saved_tensors
        return cls.factor * g * (1 - value.square())


class Doubled(Tanh):
    """The same with a gradient twice as large as the truth."""

    factor = 2.0


def right(W, x):
    return torch.tanh(x @ W["u"]) @ W["v"].mT


def leaving(status):
    def forward(W, x):
        os._exit(status)

    return forward


def raising(error):
    def forward(W, x):
        raise error

    return forward


def hidden_by(offset):
    return lambda W, x: right(W, x) + offset


def attending(W, x):
    q, k = (x[:, None, :, None] * W[name][None, :, None, :].movedim(-1, 1) for name in ("u", "u"))
    return torch.nn.functional.scaled_dot_product_attention(q, k, q).square().sum((1, 2, 3))[:, None]


@pytest.mark.parametrize(
    ("forward", "said"),
    [
        (lambda W, x: right(W, x).long(), "got int64"),
        (lambda W, x: right(W, x) > 0, "got bool"),
        (lambda W, x: right(W, x) + 0j, "got complex128"),
        (lambda W, x: right(W, x).to_sparse(), "to_dense() makes one"),
        (lambda W, x: right(W, x)[:, :0], "got the shape (8, 0)"),
        (leaving(0), "os._exit(0)"),
        (raising(GeneratorExit("no")), "GeneratorExit"),
        (raising(SystemExit(0)), "SystemExit"),
        (raising(Unspeakable()), "Unspeakable"),
        (hidden_by(1e12), "no power of ε that rounding leaves visible"),
        (lambda W, x: right(W, x).half(), "float16"),
    ],
    ids=[
        "int64",
        "bool",
        "complex",
        "sparse",
        "no-outputs",
        "os-exit",
        "generator-exit",
        "system-exit",
        "unspeakable",
        "hidden-by-rounding",
        "half",
    ],
)
def test_what_has_no_verdict_says_why(layer, forward, said):
    report = nqf.verify(layer("hostile", forward=forward))
    assert not report.passed and report.classification == "undecided"
    assert said in report.render(verbose=True)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda: os.chdir("/"), "the working directory"),
        (lambda: os.environ.update(NQF_HOSTILE="1"), "the environment variables"),
        (lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1), "Python's recursion limit"),
    ],
    ids=["directory", "environment", "recursion"],
)
def test_a_change_of_the_process_is_a_failure_and_is_undone(layer, change, named):
    before = os.getcwd(), dict(os.environ), sys.getrecursionlimit()
    report = nqf.verify(layer("meddling", forward=lambda W, x: (change(), right(W, x))[1]))
    assert (os.getcwd(), dict(os.environ), sys.getrecursionlimit()) == before
    assert report["determinism"].status == "fail" and f"a call changes {named}" in report["determinism"].measured


def test_what_forward_does_to_its_own_dicts_reaches_nobody(layer):
    def forward(W, x):
        W["more"] = W.pop("u")
        return torch.tanh(x @ W["more"]) @ W["v"].mT

    busy = layer("busy", forward=forward)
    W = busy.random(torch.Generator().manual_seed(0))
    busy(W, busy.sample(2, torch.Generator().manual_seed(0)))
    assert list(W) == ["u", "v"] and nqf.verify(busy).passed


@pytest.mark.parametrize(
    ("forward", "kind"),
    [
        (lambda W, x: Tanh.apply(x @ W["u"]) @ W["v"].mT, "nqf"),
        (torch.compile(right, backend="eager"), "nqf"),
        (attending, "nqf"),
    ],
    ids=["legacy", "compiled", "attention"],
)
def test_a_right_layer_passes_however_it_is_written(layer, forward, kind):
    report = nqf.verify(layer("odd", forward=forward))
    assert report.passed and report.classification == kind, str(report)


def test_a_wrong_gradient_is_seen_by_differences(layer):
    report = nqf.verify(layer("doubled", forward=lambda W, x: Doubled.apply(x @ W["u"]) @ W["v"].mT))
    assert report.classification == "nqf" and any("disagree" in note for note in report.notes)
