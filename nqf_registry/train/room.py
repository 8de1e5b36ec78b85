"""Whether what a run is going to write fits on the disk, told when it begins."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

from nqf_registry.train.directory import RECORDS
from nqf_registry.train.lockstep import Progress

OTHERS = 2**16  # of the manifest, pictures and the file system's own needs


class LowDisk(UserWarning):
    """The disk has less room than a run is expected to need."""


def needed(record: int, records: int, trained: int, checkpoints: bool) -> int:
    """Bytes that a run writes: records as long as its first, its last weights, two checkpoints and a third while it is written.

    >>> needed(record=100, records=10, trained=1000, checkpoints=True) - OTHERS
    5000
    """
    return OTHERS + record * records + trained * (1 + 3 * checkpoints)


def tell_low_disk(folder: Path, progress: Progress, records: int, checkpoints: bool) -> None:
    """Warns where the disk has less room than is needed; called when the first record is written."""
    try:
        record = (folder / RECORDS).stat().st_size
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    parts = [*progress.states, *(held for slots in progress.slots for held in slots.values())]
    trained = sum(tensor.numel() * tensor.element_size() for part in parts for tensor in part.values())
    want = needed(record, records - 1, trained, checkpoints)
    if want > free:
        warnings.warn(
            f"{folder} has {free / 2**20:,.1f} MiB free, and this run will write about {want / 2**20:,.1f} MiB. Free some "
            "space, record less, or give another folder; a run that the disk stops can be resumed.",
            LowDisk,
            stacklevel=2,
        )
