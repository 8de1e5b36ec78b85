"""How a run is carried out: prepared, stepped in blocks, written down, and closed whatever happens.

The models, the data and the rule are ready when this begins. Records are taken at their steps and fetched once in a block of
steps; checkpoints are written between blocks, so that a run that ends early can be taken up where it was.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from nqf_registry.errors import Diverged, StorageError
from nqf_registry.train import manifest as manifests
from nqf_registry.train.batches import Batches
from nqf_registry.train.checkpoint import Checkpoint, Place, drop_previous, place_of, write_checkpoint
from nqf_registry.train.data import Data
from nqf_registry.train.directory import RunDirectory
from nqf_registry.train.divergence import described, message
from nqf_registry.train.events import SAMPLES, EventRecorder, Levels, candidates
from nqf_registry.train.lockstep import Failure, Lockstep, Progress, finite
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import Model, initial_weights
from nqf_registry.train.observables import Observable
from nqf_registry.train.preparation import check_data, choose_rule, verdicts
from nqf_registry.train.process import terminable
from nqf_registry.train.records import Probe, Record, Recorder, find_probes
from nqf_registry.train.room import tell_low_disk
from nqf_registry.train.runs import Run
from nqf_registry.train.settings import DTYPES, Settings
from nqf_registry.train.stalls import stalled

Report = Callable[[int, int, float], None]


class Resumption(Protocol):
    """A run that is taken up again, as :mod:`nqf_registry.train.resume` finds it in its folder."""

    folder: RunDirectory
    checkpoint: Checkpoint | None
    kept: list[Record]
    problems: list[str]

    @property
    def groups(self) -> dict[str, int]:
        """How many replicas of each model one call takes."""
        ...

    def settle(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The manifest of the run as it goes on, from what it would be if it began now; refused where that is another run."""
        ...


@dataclass(frozen=True)
class Safe:
    """A point of a run that was seen to be finite and is written down.

    Attributes:
        progress: the run there; shared with nobody.
        place: the records that belong to it, None for a run in memory.
        levels: the losses from which events are counted, None where none are.
    """

    progress: Progress
    place: Place | None
    levels: Levels | None


