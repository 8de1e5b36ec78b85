"""The process of a run: how it is told to stop, and whether it is still there."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

TERMINATED = 143  # 128 + SIGTERM, what shells give


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM raises SystemExit(143), so that a run is closed as after Ctrl-C; a second one ends the process at once.

    Only where signals can be handled and nobody else handles this one.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        raise SystemExit(TERMINATED)

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def this_process() -> dict[str, Any]:
    """Where this process is to be looked for: host, process number and, where the system says, when it began."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "started": _started(os.getpid())}


def is_gone(process: Any) -> bool:
    """Whether a process that :func:`this_process` described has ended. On another host nobody can say, so it has not."""
    if not isinstance(process, Mapping) or process.get("host") != socket.gethostname():
        return False
    pid = process.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False  # it is there, and somebody else's
    # a number is given again: the same process also began at the same time
    return process.get("started") != _started(pid)


def same_process(process: Any) -> bool:
    """Whether a process that :func:`this_process` described is this one."""
    return isinstance(process, Mapping) and dict(process) == this_process()


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the system did; None where the system does not say."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return int(text.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
