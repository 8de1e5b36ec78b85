"""What verifying all entries takes at each profile: time, estimated and measured, and the memory of all its processes together.

    python benchmarks/verifier_cost.py [--profile dev --profile ci --profile deep] [--jobs 2]

Runs ``nqf verify all`` as a user would, and adds up the resident memory of its processes every twentieth of a second. On Linux
only, where memory can be read under /proc. Exit code 1 where a layer did not pass.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

import nqf_registry as nqf
from nqf_registry.verify.budget import estimate


def memory(pid: int) -> int:
    """Resident bytes of a process and of all below it."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        tasks = Path(f"/proc/{pid}/task").iterdir()
        children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # it has ended meanwhile
        return 0
    return 4096 * pages + sum(map(memory, children))


def main() -> int:
    """Prints one row for each profile."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", action="append", choices=["dev", "ci", "deep"])
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    layers = nqf.default_registry().layers()
    print(f"{len(layers)} entries, {arguments.jobs} processes, torch {torch.__version__}")
    print(f"{'profile':8} {'estimated':>10} {'took':>8} {'memory':>10}")
    failed = False
    for profile in arguments.profile or ["dev", "ci"]:
        expected = sum(found.seconds for layer in layers if (found := estimate(layer, profile))) / arguments.jobs
        begin, peak = time.perf_counter(), 0
        command = [sys.executable, "-m", "nqf_registry", "verify", "all", "--profile", profile, "--jobs", str(arguments.jobs)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None:
                peak = max(peak, memory(process.pid))
                time.sleep(0.05)
        failed = failed or process.returncode != 0
        seconds = time.perf_counter() - begin
        print(f"{profile:8} {expected:8.1f} s {seconds:6.1f} s {peak / 2**20:6.0f} MiB", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
