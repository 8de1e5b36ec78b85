"""Every entry and every model on the GPU against the CPU, in float32 and float64, and how much quicker it is there.

    benchmarks/training/gpu_check.sh

Leaves with 0 where all agree or there is no GPU, and 1 otherwise. Float64 is held to 1e-9 of the largest number, float32 to
1e-4; in float32 TensorFloat-32 has to be off, which would show as an error of 1e-3.
"""

import statistics
import sys
import time

import torch

import nqf_registry as nqf
from nqf_registry.errors import NQFError

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
MODELS = (nqf.Original, nqf.NQF, nqf.OrderParameters, nqf.Compressed)
BUDGET = 200.0  # seconds; what is left by then is told as not looked at


def gap(a, b):
    """The largest difference of two runs' losses and weights, relative to the largest number in each."""
    pairs = [(a.data["train_loss"].values, b.data["train_loss"].values)]
    pairs += [(t.cpu().numpy(), b.weights[m][name].cpu().numpy()) for m, W in a.weights.items() for name, t in W.items()]
    return max(float(abs(x - y).max()) / max(float(abs(y).max()), 1e-300) for x, y in pairs)


def agreement(layer, data, kind, dtype):
    """The gap between both devices over thirty steps of two replicas."""
    settings = {"steps": 30, "replicas": 2, "dtype": dtype, "verify": False, "records": 5, "scale": 0.1}
    lr = nqf.train(nqf.NQF(layer), data, steps=1, verify=False, dtype="float64", device="cpu").manifest["rate"]["value"]
    runs = [nqf.train(kind.of(layer, data), data, lr=lr, device=device, **settings) for device in ("cuda", "cpu")]
    return gap(*runs)


def seconds(layer, data, device, steps, **settings):
    """Median of nine runs after a warm-up, seconds a step."""
    figures = []
    for _ in range(10):
        started = time.perf_counter()
        nqf.train(nqf.Original(layer), data, steps=steps, lr=1e-3, device=device, verify=False, records=2, **settings)
        torch.cuda.synchronize()
        figures.append((time.perf_counter() - started) / steps)
    return statistics.median(figures[1:])


def main():
    """Runs all of it."""
    if not torch.cuda.is_available():
        print("skipped: torch sees no CUDA device on this machine")
        return 0
    started, bad = time.perf_counter(), 0
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, nqf_registry {nqf.__version__}")
    if torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32:
        print("note: TF32 was on by default for matmul or cudnn; a run has to turn it off itself")
    for layer in nqf.default_registry().layers():
        data = nqf.teacher(layer, n=200)
        for kind in MODELS:
            for dtype, tolerance in TOLERANCE.items():
                if time.perf_counter() - started > BUDGET:
                    print(f"not looked at for want of time: {layer.key} {kind.name} {dtype}")
                    continue
                try:
                    found = agreement(layer, data, kind, dtype)
                except NQFError as reason:
                    print(f"refused {layer.key} {kind.name}: {reason}")
                    bad += 1
                    continue
                if not found <= tolerance:
                    bad += 1
                    print(f"APART   {layer.key} {kind.name} {dtype}: {found:.1e}, at most {tolerance:.0e}")
    print(f"{bad} out of line after {time.perf_counter() - started:.0f} s")
    for width in (1000, 10_000):
        if time.perf_counter() - started > BUDGET:
            break
        layer = nqf.default_registry().get("two-layer-mlp", n_in=100, n_out=8, width=width)
        data = nqf.teacher(layer, n=2000)
        on = {device: seconds(layer, data, device, 5 if device == "cpu" else 50) for device in ("cpu", "cuda")}
        print(f"original two-layer-mlp width {width}: {on['cpu'] / on['cuda']:.1f} times as quick as the CPU")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
