"""``train``: one loop for every model of every layer.

The loop knows models, not layers: it binds them to samples, asks for gradients and applies the rule. What it adds is kept
out of the steps: records are taken at log-spaced steps, fetched and checked once in a block of steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from nqf_registry.errors import Diverged, InvalidInput, StorageError
from nqf_registry.spelling import did_you_mean
from nqf_registry.train import manifest as manifests
from nqf_registry.train.batches import Batches
from nqf_registry.train.data import Data
from nqf_registry.train.directory import RunDirectory, check_path
from nqf_registry.train.divergence import described, message
from nqf_registry.train.lockstep import Failure, Lockstep, Progress, finite
from nqf_registry.train.losses import find_loss
from nqf_registry.train.memory import check_memory
from nqf_registry.train.models import WAYS, Model, initial_weights
from nqf_registry.train.preparation import check_data, choose_rule, verdicts
from nqf_registry.train.process import terminable
from nqf_registry.train.records import Probe, Record, Recorder, check_probes, find_probes, record_steps
from nqf_registry.train.runs import Run
from nqf_registry.train.settings import DTYPES, Settings, make_settings

Report = Callable[[int, int, float], None]


def train(
    model: Model | Sequence[Model],
    data: Data,
    optimizer: str = "gd",
    lr: float | Sequence[float] | str = "auto",
    steps: int = 1000,
    batch: int | None = None,
    replicas: int = 1,
    seed: int | Sequence[int] = 0,
    scale: float | Sequence[float] = 1e-2,
    weight_decay: float | Sequence[float] = 0.0,
    momentum: float | None = None,
    loss: str = "squared",
    dtype: torch.dtype | str = torch.float32,
    device: torch.device | str = "auto",
    records: int | Sequence[int] = 100,
    probes: Mapping[str, Probe] | Sequence[str] | str = (),
    directory: str | os.PathLike[str] | None = None,
    progress: bool | Report = False,
    verify: bool = True,
    batch_seed: int = 0,
    chunk: int | None = None,
    way: str = "auto",
) -> Run:
    """Trains a model.

    Args:
        model: ``nqf.Original(layer)``, ``nqf.NQF(layer)``, ``nqf.OrderParameters(layer)``, ``nqf.Compressed(layer, data)``, or
            several different models of one layer, which then step together.
        data: what to learn.
        optimizer: ``gd``, ``momentum`` (Polyak), ``nesterov`` or ``adam``.
        lr: the rate. ``"auto"`` is 0.1 (1 − momentum) / λ₁ with λ₁ the fastest growth rate of small weights, at most half the
            estimated largest stable rate, and 10⁻³ for Adam; the manifest says which.
        steps: how many steps.
        batch: samples a step, drawn without repetition in shuffled passes; all of them if left out.
        replicas: how many runs at once, as a leading axis of the weights.
        seed: of the initial weights. Replica r of seed s is the run of seed s + r alone, to rounding.
        scale: standard deviation of the initial weights.
        weight_decay: γ of loss + (γ/2)‖W‖².
        momentum: β of ``momentum`` and ``nesterov``, 0.9 if left out.
        loss: ``squared`` or ``logistic``: the mean over samples of the sum over outputs.
        dtype: of weights and floating inputs, float32 or float64.
        device: ``auto`` is CUDA where there is one.
        records: about how many log-spaced steps to record, or which; the first and the last always are.
        probes: what else to record: names (``"top-mode"`` is the order parameter of the fastest mode), or functions of the
            weights by name, each from blocks (R, *shape, d) to (R,) or (R, …).
        directory: folder of the run, new or empty; without one the run is kept in memory.
        progress: True for a progress bar on a terminal, or a function of (step, steps, loss of the first model).
        verify: whether a layer that was never verified is verified first; its verdict goes into the manifest.
        batch_seed: of the order of the minibatches, the same for all replicas and models.
        chunk: how many samples are evaluated at a time for records where steps take minibatches; 16384 / replicas if left out.
        way: how gradients are computed: ``autograd``, ``closed-form`` by sample, ``statistics`` without a sum over samples
            (full batches and the squared loss), or ``auto``, which chooses from the sizes; the manifest says which.

    ``lr``, ``seed``, ``scale`` and ``weight_decay`` may be lists with one value a replica.

    Ctrl-C and SIGTERM close a run: it is ``interrupted``, and its records and last weights are kept.

    Returns:
        The run.

    Raises:
        InvalidInput: a setting is none that a run can have, data and model do not fit, or the folder is none for a new run.
        Diverged: a weight or loss left the finite numbers; what was recorded before is kept, and ``error.run`` holds it.
        StorageError: the system refuses to make or write the folder.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("phase-retrieval", size=4)
        >>> run = nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=32), steps=200, verify=False)
        >>> steps, loss = run.curves("train_loss", "nqf")
        >>> bool(loss[0, -1] < 0.1 * loss[0, 0])
        True
    """
    models = [model] if isinstance(model, Model) else list(model) if isinstance(model, list | tuple) else []
    if not models or not all(isinstance(one, Model) for one in models):
        raise InvalidInput(
            f"nqf.train takes a model such as nqf.Original(layer) or nqf.NQF(layer), got {type(model).__name__}."
        )
    names = [one.name for one in models]
    if len(set(names)) != len(names) or any(one.subject != models[0].subject for one in models):
        raise InvalidInput(f"models trained together must be different ones of one layer, got {', '.join(names)}.")
    if not isinstance(data, Data):
        raise InvalidInput(
            f"data must be nqf.Data, got {type(data).__name__}; nqf.teacher(layer) and nqf.digits(layer) make some."
        )
    settings, chosen = check_settings(
        n=data.n,
        directory=directory,
        records=records,
        probes=probes,
        optimizer=optimizer,
        lr=lr,
        steps=steps,
        batch=batch,
        batch_seed=batch_seed,
        replicas=replicas,
        seed=seed,
        scale=scale,
        weight_decay=weight_decay,
        momentum=momentum,
        loss=loss,
        dtype=dtype,
        device=device,
        chunk=chunk,
    )
    if way not in ("auto", *WAYS):
        raise InvalidInput(f"way must be auto or one of {', '.join(WAYS)}, got {way!r}.{did_you_mean(str(way), WAYS)}")
    check_memory(models[0].subject, len(models), settings)
    return _run(models, data, settings, chosen, probes, directory, progress, verify, way)


def check_settings(
    *,
    n: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    records: Any = 100,
    probes: Any = (),
    **settings: Any,
) -> tuple[Settings, list[int]]:
    """Everything about a run that can be told before there is data: its settings, completed, and the steps to record.

    Raises:
        InvalidInput: a setting is none that a run can have, or the folder none for a new run.
        StorageError: the system does not let the folder be made.
    """
    made = make_settings(n=n, **settings)
    chosen = record_steps(made.steps, records)
    check_probes(probes)
    if directory is not None:
        check_path(directory)
    return made, chosen


def _run(
    models: Sequence[Model],
    data: Data,
    settings: Settings,
    records: Sequence[int],
    probes: Mapping[str, Probe] | Sequence[str] | str,
    directory: str | os.PathLike[str] | None,
    progress: bool | Report,
    verify: bool,
    way: str,
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
    lockstep = Lockstep(models, local, loss, optimizer, batches, way)
    manifest = manifests.describe(subject, models, data, settings, rate, records, sorted(taken), said)
    now = lockstep.begin(initial_weights(subject, settings.seeds, settings.scales, dtype, settings.device))
    manifest["ways"] = lockstep.ways(now)

    kept: list[Record] = []
    status, failure = "failed", None
    good: Progress | None = None
    with terminable():
        folder = None if directory is None else RunDirectory(directory, manifest)
        try:
            recorder = Recorder(models, local, loss, taken, lockstep.bound, settings.chunk)
            good = now.copy()
            with _reporter(progress, settings.steps) as report:
                for good, block in _blocks(lockstep, recorder, now, records):
                    failure = _failure(lockstep, good, now, block)
                    whole = [record for record in block if failure is None or record["step"] < failure.step]
                    if folder is not None:
                        folder.append(whole)
                    kept += whole
                    if failure is not None:
                        break
                    if kept:
                        report(now.step, settings.steps, float(np.mean(kept[-1]["train_loss"][0])))
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
            # the last weights that were seen to be finite: those of the end, or of the beginning of the block that broke
            last = now if status == "finished" else good
            weights = {} if last is None else _weights(models, last)
            manifest = {name: value for name, value in manifest.items() if name != "process"}
            manifest |= {"status": status, "step": 0 if last is None else last.step}
            if failure is not None:
                manifest["failure"] = described(failure, models, settings)
            refused = None if folder is None else _close(folder, manifest, weights)
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


def _weights(models: Sequence[Model], progress: Progress) -> dict[str, dict[str, torch.Tensor]]:
    """The weights of the models that keep some, by name."""
    found = {model.name: model.weights(state) for model, state in zip(models, progress.states, strict=True)}
    return {name: W for name, W in found.items() if W is not None}


def _close(folder: RunDirectory, manifest: dict[str, Any], weights: Mapping[str, Any]) -> StorageError | None:
    """Writes how a run ended. What the disk refuses is told in the manifest and returned: it must hide no other error."""
    refused = None
    try:
        folder.write_weights(weights)
    except StorageError as error:
        refused = error
        manifest["unwritten"] = {"weights": str(error)}
    try:
        folder.write_manifest(manifest)
    except StorageError as error:
        refused = error
    return refused


def _blocks(
    lockstep: Lockstep, recorder: Recorder, now: Progress, records: Sequence[int]
) -> Iterator[tuple[Progress, list[Record]]]:
    """Steps in blocks: what the run was before each, and what was recorded in it.

    A block costs one copy of the state and one wait for the device, so it grows until it takes a tenth of a second; its length
    decides when numbers are looked at, not what they are.
    """
    last, size = records[-1], 16
    good = now.copy()
    recorder.measure(0, now.states)
    yield good, recorder.fetch()
    wanted = iter(records[1:])
    step = next(wanted, None)
    while now.step < last:
        good, begun = now.copy(), time.perf_counter()
        end = min(now.step + size, last)
        while step is not None and step <= end:
            lockstep.advance(now, step)
            recorder.measure(step, now.states)
            step = next(wanted, None)
        lockstep.advance(now, end)
        yield good, recorder.fetch()
        seconds = time.perf_counter() - begun
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
