"""A full pass of matrix completion at size: 10,000 × 5,000 from 1,000,000 entries at rank 16, in minibatches, and its memory.

    python benchmarks/matrix_completion.py [--passes 1] [--batch 5000] [--lr 0.03] [--json]

Prints the loss before and after, seconds and the peak of the resident memory. No one-hot vector and no p × p is ever formed: a
one-hot of one minibatch alone would take 300 MB, of all entries 60 GB.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from pathlib import Path

import torch

import nqf_registry as nqf

ROWS, COLUMNS, ENTRIES, RANK = 10_000, 5_000, 1_000_000, 16


def entries(seed: int = 0) -> nqf.Data:
    """Uniformly drawn entries of a random matrix of rank 16 whose entries have variance one."""
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(ROWS, RANK, generator=generator)
    v = torch.randn(COLUMNS, RANK, generator=generator)
    i = torch.randint(ROWS, (ENTRIES,), generator=generator)
    j = torch.randint(COLUMNS, (ENTRIES,), generator=generator)
    y = torch.cat([(u[a] * v[b]).sum(1) for a, b in zip(i.split(100_000), j.split(100_000), strict=True)]) / RANK**0.5
    return nqf.Data({"i": i, "j": j}, y, name="rank-16-matrix")


def peak_mebibytes() -> float:
    """The largest resident memory of this process so far; Linux counts in KiB, macOS in bytes.

    Where /proc tells it, it is read there: what ``getrusage`` says counts the process that started this one.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 2**10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    """Trains the original and its quadratic form in lockstep and prints what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passes", type=int, default=1)
    parser.add_argument("--batch", type=int, default=5000)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    started = peak_mebibytes()
    layer = nqf.default_registry().get("matrix-completion", rows=ROWS, columns=COLUMNS, width=RANK)
    run = nqf.compare(
        layer,
        entries(),
        optimizer="adam",
        lr=arguments.lr,
        steps=arguments.passes * ENTRIES // arguments.batch,
        batch=arguments.batch,
        scale=0.1,
        records=10,
        verify=False,
        device="cpu",
    )
    loss = run.data["train_loss"].values[:, 0]
    result = {
        "loss_before": {model: float(loss[m, 0]) for m, model in enumerate(run.models)},
        "loss_after": {model: float(loss[m, -1]) for m, model in enumerate(run.models)},
        "seconds": run.seconds,
        "peak_mebibytes": peak_mebibytes(),
        "peak_before_training_mebibytes": started,
        "steps": run.manifest["settings"]["steps"],
    }
    if arguments.json:
        print(json.dumps(result))
        return
    print(f"{ROWS:,} × {COLUMNS:,} from {ENTRIES:,} entries at rank {RANK}, {result['steps']} steps of {arguments.batch:,}")
    for model in run.models:
        print(f"{model}: loss {result['loss_before'][model]:.4f} → {result['loss_after'][model]:.4f}")
    print(
        f"{run.seconds:.1f} s for both models, peak memory {result['peak_mebibytes']:.0f} MiB ({started:.0f} MiB after imports)"
    )


if __name__ == "__main__":
    main()
