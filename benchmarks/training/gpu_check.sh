#!/bin/sh
# Correctness of every model on the GPU against the CPU, and ratios; under four minutes. Skips with a reason without a GPU.
exec "${PYTHON:-python3}" "$(dirname "$0")/gpu_check.py" "$@"
