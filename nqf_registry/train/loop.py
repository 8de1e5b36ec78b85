"""``train`` and ``compare``: one loop for every model of every layer.

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

from nqf_registry.errors import Diverged, InvalidInput, LayerError, NQFError, StorageError
from nqf_registry.layer import cast
from nqf_registry.train import manifest as manifests
from nqf_registry.train.batches import Batches
from nqf_registry.train.data import Data
from nqf_registry.train.directory import RunDirectory
from nqf_registry.train.lockstep import Failure, Lockstep, Progress, finite
from nqf_registry.train.losses import find_loss
from nqf_registry.train.models import NQF, Model, Original, Subject, initial_weights
from nqf_registry.train.optimizers import Optimizer, find_optimizer
from nqf_registry.train.rates import Rate, automatic_rate, largest_stable_rate
from nqf_registry.train.records import Probe, Record, Recorder, find_probes, record_steps
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
) -> Run:
    """Trains a model.

    Args:
        model: ``nqf.Original(layer)``, ``nqf.NQF(layer)``, or several different models of one layer, which then step together.
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

    ``lr``, ``seed``, ``scale`` and ``weight_decay`` may be lists with one value a replica.

    Returns:
        The run.

    Raises:
        InvalidInput: a setting is none that a run can have, or data and model do not fit.
        Diverged: a weight or loss left the finite numbers; what was recorded before is kept, and ``error.run`` holds it.
        StorageError: the folder cannot be written.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("phase-retrieval", size=4)
        >>> run = nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=32), steps=200, verify=False)
        >>> steps, loss = run.curves("train_loss", "nqf")
        >>> bool(loss[0, -1] < 0.1 * loss[0, 0])
        True
    """
    models = [model] if isinstance(model, Model) else list(model) if isinstance(model, Sequence) else []
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
    settings = make_settings(
        n=data.n,
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
    return _run(models, data, settings, record_steps(steps, records), probes, directory, progress, verify)


def compare(layer: Any, data: Data, models: Sequence[Model | Callable[[Any], Model]] = (Original, NQF), **settings: Any) -> Run:
    """Trains several models of one layer or composition in lockstep, from the same initial weights and on the same minibatches.

    Args:
        layer: a layer or a composition.
        data: what to learn.
        models: model classes, or models of this layer.
        settings: every setting of :func:`nqf_registry.train`.

    Returns:
        The run; its records hold the distance of every model from the first one.

    Raises:
        InvalidInput: as :func:`nqf_registry.train`.
        Diverged: as :func:`nqf_registry.train`.

    Example:
        >>> import nqf_registry as nqf
        >>> layer = nqf.default_registry().get("two-layer-mlp", n_in=4, width=8)
        >>> run = nqf.compare(layer, nqf.teacher(layer, n=64), steps=100, verify=False)
        >>> run.data["train_loss"].dims
        ('model', 'replica', 'record')
    """
    if not isinstance(layer, Subject):
        raise InvalidInput(
            f"nqf.compare takes a layer or a composition, got {type(layer).__name__}; take one by registry.get(key)."
        )
    return train([model if isinstance(model, Model) else model(layer) for model in models], data, **settings)


def _run(
    models: Sequence[Model],
    data: Data,
    settings: Settings,
    records: Sequence[int],
    probes: Mapping[str, Probe] | Sequence[str] | str,
    directory: str | os.PathLike[str] | None,
    progress: bool | Report,
    verify: bool,
) -> Run:
    """Prepares a run whose settings are checked, carries it out and closes it, whatever happens."""
    started = time.perf_counter()
    subject, loss = models[0].subject, find_loss(settings.loss)
    _check_data(subject, data, settings)
    verdicts = _verdicts(subject, bool(progress)) if verify else {}
    local = data.to(settings.device, DTYPES[settings.dtype])
    optimizer, rate = _optimizer(subject, local, settings)
    settings = dataclasses.replace(settings, lr=_spread(optimizer.lr, settings.replicas))
    taken = find_probes(probes, subject, local, loss)
    folder = None if directory is None else RunDirectory(directory)
    manifest = manifests.describe(subject, models, data, settings, rate, records, sorted(taken), verdicts)
    if folder is not None:
        folder.write_manifest(manifest)

    W = initial_weights(subject, settings.seeds, settings.scales, DTYPES[settings.dtype], settings.device)
    batches = (
        None if settings.batch is None else Batches(data.n, settings.batch, settings.batch_seed, torch.device(settings.device))
    )
    lockstep = Lockstep(models, local, loss, optimizer, batches)
    recorder = Recorder(models, local, loss, taken, lockstep.bound, settings.chunk)
    states = [model.start(W) for model in models]
    now = Progress(0, states, [optimizer.slots(state) for state in states])

    kept: list[Record] = []
    status, failure = "failed", None
    good = now.copy()
    try:
        with _reporter(progress, settings.steps) as report:
            for good, block in _blocks(lockstep, recorder, now, records):
                failure = _failure(lockstep, good, now, block)
                whole = [record for record in block if failure is None or record["step"] < failure.step]
                kept += whole
                if folder is not None:
                    folder.append(whole)
                if failure is not None:
                    break
                if kept:
                    report(now.step, settings.steps, float(np.mean(kept[-1]["train_loss"][0])))
        status = "finished" if failure is None else "diverged"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        # the last weights that were seen to be finite: those of the end, or of the beginning of the block that broke
        last = now if status == "finished" else good
        weights = {m.name: w for m, state in zip(models, last.states, strict=True) if (w := m.weights(state)) is not None}
        manifest |= {"status": status, "step": last.step}
        if failure is not None:
            manifest["failure"] = _described(failure, models, settings)
        run = Run(manifest, kept, weights, None if folder is None else folder.path, time.perf_counter() - started)
        if folder is not None:
            # where something broke already, a disk that refuses must hide neither that nor the status
            told = contextlib.suppress(StorageError) if status == "failed" else contextlib.nullcontext()
            with told:
                folder.write_weights(weights)
            with told:
                folder.write_manifest(manifest)
    if failure is not None:
        error = Diverged(_message(failure, models, local, settings, optimizer, run))
        error.run = run
        raise error
    return run


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


def _check_data(subject: Any, data: Data, settings: Settings) -> None:
    """Tries the subject on two samples, so that data that does not fit is told before anything is computed."""
    find_loss(settings.loss).check(data.y)
    ports = subject.ports()
    if set(data.x) != set(ports):
        raise InvalidInput(
            f"{subject.key} takes the inputs {', '.join(f'{name} {port}' for name, port in ports.items())}; "
            f"{data.name} has {', '.join(data.x)}."
        )
    x, y = data.batch(slice(0, 2))
    x = cast(x, DTYPES[settings.dtype])
    W = initial_weights(subject, settings.seeds[:1], settings.scales[:1], DTYPES[settings.dtype])
    try:
        with torch.no_grad():
            outputs = subject({name: block[0] for name, block in W.items()}, {name: t.cpu() for name, t in x.items()})
    except NQFError:
        raise
    except Exception as error:
        shapes = ", ".join(f"{name} {tuple(t.shape)}" for name, t in x.items())
        raise LayerError(
            f"{subject.key} cannot take samples of {data.name} ({shapes}): {type(error).__name__}: {error}"
        ) from error
    if outputs.shape[-1] != y.shape[-1]:
        raise InvalidInput(
            f"{subject.key} has {outputs.shape[-1]} outputs, {data.name} has targets of {y.shape[-1]}; give the layer "
            f"as many outputs."
        )


def _optimizer(subject: Any, data: Data, settings: Settings) -> tuple[Optimizer, Rate]:
    """The rule with its constants, and the rate with its reason."""
    rule, decay = find_optimizer(settings.optimizer), _merged(settings.weight_decay)
    if isinstance(settings.lr, str):
        rate = automatic_rate(subject, data, find_loss(settings.loss), rule((0.0,), decay, settings.momentum))
        return rule((rate.value,), decay, settings.momentum), rate
    return rule(_merged(settings.lr), decay, settings.momentum), Rate(settings.lr[0], "given")


def _merged(values: tuple[float, ...]) -> tuple[float, ...]:
    """One number where all replicas have the same, so that a step need not look it up by replica."""
    return values[:1] if len(set(values)) == 1 else values


def _spread(values: tuple[float, ...], replicas: int) -> tuple[float, ...]:
    return values * replicas if len(values) == 1 else values


def _described(failure: Failure, models: Sequence[Model], settings: Settings) -> dict[str, Any]:
    return {
        "step": failure.step,
        "model": models[failure.model].name,
        "replica": failure.replica,
        "seed": settings.seeds[failure.replica],
        "value": str(failure.value),
    }


def _message(failure: Failure, models: Sequence[Model], data: Data, settings: Settings, optimizer: Optimizer, run: Run) -> str:
    """What happened, and which rate to take instead."""
    rate = _spread(optimizer.lr, settings.replicas)[failure.replica]
    where = f"replica {failure.replica} (seed {settings.seeds[failure.replica]})"
    text = (
        f"{models[failure.model].name} of {models[0].subject.key} left the finite numbers at step {failure.step}: "
        f"{where} has loss "
        f"{failure.value:g} at rate {rate:.4g}."
    )
    try:
        stable = largest_stable_rate(models[0].subject, data, find_loss(settings.loss), optimizer.stability_limit())
    except Exception:  # an estimate that fails must not hide what happened
        stable = None
    if stable is not None:
        text += f" The estimated largest stable rate of {settings.optimizer} is {stable:.4g}; take a rate below it."
    else:
        text += f" There is no estimate of the largest stable rate of {settings.optimizer} here; take a smaller one."
    return text + ("" if run.directory is None else f" What was recorded until then is in {run.directory}.")


def _verdicts(subject: Any, told: bool) -> dict[str, str]:
    """The verdict line of every layer of the subject; a layer that nobody has verified is verified now."""
    from nqf_registry.verify.verdict import verdict

    said: dict[Any, Any] = {}
    for layer in manifests.layers_of(subject).values():
        if layer not in said:
            said[layer] = verdict(layer)
            if told:
                print(said[layer].line(), file=sys.stderr)
    # whether a verdict was measured now or before makes no difference to the run, so the manifest does not say
    return {name: dataclasses.replace(said[layer], cached=False).line() for name, layer in manifests.layers_of(subject).items()}


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