def carry_out(
    models: Sequence[Model],
    data: Data,
    settings: Settings,
    records: Sequence[int],
    probes: Mapping[str, Probe] | Sequence[str] | str,
    directory: str | os.PathLike[str] | None,
    progress: bool | Report,
    verify: bool,
    way: str,
    checkpoint: float | None,
    replica_chunk: int | None = None,
    resumption: Resumption | None = None,
) -> Run:
    """Prepares a run whose settings are checked, carries it out and closes it, whatever happens."""
    started = time.perf_counter()
    subject, loss, dtype = models[0].subject, find_loss(settings.loss), DTYPES[settings.dtype]
    check_data(subject, data, settings)
    said = verdicts(subject, bool(progress)) if verify else {}
    local = data.to(settings.device, dtype)
    optimizer, rate = choose_rule(subject, local, settings)
    lr = optimizer.lr * settings.replicas if len(optimizer.lr) == 1 else optimizer.lr
    settings = dataclasses.replace(settings, lr=lr)
    taken = find_probes(probes, subject, local, loss)
    batches = None
    if settings.batch is not None:
        batches = Batches(data.n, settings.batch, settings.batch_seed, torch.device(settings.device))
    groups = None if replica_chunk is None else dict.fromkeys((model.name for model in models), replica_chunk)
    if resumption is not None:
        groups = resumption.groups
    lockstep = Lockstep(models, local, loss, optimizer, batches, way, groups, replica_chunk)
    manifest = manifests.describe(subject, models, data, settings, rate, records, sorted(taken), said)
    now = lockstep.begin(initial_weights(subject, settings.seeds, settings.scales, dtype, settings.device))
    manifest |= {"way": way, "ways": lockstep.ways(now), "replica_groups": lockstep.groups(now)}
    manifest |= _elapsed(settings, records)
    kept: list[Record] = []
    if resumption is not None:
        manifest = resumption.settle(manifest)
        kept = list(resumption.kept)
        if resumption.checkpoint is not None:
            now = resumption.checkpoint.restore([model.name for model in models], now)

    status, failure, still = "failed", None, None
    safe: Safe | None = None
    with terminable():
        folder = _folder(directory, manifest, resumption)
        try:
            levels = None if resumption is None or resumption.checkpoint is None else resumption.checkpoint.levels
            recorder = _recorder(lockstep, settings, taken, levels)
            safe = Safe(now.copy(), None if folder is None else place_of(folder.path), levels)
            written = time.monotonic()
            with _reporter(progress, settings.steps) as report:
                for block in _blocks(lockstep, recorder, now, records, begun=bool(kept)):
                    failure = _failure(lockstep, safe.progress, now, block)
                    whole = [record for record in block if failure is None or record["step"] < failure.step]
                    if folder is not None:
                        folder.append(whole)
                    kept += whole
                    if failure is not None:
                        break
                    levels = recorder.levels if isinstance(recorder, EventRecorder) else None
                    safe = Safe(now.copy(), None if folder is None else place_of(folder.path), levels)
                    if folder is not None and len(kept) == 1 and whole:
                        tell_low_disk(folder.path, now, len(records), checkpoint is not None)
                    if folder is not None and checkpoint is not None and time.monotonic() - written >= checkpoint:
                        _save(folder, models, safe)
                        written = time.monotonic()
                    if kept:
                        report(now.step, settings.steps, float(np.mean(kept[-1]["train_loss"][0])))
            still = None if failure is not None else stalled(lockstep, local, settings, optimizer, kept, now)
            status = "finished" if failure is None else "diverged"
        except (KeyboardInterrupt, SystemExit):
            status = "interrupted"
            raise
        except StorageError:
            # a run that diverged did so, whatever the disk says
            status = "failed" if failure is None else "diverged"
            if failure is None:
                raise
        finally:
            # the last weights that were seen to be finite: those of the end, or of the end of the last block that was
            last = None if safe is None else safe.progress
            weights = {} if last is None else _weights(models, last)
            manifest = {name: value for name, value in manifest.items() if name != "process"}
            manifest |= {"status": status, "step": 0 if last is None else last.step}
            if failure is not None:
                manifest["failure"] = described(failure, models, settings)
            if still is not None:
                manifest["stalled"] = still
            again = safe if checkpoint is not None and failure is None else None
            refused = None if folder is None else _close(folder, manifest, weights, models, again)
            run = Run(manifest, kept, weights, None if folder is None else folder.path, time.perf_counter() - started)
    if failure is not None:
        text = message(failure, models, local, settings, optimizer)
        if run.directory is not None:
            text += f" What was recorded until then is in {run.directory}."
        error = Diverged(f"{text} {refused}" if refused else text)
        error.run = run
        raise error
    if refused is not None:
        raise refused
    return run


def _folder(
    directory: str | os.PathLike[str] | None, manifest: dict[str, Any], resumption: Resumption | None
) -> RunDirectory | None:
    """The folder to write to: a new one, or that of the run that goes on, without the records that are computed again."""
    if resumption is None:
        return None if directory is None else RunDirectory(directory, manifest)
    folder = resumption.folder
    size = 0 if resumption.checkpoint is None else resumption.checkpoint.place.size
    folder.cut_records(size, keep=bool(resumption.problems))
    folder.write_manifest(manifest)
    return folder


def _elapsed(settings: Settings, records: Sequence[int]) -> dict[str, Any]:
    """What the manifest holds so that the time of every record is known, where it is not the number of steps."""
    looked = list(candidates(records)) if settings.events is not None and settings.schedule is not None else []
    at = sorted({*records, *looked})
    elapsed = settings.elapsed(at)
    if elapsed is None:
        return {}
    return {"elapsed": elapsed, **({"elapsed_at": at} if looked else {})}


