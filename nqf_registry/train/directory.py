"""The folder of a run: a manifest, records that are only appended, and arrays in safetensors. Nothing is unpickled."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from nqf_registry.errors import InvalidInput, StorageError
from nqf_registry.train import manifest as manifests

RECORDS = "records.jsonl"
WEIGHTS = "weights.safetensors"


class RunDirectory:
    """A run's folder, opened for writing by the run itself.

    Args:
        path: a folder that does not exist, or is empty.

    Raises:
        InvalidInput: the folder holds something, or the path leads through a file.
        StorageError: it cannot be made or written to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with _explained(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()):
                what = "a run" if (self.path / manifests.FILE).exists() else "files"
                raise InvalidInput(f"{self.path} already holds {what}, and a run is never overwritten; give a new folder.")

    def write_manifest(self, manifest: Mapping[str, Any]) -> None:
        """Writes the manifest, whole or not at all."""
        self._write(manifests.FILE, (json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Appends records, one JSON object a line."""
        text = "".join(json.dumps({k: _plain(v) for k, v in record.items()}, allow_nan=False) + "\n" for record in records)
        if text:
            with _explained(self.path), open(self.path / RECORDS, "ab") as file:
                file.write(text.encode())

    def write_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Writes the weights of every model as "model/block", whole or not at all."""
        from safetensors.torch import save

        flat = {f"{model}/{name}": t.detach().cpu().contiguous() for model, W in weights.items() for name, t in W.items()}
        self._write(WEIGHTS, save(flat))

    def _write(self, name: str, content: bytes) -> None:
        with _explained(self.path):
            handle, temporary = tempfile.mkstemp(dir=self.path, prefix=".", suffix=".tmp")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(content)
                os.chmod(temporary, 0o666 & ~_umask())
                os.replace(temporary, self.path / name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
                raise


def free_name(parent: str | os.PathLike[str], stem: str) -> Path:
    """The first of ``parent/stem-1``, ``stem-2``, … that does not exist; nothing is made."""
    return next(path for number in itertools.count(1) if not (path := Path(parent) / f"{stem}-{number}").exists())


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a run's folder.

    Raises:
        InvalidInput: there is none, or it is of another format.
        StorageError: it cannot be read.
    """
    file = path / manifests.FILE
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidInput(f"{path} holds no run: there is no {manifests.FILE} in it. `nqf runs` lists runs.") from None
    except (OSError, ValueError) as error:
        raise StorageError(f"{file} cannot be read: {error}.") from None
    if not isinstance(found, dict) or found.get("format") != manifests.FORMAT:
        raise InvalidInput(f"{file} is no manifest that this version reads (format {manifests.FORMAT}).")
    return found


def read_records(path: Path) -> list[dict[str, Any]]:
    """The records of a run's folder; a last line that was cut off in writing is left out.

    Raises:
        StorageError: they cannot be read, or a line before the last is damaged.
    """
    try:
        lines = (path / RECORDS).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path / RECORDS} cannot be read: {error.strerror}.") from None
    records = []
    for number, line in enumerate(lines[:-1], 1):  # what follows the last line break is nothing, or was cut off
        try:
            record = json.loads(line)
            records.append({k: v if k == "step" else np.array(v, dtype=np.float64) for k, v in record.items()})
        except (ValueError, TypeError, AttributeError):
            if number < len(lines) - 1:
                raise StorageError(f"{path / RECORDS}, line {number}, is damaged; the other lines are whole.") from None
    return records


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


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Tells wrong use (the path leads through a file) from a disk that does not do what it should."""
    try:
        yield
    except (FileExistsError, NotADirectoryError):
        raise InvalidInput(f"{path} cannot be a run's folder: it is a file, or lies below one. Give another path.") from None
    except OSError as error:
        raise StorageError(
            f"{path} cannot be written: {error.strerror or error}. Free some space, or give another path."
        ) from error
