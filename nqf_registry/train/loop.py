"""``train``: one loop for every model of every layer.

The loop knows models, not layers: it binds them to samples, asks for gradients and applies the rule. Here its settings are
checked; :mod:`nqf_registry.train.execution` carries it out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from nqf_registry.errors import InvalidInput
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.data import Data
from nqf_registry.train.execution import Report, carry_out
from nqf_registry.train.memory import check_memory
from nqf_registry.train.models import WAYS, Model
from nqf_registry.train.numbers import number, whole
from nqf_registry.train.preparation import check_settings
from nqf_registry.train.records import Probe
from nqf_registry.train.runs import Run


def train(
    model: Model | Sequence[Model],
    data: Data,
    optimizer: str | type[torch.optim.Optimizer] = "gd",
    lr: float | Sequence[float] | str = "auto",
    steps: int | None = None,
    batch: int | None = None,
    replicas: int = 1,
    seed: int | Sequence[int] = 0,
    scale: float | Sequence[float] = 1e-2,
    weight_decay: float | Sequence[float] | None = None,
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
    checkpoint: float | None = 60.0,
    replica_chunk: int | None = None,
    optimizer_options: Mapping[str, Any] | None = None,
    schedule: str | Callable[[int], float] | None = None,
    schedule_options: Mapping[str, Any] | None = None,
    until: float | Sequence[float] | None = None,
    events: float | None = None,
) -> Run:
    """Trains a model.

    Args:
        model: ``nqf.Original(layer)``, ``nqf.NQF(layer)``, ``nqf.OrderParameters(layer)``, ``nqf.Compressed(layer, data)``, or
            several different models of one layer, which then step together.
        data: what to learn.
        optimizer: ``gd``, ``momentum`` (Polyak), ``nesterov`` or ``adam``; an optimiser of ``torch.optim`` by name or class, or
            any class of that kind; or ``flow``, gradient flow integrated with error control.
        lr: the rate. ``"auto"`` is 0.1 (1 − momentum) / λ₁ with λ₁ the fastest growth rate of small weights, at most half the
            estimated largest stable rate, 10⁻³ for Adam, and the default of an optimiser of torch; the manifest says which.
        steps: how many steps, 1000 if left out.
        batch: samples a step, drawn without repetition in shuffled passes; all of them if left out.
        replicas: how many runs at once, as a leading axis of the weights.
        seed: of the initial weights. Replica r of seed s is the run of seed s + r alone, to rounding.
        scale: standard deviation of the initial weights.
        weight_decay: γ of loss + (γ/2)‖W‖², 0 if left out. An optimiser of torch that has a ``weight_decay`` itself gets this
            one, does with it what it does, and has its own default.
        momentum: β of ``momentum`` and ``nesterov``, 0.9 if left out, and of optimisers of torch that have one.
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
        checkpoint: seconds between checkpoints of a run that has a folder, 0 for one as often as there can be, None for none;
            see :func:`nqf_registry.resume`.
        replica_chunk: how many replicas are computed by one call and step through a block before the next ones do. If left out,
            what fits the cache of a CPU or the memory of a GPU; the manifest says how many. The last bits depend on it.
        optimizer_options: further constants of an optimiser of torch, or method and tolerances of the flow, by name.
        schedule: a factor on the rate: ``warmup``, ``linear``, ``cosine``, ``cosine-restarts``, ``step``, ``milestones``,
            ``exponential`` or ``polynomial``, or a function of the number of steps done.
        schedule_options: of a schedule by name, see :mod:`nqf_registry.train.schedules`.
        until: of ``flow``, in place of steps: the time at which it ends, or a list of times to record.
        events: a fraction such as 0.05, to record also wherever the training loss of a model and replica has moved by more than
            this fraction since the last record: |L − L_kept| > events · max(L_kept, 10⁻³ L(0)). Between planned records it is
            looked at about every 3 % of the steps done, at least 8 steps apart; see :mod:`nqf_registry.train.events`. None for
            planned records only. Not for ``flow``.

    ``lr``, ``seed``, ``scale`` and ``weight_decay`` may be lists with one value a replica.

    Ctrl-C and SIGTERM close a run: it is ``interrupted``, and its records and last weights are kept. A run that ended early, in
    whatever way, goes on by :func:`nqf_registry.resume`.

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
        optimizer_options=optimizer_options,
        schedule=schedule,
        schedule_options=schedule_options,
        until=until,
        events=events,
    )
    if way not in ("auto", *WAYS):
        raise InvalidInput(f"way must be auto or one of {', '.join(WAYS)}, got {way!r}.{did_you_mean(str(way), WAYS)}")
    width = None if replica_chunk is None else whole("replica_chunk", replica_chunk, 1)
    check_memory(models[0].subject, len(models), settings)
    return carry_out(
        models, data, settings, chosen, probes, directory, progress, verify, way, check_interval(checkpoint), width
    )


def check_interval(checkpoint: Any) -> float | None:
    """Seconds between checkpoints, None for none.

    Raises:
        InvalidInput: it is neither.
    """
    if checkpoint is None:
        return None
    seconds = number("checkpoint", checkpoint)
    if seconds < 0:
        raise InvalidInput(f"checkpoint must be a number of seconds from 0 on, or None for none; got {checkpoint!r}.")
    return seconds
