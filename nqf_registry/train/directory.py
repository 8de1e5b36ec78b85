"""The folder of a run: a manifest, records that are only appended, and arrays in safetensors. Nothing is unpickled."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nqf_registry.errors import InvalidInput, StorageError
from nqf_registry.train import manifest as manifests
from nqf_registry.train.lock import Lock
from nqf_registry.train.process import is_gone

RECORDS = "records.jsonl"
WEIGHTS = "weights.safetensors"
LEFT = ".nqf-"  # how the name of a file begins that is yet to be whole; one that was killed in writing may leave it
ROOM = 2048  # spaces after the first manifest, so that the last one fits into its place on a full disk


class RunDirectory:
    """A run's folder, opened for writing by the run itself, which has it alone: of two that come at once one is refused.

    Args:
        path: a folder that does not exist, or is empty.
        manifest: what the run is, written at once.

    Raises:
        InvalidInput: no new run can have the path: it is empty, the folder holds something, or it leads through a file.
        StorageError: the system does not let it be made or written to.
    """

    def __init__(self, path: str | os.PathLike[str], manifest: Mapping[str, Any]) -> None:
        self.path = _path(path)
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            _refuse_full(self.path)
            self._lock = Lock(self.path)
            try:
                self._create(_manifest(manifest) + b" " * ROOM)
            except BaseException:
                self._lock.release()
                raise

    @classmethod
    def reopen(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """The folder of a run that is taken up again.

        Raises:
            InvalidInput: it holds no run, or another process writes to it.
            StorageError: it cannot be written to.
        """
        folder = object.__new__(cls)
        folder.path = _path(path)
        if not (folder.path / manifests.FILE).exists():
            raise InvalidInput(f"{path} holds no run: there is no {manifests.FILE} in it. `nqf runs` lists runs.")
        with _explained(folder.path):
            folder._lock = Lock(folder.path)
            try:
                for left in folder.path.glob(f"{LEFT}*.tmp"):  # what a process that was ended in writing left
                    left.unlink()
                with tempfile.TemporaryFile(dir=folder.path):
                    pass
                with contextlib.suppress(FileNotFoundError), open(folder.path / RECORDS, "r+b"):
                    pass
            except BaseException:
                folder._lock.release()
                raise
        return folder

    def close(self) -> None:
        """Lets other processes write."""
        self._lock.release()

    def _create(self, content: bytes) -> None:
        """Writes the first manifest whole, unless there is one: a second run that came between."""
        file = self.path / manifests.FILE
        temporary = self._temporary(content)
        try:
            os.link(temporary, file)
        except FileExistsError:
            raise _taken(self.path, "a run") from None
        except OSError:  # a file system without links
            if file.exists():
                raise _taken(self.path, "a run") from None
            os.replace(temporary, file)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(temporary)

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest, whole or not at all; where there is no space for a second one, over the first one."""
        content = _manifest(manifest)
        try:
            self._write(manifests.FILE, content)
        except StorageError:
            with _explained(self.path), open(self.path / manifests.FILE, "r+b") as file:
                if len(content) > (size := file.seek(0, os.SEEK_END)):
                    raise
                file.seek(0)
                file.write(content.ljust(size))

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Appends records, one JSON object a line; all of them or, where the disk refuses, none."""
        text = "".join(json.dumps({k: _plain(v) for k, v in record.items()}, allow_nan=False) + "\n" for record in records)
        if not text:
            return
        with _explained(self.path), open(self.path / RECORDS, "ab", buffering=0) as file:
            size, content = file.tell(), memoryview(text.encode())
            try:
                while content:
                    content = content[file.write(content) :]
            except BaseException:
                with contextlib.suppress(OSError):
                    file.truncate(size)
                raise

    def write_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Writes the weights of every model as "model/block", whole or not at all."""
        from safetensors.torch import save

        flat = {f"{model}/{name}": t.detach().cpu().contiguous() for model, W in weights.items() for name, t in W.items()}
        self._write(WEIGHTS, save(flat))

    def cut_records(self, size: int, keep: bool = False) -> None:
        """Cuts off the records after so many bytes, which a run that is taken up computes again.

        Args:
            size: how many bytes stay.
            keep: whether what was there is kept beside it, as ``records-before-1.jsonl``, ``-2``, …
        """
        file = self.path / RECORDS
        with _explained(self.path), contextlib.suppress(FileNotFoundError):
            if file.stat().st_size > size:
                if keep:
                    names = (self.path / f"records-before-{number}.jsonl" for number in itertools.count(1))
                    shutil.copyfile(file, next(name for name in names if not name.exists()))
                os.truncate(file, size)

    def sync_records(self) -> None:
        """Waits until the records are on the disk."""
        with _explained(self.path), contextlib.suppress(FileNotFoundError), open(self.path / RECORDS, "rb") as file:
            os.fsync(file.fileno())

    def write(self, name: str, content: bytes, keep: str | None = None) -> None:
        """Writes a file whole or not at all; what was there gets the name ``keep``, if there is one."""
        self._write(name, content, keep)

    def _write(self, name: str, content: bytes, keep: str | None = None) -> None:
        with _explained(self.path):
            temporary = self._temporary(content)
            try:
                if keep is not None:
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(self.path / name, self.path / keep)
                os.replace(temporary, self.path / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise
            _sync_folder(self.path)

    def _temporary(self, content: bytes) -> str:
        """A file beside the others that holds the content, on the disk before its name counts."""
        handle, temporary = tempfile.mkstemp(dir=self.path, prefix=LEFT, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o666 & ~_umask())
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        return temporary


def _sync_folder(path: Path) -> None:
    """Puts the names of a folder on the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def free_name(parent: str | os.PathLike[str], stem: str) -> Path:
    """The first of ``parent/stem-1``, ``stem-2``, … that does not exist, made as an empty folder: of two runs each has its own.

    What a folder's name cannot hold is "_" in it, so that it always lies in ``parent``.

    Raises:
        InvalidInput: as :class:`RunDirectory`.
        StorageError: as :class:`RunDirectory`.
    """
    stem = re.sub(r"[^\w.-]", "_", stem).lstrip(".-").encode(errors="replace")[:100].decode(errors="ignore") or "run"
    with _explained(Path(parent)):
        Path(parent).mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        path = Path(parent) / f"{stem}-{number}"
        with _explained(path):
            try:
                path.mkdir()
            except FileExistsError:
                continue
        return path
    raise AssertionError("there is always a further number")


@contextlib.contextmanager
def left_empty(path: Path) -> Iterator[None]:
    """Takes a folder that :func:`free_name` made away again where the run fails before it holds anything."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            path.rmdir()
        raise


def check_path(path: str | os.PathLike[str]) -> None:
    """Tells, as far as can be known before, whether a folder can be a new run's; nothing of it is made.

    Raises:
        InvalidInput: as :class:`RunDirectory`.
        StorageError: as :class:`RunDirectory`.
    """
    path = _path(path)
    with _explained(path):
        if path.is_dir():
            _refuse_full(path)
        nearest = next(p for p in (path, *path.absolute().parents) if p.exists())
        with tempfile.TemporaryDirectory(dir=nearest, prefix=".nqf-"):
            pass


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run's folder; a run that says it is running and whose process has ended is ``killed``.

    Raises:
        InvalidInput: there is none, or it is of another format.
        StorageError: it cannot be read, or is damaged.
    """
    file = path / manifests.FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"{path} holds no run: there is no {manifests.FILE} in it. `nqf runs` lists runs.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise StorageError(f"{file} cannot be read: {error}.") from None
    if not isinstance(found, dict) or found.get("format") != manifests.FORMAT:
        raise InvalidInput(f"{file} is no manifest that this version reads (format {manifests.FORMAT}).")
    if wrong := manifests.damage(found):
        raise StorageError(f"{file} is damaged: {wrong}.")
    if found["status"] == "running" and is_gone(found.get("process")):
        found["status"] = "killed"
    return found


def read_records(path: Path, manifest: Mapping[str, Any], size: int | None = None) -> list[dict[str, Any]]:
    """The records of a run's folder, or those in its first bytes; a last line that was cut off in writing is left out.

    Raises:
        StorageError: they cannot be read, or a line is damaged: it is no JSON, or no record of this run.
    """
    try:
        lines = (path / RECORDS).read_bytes()[:size].split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path / RECORDS} cannot be read: {error.strerror}.") from None
    sizes = (len(manifest["models"]), len(manifest["settings"]["seeds"]))
    records: list[dict[str, Any]] = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line break is nothing, or was cut off
        try:
            records.append(_record(json.loads(line), sizes, records))
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise StorageError(f"{path / RECORDS}, line {number}, is damaged ({error}).") from None
    return records


def _record(found: Any, sizes: tuple[int, int], before: list[dict[str, Any]]) -> dict[str, Any]:
    """A record as it was written; ValueError where it can be none that follows those before."""
    if not isinstance(found, dict):
        raise ValueError(f"a record is an object, not {type(found).__name__}")
    step = found.get("step")
    if isinstance(step, bool) or not isinstance(step, int) or not (before[-1]["step"] if before else -1) < step < 2**63:
        raise ValueError(f"{step!r} is no step, or not above the one before")
    if "train_loss" not in found or (before and set(found) != set(before[0])):
        raise ValueError("something is missing, or was not recorded before")
    record: dict[str, Any] = {"step": step}
    for name, value in found.items():
        if name != "step":
            array = np.array(value, dtype=object)
            if any(isinstance(one, bool) or not isinstance(one, int | float | None) for one in array.reshape(-1)):
                raise ValueError(f"{name} holds something else than numbers")
            if array.shape[:2] != sizes or (before and array.shape != before[0][name].shape):
                raise ValueError(f"{name} has the shape {array.shape}")
            record[name] = array.astype(np.float64)
    return record


def read_weights(path: Path) -> dict[str, dict[str, Tensor]]:
    """The weights of every model by block, empty where the run kept none.

    Raises:
        StorageError: they cannot be read.
    """
    file = path / WEIGHTS
    if not file.exists():
        return {}
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        flat = load_file(file)
    except (OSError, SafetensorError) as error:
        raise StorageError(f"{file} cannot be read: {error}.") from None
    weights: dict[str, dict[str, Tensor]] = {}
    for name, tensor in flat.items():
        model, _, block = name.partition("/")
        weights.setdefault(model, {})[block] = tensor
    return weights


def _plain(value: Any) -> Any:
    """A record's value for JSON, null for what JSON does not have."""
    if not isinstance(value, np.ndarray):
        return value
    return np.where(np.isfinite(value), value.astype(object), None).tolist()  # type: ignore[arg-type]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _manifest(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="replace")


def _path(path: Any) -> Path:
    """A path as given, if it is one.

    Raises:
        InvalidInput: it is empty, no path, or holds a zero byte.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidInput(f"directory must be the path of a new folder, got {type(path).__name__}.")
    text = os.fspath(path)
    if not isinstance(text, str) or not text or "\0" in text:
        raise InvalidInput(f"directory must be the path of a new folder, got {text!r}.")
    return Path(text)


def _refuse_full(path: Path) -> None:
    if any(not (one.name.startswith(LEFT) and one.name.endswith(".tmp")) for one in path.iterdir()):
        raise _taken(path, "a run" if (path / manifests.FILE).exists() else "files")


def _taken(path: Path, what: str) -> InvalidInput:
    return InvalidInput(f"{path} already holds {what}, and a run is never overwritten; give a new folder.")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Tells wrong use (the path leads through a file) from a disk that does not do what it should."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput(f"{path} cannot be a run's folder: it is a file, or lies below one. Give another path.") from None
    except FileNotFoundError as error:  # a folder whose system makes none, such as /proc
        raise StorageError(f"{path} cannot be written: the system makes no folder there. Give another path.") from error
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. Free some space, or give another path."
        ) from error
