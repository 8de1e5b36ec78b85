"""Who writes to a run's folder: one process at a time, told by the system, which lets go of a lock when its holder dies."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from nqf_registry.errors import InvalidInput
from nqf_registry.train import manifest as manifests
from nqf_registry.train.process import is_gone, same_process

try:
    import fcntl
except ImportError:  # a system without it: the process that the manifest names has to do
    fcntl = None


class Lock:
    """The right to write to a run's folder, held until it is released or the process ends.

    The folder itself is locked, so that no file of the lock is left in it. Where the file system knows no locks, the process
    that the manifest of a running run names counts as the holder.

    Args:
        path: the folder, which exists.

    Raises:
        InvalidInput: another run writes there; with who holds it.
        OSError: the folder cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self._handle: int | None = None
        process = _process(path)
        if fcntl is not None:
            handle = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(handle)
                raise _held(path, process) from None
            except OSError:  # a file system without locks
                os.close(handle)
            else:
                self._handle = handle
                if process is not None and not same_host(process):  # a lock of the system may not reach other hosts
                    self.release()
                    raise _held(path, process)
                return
        if process is not None and not is_gone(process) and not same_process(process):
            raise _held(path, process)

    def release(self) -> None:
        """Lets others write; a second call does nothing."""
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.close(self._handle)
            self._handle = None


def same_host(process: dict[str, Any]) -> bool:
    """Whether a process is, or was, one of this host."""
    import socket

    return process.get("host") == socket.gethostname()


def _process(path: Path) -> dict[str, Any] | None:
    """The process that a manifest names while its run is running."""
    try:
        found = json.loads((path / manifests.FILE).read_text(encoding="utf-8"))
        process = found["process"] if found["status"] == "running" else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return process if isinstance(process, dict) else None


def _held(path: Path, process: dict[str, Any] | None) -> InvalidInput:
    if process is None:
        return InvalidInput(f"another process has {path} open for writing; wait until it is done.")
    where = f"process {process.get('pid')} on {process.get('host')}"
    if same_host(process):
        return InvalidInput(f"{where} has the run in {path} open for writing. Wait until it ends, or end it.")
    return InvalidInput(
        f"{where} had the run in {path} open when it last wrote, and from here nobody can see whether it still has. Resume "
        "there; or, if it has surely ended, take the entry 'process' out of manifest.json."
    )
