"""Matrix completion at size, as the benchmark runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "matrix_completion.py"


def test_a_full_pass_stays_below_one_gibibyte():
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    result = json.loads(done.stdout)
    assert result["peak_mebibytes"] < 1024
    assert result["steps"] == 200
    for model in ("original", "nqf"):
        assert result["loss_after"][model] < 0.8 * result["loss_before"][model]
