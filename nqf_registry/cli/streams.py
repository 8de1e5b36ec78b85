"""What the process says and where: streams that cannot fail the command, and stdout kept for one JSON document."""

import contextlib
import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

Write = Callable[[bytes], None]


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Streams under which every command ends with its own exit code.

    A closed stdout or stderr is opened on nothing, or the next file that is opened would take its number. What stderr does not
    take (a full disk) is dropped. What an encoding lacks is written as an escape.
    """
    _fill(0, 1, 2)
    stdout, stderr = sys.stdout, sys.stderr
    if stderr is None or stderr is sys.__stderr__:
        raw = _Forgiving(2, "wb", closefd=False)
        encoding = getattr(stderr, "encoding", None) or "utf-8"
        sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True)
    if stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    elif isinstance(stdout, io.TextIOWrapper) and stdout is sys.__stdout__:
        stdout.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr


def drop_stdout() -> None:
    """Sends what stdout still holds, and all that follows, to nothing: Python would complain again while closing it."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


@contextlib.contextmanager
def document_stdout() -> Iterator[Write]:
    """Keeps stdout for one document: yields what writes to it, and sends all else that is written there to stderr.

    That holds for what a layer prints, for what its C code prints, and for the processes that are started meanwhile.
    """
    out = sys.stdout
    try:
        out.flush()
        number = out.fileno()
    except (OSError, ValueError):  # no file behind it, as in a test
        with contextlib.redirect_stdout(sys.stderr):
            yield lambda data: _print(out, data)
        return
    kept = os.dup(number)
    try:
        os.dup2(2, number)
        yield lambda data: _write(kept, data)
    finally:
        with contextlib.suppress(OSError):
            out.flush()
        os.dup2(kept, number)
        os.close(kept)


def document(obj: Any, encoding: str | None) -> str:
    r"""An object as JSON. Letters that the encoding lacks, and halves of surrogate pairs, are escaped as JSON does.

    Raises:
        ValueError: it holds a number that JSON does not have (nan, inf).

    >>> print(document({"rate": "γ"}, "ascii"))
    {
      "rate": "\u03b3"
    }
    """
    text = json.dumps(obj, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(obj, indent=2, allow_nan=False)
    return text


class _Forgiving(io.FileIO):
    """A file that says it has written what its disk refused."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            return len(data)


def _fill(*numbers: int) -> None:
    for number in numbers:
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)


def _print(stream: Any, data: bytes) -> None:
    stream.write(data.decode(getattr(stream, "encoding", None) or "utf-8"))
    stream.flush()


def _write(number: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(number, view) :]
