"""The layers and data that stand opposite the loops of an opponents' file, which is imported unchanged from its folder."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch

import nqf_registry as nqf


def load(folder):
    """The module plain.py of a folder; it offers ``SIZES`` and ``OPPONENTS``, by name functions that make a step."""
    spec = importlib.util.spec_from_file_location("plain", Path(folder) / "plain.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mlp(sizes):
    """A two-layer perceptron on a linear teacher, (n_in, width, n_out, samples)."""
    n_in, width, n_out, n = sizes
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, n_in, generator=generator)
    y = x @ torch.randn(n_in, n_out, generator=generator) / n_in**0.5
    layer = nqf.default_registry().get("two-layer-mlp", n_in=n_in, n_out=n_out, width=width)
    return layer, nqf.Data(x={"x": x}, y=y, name="linear teacher")


def cnn(n=4000, kernels=50):
    """15 × 15 filters on 28 × 28 images."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(n, 1, 28, 28, generator=generator), torch.randn(n, generator=generator).sign()
    layer = nqf.default_registry().get(
        "single-layer-cnn", channels=1, rows=28, columns=28, kernel_rows=15, kernel_columns=15, n_out=1, width=kernels
    )
    return layer, nqf.Data(x={"x": x}, y=y[:, None], name="random images")


def query_key(n=4000, heads=10, d_k=32, tokens=28):
    """The opponents' own function: every token asks, their readout, and their weights to start from."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(n, tokens, 28, generator=generator), torch.randn(n, generator=generator).sign()
    c = torch.randn(28, generator=generator) / 28**0.5
    q, k = (0.01 * torch.randn(heads, d_k, 28, generator=generator) for _ in range(2))
    plain = nqf.default_registry().get(
        "query-key-attention", dim=28, tokens=tokens, d_k=d_k, n_out=1, width=heads, queries="all"
    )

    @dataclass(frozen=True)
    class SameNumbers(type(plain)):
        key = "query-key-of-the-opponent"

        def readout(self, like):
            return c[:, None].to(like)

        def random(self, generator, scale=1.0, dtype=torch.float32, device="cpu"):
            return {"Q": q.movedim(0, -1).to(device, dtype), "K": k.movedim(0, -1).to(device, dtype)}

    layer = SameNumbers(dim=28, tokens=tokens, d_k=d_k, n_out=1, width=heads, queries="all")
    return layer, nqf.Data(x={"X": x}, y=y[:, None], name="random tokens")
