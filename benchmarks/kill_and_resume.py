"""Runs that are killed at random moments and resumed, against the same runs uninterrupted.

``python benchmarks/kill_and_resume.py [--moments 50] [--seed 0]`` trains six kinds of run, each once without interruption.
Then it starts each again and again and ends the process by SIGKILL at a moment drawn evenly over the time of the whole run;
every third is killed twice more while it is resumed. Records, weights and last checkpoint must have the bytes of the
uninterrupted run. Exit code 1 where one does not.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import nqf_registry as nqf

FILES = ("records.jsonl", "weights.safetensors", "checkpoint.safetensors")
BOTH = ["original", "nqf"]
KINDS: dict[str, dict[str, Any]] = {
    "gd": {"models": BOTH, "lr": 0.02},
    "minibatches, momentum": {"models": ["nqf"], "optimizer": "momentum", "batch": 16, "lr": 0.01, "steps": 3000},
    "Adam, 3 replicas": {"models": ["original"], "optimizer": "adam", "replicas": 3, "lr": 1e-3},
    "four models, Nesterov": {
        "models": [*BOTH, "order-parameters", "compressed"], "optimizer": "nesterov", "lr": 0.01, "weight_decay": 0.001,
    },
    "torch.optim.AdamW": {"models": BOTH, "optimizer": "adamw", "lr": 1e-3, "steps": 3000},
    "events, minibatches": {
        "models": BOTH, "batch": 16, "lr": 0.02, "replicas": 2, "events": 0.02, "records": 20, "steps": 3000,
    },
}  # fmt: skip
COMMON = {"steps": 6000, "scale": 0.1, "records": 200, "probes": "top-mode", "verify": False, "checkpoint": 0}


def train(kind: str, folder: Path) -> None:
    """The run of one kind."""
    layer = nqf.default_registry().get("two-layer-mlp", n_in=8, n_out=2, width=16)
    data = nqf.teacher(layer, n=64, seed=1)
    settings = {**COMMON, **KINDS[kind]}
    nqf.compare(layer, data, settings.pop("models"), directory=folder, **settings)


def go_on(kind: str, folder: Path) -> None:
    """Resumes the run in a folder, or begins it where it was killed before there was one."""
    if (folder / "manifest.json").exists():
        nqf.resume(folder, checkpoint=0, tell=lambda text: None)
    else:
        train(kind, folder)


def killed(work: Callable[[], None], after: float) -> bool:
    """Runs something in a process of its own and kills that after some seconds; whether it was still at work."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    end = time.monotonic() + after
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if os.waitstatus_to_exitcode(status):
                raise RuntimeError("the run ended with an error of its own; see above")
            return False
        time.sleep(0.0005)
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL


def steps_of(folder: Path) -> list[int]:
    """The steps that a folder has records of."""
    return [json.loads(line)["step"] for line in (folder / "records.jsonl").read_text().splitlines()]


def main() -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    draw = random.Random(arguments.seed)
    rows: dict[str, list[tuple[int, list[int], bool, int, int]]] = {kind: [] for kind in KINDS}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        for kind in KINDS:
            for _ in range(2):  # the first pays for imports
                shutil.rmtree(Path(place, kind), ignore_errors=True)
                began = time.monotonic()
                train(kind, Path(place, kind))
                seconds[kind] = time.monotonic() - began
        for moment in range(arguments.moments):
            kind = list(KINDS)[moment % len(KINDS)]
            whole, folder = Path(place, kind), Path(place, f"{moment}")
            kills = sum(
                killed(lambda kind=kind, folder=folder: go_on(kind, folder), draw.uniform(0, seconds[kind] / (1 + turn)))
                for turn in range(3 if moment % 3 == 0 else 1)
            )
            go_on(kind, folder)
            resumed = [entry["step"] for entry in nqf.Run.open(folder).manifest.get("resumed", [])]
            equal = all((folder / name).read_bytes() == (whole / name).read_bytes() for name in FILES)
            steps, wanted = steps_of(folder), steps_of(whole)
            rows[kind].append((kills, resumed, equal, len(set(wanted) - set(steps)), len(steps) - len(set(steps))))
            shutil.rmtree(folder)
    print(
        f"{'run':24} {'seconds':>7} {'moments':>7} {'kills':>5} {'bit-equal':>9} {'lost':>4} {'doubled':>7}  resumed at steps"
    )
    for kind, found in rows.items():
        places = sorted(step for row in found for step in row[1])
        said = f"{places[0]} to {places[-1]}, {len(set(places))} different" if places else "none"
        kills, equal, lost, doubled = (sum(row[column] for row in found) for column in (0, 2, 3, 4))
        equals = f"{equal}/{len(found)}"
        print(f"{kind:22} {seconds[kind]:7.2f} {len(found):7} {kills:5} {equals:>9} {lost:4} {doubled:7}  {said}")
    good = all(row[2] and not row[3] and not row[4] for found in rows.values() for row in found)
    print(
        "every run has the bytes of the uninterrupted one" if good else "NOT every run has the bytes of the uninterrupted one"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
