"""Checkpoints: everything that changes during a run, in one safetensors file that is written whole or not at all.

A checkpoint also says how many bytes of the records belong to it, so that a run taken up there cuts off what came later and
computes it again: no record is lost, none is doubled. The one before is kept until the run is finished. A checksum over names,
shapes and numbers tells a damaged file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.errors import StorageError
from nqf_registry.train.directory import RECORDS, RunDirectory, read_records
from nqf_registry.train.events import Levels
from nqf_registry.train.lockstep import Progress

FILE = "checkpoint.safetensors"
PREVIOUS = "checkpoint-previous.safetensors"
FORMAT = 1
TAIL = 4096  # so many of the last bytes of the records are compared too


@dataclass(frozen=True)
class Place:
    """Where in the records a checkpoint stands.

    Attributes:
        size: so many bytes of the file belong to it.
        tail: hash of the last of them.
    """

    size: int
    tail: str


@dataclass(frozen=True)
class Checkpoint:
    """What was read: the run at one step.

    Attributes:
        step: how many steps are done.
        place: which records belong to it.
        tensors: by model, ``state`` or slot, and block.
        levels: the losses from which events are counted, None where none are.
    """

    step: int
    place: Place
    tensors: Mapping[tuple[str, str, str], Tensor]
    levels: Levels | None = None

    def restore(self, models: list[str], fresh: Progress) -> Progress:
        """The run at this checkpoint, on the device of a run before its first step.

        Raises:
            StorageError: it is none of these models at these sizes.
        """
        device = next(iter(fresh.states[0].values())).device
        states, slots = [], []
        for model, state in zip(models, fresh.states, strict=True):
            own = {(part, block): t for (m, part, block), t in self.tensors.items() if m == model}
            found = {block: t for (part, block), t in own.items() if part == "state"}
            if {name: (t.shape, t.dtype) for name, t in found.items()} != {n: (t.shape, t.dtype) for n, t in state.items()}:
                raise StorageError(f"the checkpoint holds something else than the trained tensors of {model}.")
            states.append({name: found[name].to(device, copy=True) for name in state})
            kept: dict[str, dict[str, Tensor]] = {}
            for (part, block), t in own.items():
                if part != "state":
                    kept.setdefault(part.removeprefix("slot:"), {})[block] = t.to(device, copy=True)
            slots.append(kept)
        for kept, first in zip(slots, fresh.slots, strict=True):
            for slot in first:
                kept.setdefault(slot, {})
        return Progress(self.step, states, slots)


def place_of(folder: Path, size: int | None = None) -> Place | None:
    """Where the records of a folder stand, or stood at some size; None where they are shorter."""
    file = folder / RECORDS
    try:
        with open(file, "rb") as records:
            there = records.seek(0, os.SEEK_END)
            size = there if size is None else size
            if there < size:
                return None
            records.seek(max(size - TAIL, 0))
            tail = records.read(min(size, TAIL))
    except FileNotFoundError:
        if size:
            return None
        size, tail = 0, b""
    return Place(size, hashlib.sha256(tail).hexdigest())


def write_checkpoint(
    folder: RunDirectory, models: list[str], progress: Progress, place: Place, levels: Levels | None = None
) -> None:
    """Writes a checkpoint; the one before stays beside it.

    Raises:
        StorageError: the disk refuses; what was there is as it was.
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    index: dict[str, tuple[str, str, str]] = {}
    for model, state, slots in zip(models, progress.states, progress.slots, strict=True):
        parts = {"state": state, **{f"slot:{slot}": held for slot, held in slots.items()}}
        for part, blocks in parts.items():
            for block, tensor in blocks.items():
                name = str(len(tensors))
                tensors[name] = tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
                index[name] = (model, part, block)
    said = {"format": FORMAT, "step": progress.step, "records": place.size, "tail": place.tail, "tensors": index}
    if levels is not None:
        said["levels"] = [level.tolist() for level in levels]
    text = json.dumps(said)
    folder.sync_records()
    # one entry: the order of several is chance, and the same run gives the same bytes
    metadata = {"run": json.dumps({"said": text, "sha256": _digest(text, tensors)})}
    folder.write(FILE, save(tensors, metadata=metadata), keep=PREVIOUS)


def drop_previous(folder: RunDirectory) -> None:
    """Takes the checkpoint before the last away, where a finished run needs it no more."""
    with contextlib.suppress(OSError):
        os.unlink(folder.path / PREVIOUS)


def find_checkpoint(folder: Path, manifest: Mapping[str, Any]) -> tuple[Checkpoint | None, list[dict[str, Any]], list[str]]:
    """The newest checkpoint of a folder that is whole and whose records are there, those records, and what else is wrong."""
    problems = []
    for name in (FILE, PREVIOUS):
        try:
            found = _read(folder / name)
        except FileNotFoundError:
            continue
        except StorageError as error:
            problems.append(str(error))
            continue
        if place_of(folder, found.place.size) != found.place:
            problems.append(f"{folder / RECORDS} does not hold the records that {name} (step {found.step}) counts on.")
            continue
        try:
            return found, read_records(folder, manifest, found.place.size), problems
        except StorageError as error:
            problems.append(str(error))
    return None, [], problems


def _read(file: Path) -> Checkpoint:
    """A checkpoint from its file.

    Raises:
        FileNotFoundError: there is none.
        StorageError: it cannot be read, or is damaged.
    """
    from safetensors import SafetensorError, safe_open

    if not file.exists():
        raise FileNotFoundError(file)
    try:
        with safe_open(file, "pt") as opened:
            metadata = json.loads((opened.metadata() or {})["run"])
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}
        if metadata["sha256"] != _digest(metadata["said"], tensors):
            raise StorageError(f"{file} is damaged: its checksum does not fit.")
        said = json.loads(metadata["said"])
        if said["format"] != FORMAT:
            raise StorageError(f"{file} is no checkpoint that this version reads (format {FORMAT}).")
        index = {name: tuple(parts) for name, parts in said["tensors"].items()}
        place, parted = Place(said["records"], said["tail"]), {parts: tensors[name] for name, parts in index.items()}
        first, kept = (np.array(level) for level in said["levels"]) if "levels" in said else (None, None)
        return Checkpoint(said["step"], place, parted, None if first is None or kept is None else (first, kept))
    except (OSError, SafetensorError, ValueError, LookupError, TypeError) as error:
        raise StorageError(f"{file} is damaged or cut off: {error}.") from None


def _digest(said: str, tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(said.encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