def _weights(models: Sequence[Model], progress: Progress) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of the models that keep some, by name."""
    found = {model.name: model.weights(state) for model, state in zip(models, progress.states, strict=True)}
    return {name: W for name, W in found.items() if W is not None}


def _save(folder: RunDirectory, models: Sequence[Model], safe: Safe) -> None:
    assert safe.place is not None
    write_checkpoint(folder, [model.name for model in models], safe.progress, safe.place, safe.levels)


def _close(
    folder: RunDirectory, manifest: dict[str, Any], weights: Mapping[str, Any], models: Sequence[Model], safe: Safe | None
) -> StorageError | None:
    """Writes how a run ended. What the disk refuses is told in the manifest and returned: it must hide no other error."""
    refused = None
    parts: dict[str, Callable[[], None]] = {"weights": lambda: folder.write_weights(weights)}
    if safe is not None:
        parts["checkpoint"] = lambda: _save(folder, models, safe)
    try:
        for what, write in parts.items():
            try:
                write()
            except StorageError as error:
                refused = error
                manifest.setdefault("unwritten", {})[what] = str(error)
        try:
            folder.write_manifest(manifest)
        except StorageError as error:
            refused = error
        if refused is None and manifest["status"] == "finished":
            drop_previous(folder)
    finally:
        folder.close()
    return refused


def _recorder(
    lockstep: Lockstep, settings: Settings, taken: Mapping[str, Probe | Observable], levels: Levels | None
) -> Recorder:
    """What measures: the planned records alone, or where the losses move too."""
    parts = (lockstep.models, lockstep.data, lockstep.loss, taken, lockstep.bound, settings.chunk)
    if settings.events is None:
        return Recorder(*parts)
    return EventRecorder(*parts, settings.events, max(SAMPLES, settings.batch or 0), levels)


def _blocks(
    lockstep: Lockstep, recorder: Recorder, now: Progress, records: Sequence[int], begun: bool
) -> Iterator[list[Record]]:
    """Steps in blocks, in place: what was recorded in each.

    A block costs one copy of the state and one wait for the device, so it grows until it takes a tenth of a second; its length
    decides when numbers are looked at, not what they are.
    """
    last, size = records[-1], 16
    if not begun:
        recorder.measure(now.step, now.states)
        yield recorder.fetch()
    planned = set(records)
    wanted = iter(sorted(step for step in {*planned, *recorder.candidates(records)} if step > now.step))
    step = next(wanted, None)
    while now.step < last:
        started = time.perf_counter()
        end = min(now.step + size, last)
        while step is not None and step <= end:
            lockstep.advance(now, step)
            if step in planned:
                recorder.measure(step, now.states)
            elif recorder.look(step, now.states):
                end = step
            step = next(wanted, None)
        lockstep.advance(now, end)
        yield recorder.fetch()
        seconds = time.perf_counter() - started
        size = min(2 * size, 4096) if seconds < 0.1 else max(1, size // 2) if seconds > 0.4 else size


def _failure(lockstep: Lockstep, good: Progress, now: Progress, block: Sequence[Record]) -> Failure | None:
    if finite(now.states) and all(np.isfinite(record["train_loss"]).all() for record in block):
        return None
    # where stepping again finds nothing, as on devices that do not add in the same order twice, the end of the block has to do
    return lockstep.failure(good, now.step) or Failure(now.step, 0, 0, float("nan"))


@contextlib.contextmanager
def _reporter(progress: bool | Report, steps: int) -> Iterator[Report]:
    """Where to report to: the caller's function, a bar on a terminal, or nowhere."""
    if callable(progress):
        yield progress
        return
    if not progress or not sys.stderr.isatty():
        yield lambda step, steps, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.4g}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=steps, loss=float("nan"))
        yield lambda step, steps, loss: bar.update(task, completed=step, loss=loss)
