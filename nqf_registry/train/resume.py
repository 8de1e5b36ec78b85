"""``resume``: a run that ended early, or is to take more steps, goes on where it was, by its folder alone."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from nqf_registry.errors import InvalidInput, NQFError
from nqf_registry.train import directory as directories
from nqf_registry.train.checkpoint import Checkpoint, find_checkpoint
from nqf_registry.train.data import Data, load_data
from nqf_registry.train.execution import Report, carry_out
from nqf_registry.train.identity import changes
from nqf_registry.train.loop import check_interval
from nqf_registry.train.manifest import describe_layers
from nqf_registry.train.memory import check_memory
from nqf_registry.train.models import MODELS, Model
from nqf_registry.train.numbers import whole
from nqf_registry.train.records import Probe, Record
from nqf_registry.train.runs import Run
from nqf_registry.train.settings import STEPS, make_settings

if TYPE_CHECKING:
    from nqf_registry.registry import Registry

AS_THEY_WERE = ("batch", "batch_seed", "weight_decay", "momentum", "loss", "dtype", "device", "chunk")
Tell = Callable[[str], None]


class ResumeWarning(UserWarning):
    """Something that whoever resumes a run should know."""


def resume(
    directory: str | os.PathLike[str],
    steps: int | None = None,
    data: Data | None = None,
    layer: Any = None,
    plugins: Sequence[str | os.PathLike[str]] = (),
    records: int | Sequence[int] | None = None,
    probes: Mapping[str, Probe] | None = None,
    optimizer: Any = None,
    schedule: Callable[[int], float] | None = None,
    checkpoint: float | None = 60.0,
    replica_chunk: int | None = None,
    progress: bool | Report = False,
    force: bool = False,
    registry: Registry | None = None,
    tell: Tell | None = None,
) -> Run:
    """Goes on with the run in a folder, bit for bit as if it had never stopped.

    Layer, data, models, settings and rate are those of the manifest; only what has no name has to be given again. A run that
    is finished is opened.

    Args:
        directory: the run's folder.
        steps: how many steps in all, where the run is to take more than it was made for. What was recorded stays, the former
            last step too; further records are log-spaced as densely as those before. A schedule keeps its length.
        data: the data, where no named data set makes it; its hash must be that of the run.
        layer: the layer or composition, where no plugin registers it.
        plugins: plugin files that register it.
        records: of the further steps: how many, or which.
        probes: the functions that the run recorded by, of the same names.
        optimizer: the class of the rule, where it is not one of torch.
        schedule: the function that was the run's schedule.
        checkpoint: seconds between checkpoints, 0 for as many as possible, None for none.
        replica_chunk: how many replicas step through a block before the next ones do, rounded up to whole groups of those that
            one call computes. The groups are those that the run began with, so that no bit depends on it.
        progress: as in :func:`nqf_registry.train`.
        force: whether to go on where something that changes the numbers is not what it was, such as the layer's source.
        registry: where layers and data sets are looked for; the default one with ``plugins`` if left out.
        tell: takes what is worth knowing, a sentence a call; by default it is given as a warning.

    Returns:
        The run, with all its records.

    Raises:
        InvalidInput: the folder holds no run, another process writes to it, something cannot be made again or is not what it
            was, or the run diverged.
        Diverged: as :func:`nqf_registry.train`.
        StorageError: the folder cannot be read or written.

    Example:
        >>> import tempfile, nqf_registry as nqf
        >>> layer = nqf.default_registry().get("phase-retrieval", size=4)
        >>> folder = tempfile.mkdtemp()
        >>> run = nqf.train(nqf.NQF(layer), nqf.teacher(layer, n=32), steps=100, verify=False, directory=folder)
        >>> nqf.resume(folder, steps=200).manifest["step"]
        200
    """
    interval, say = check_interval(checkpoint), tell or _warn
    width = None if replica_chunk is None else whole("replica_chunk", replica_chunk, 1)
    folder = directories.RunDirectory.reopen(directory)
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        manifest = directories.read_manifest(folder.path)
        if manifest["status"] == "diverged":
            raise InvalidInput(
                f"the run in {folder.path} left the finite numbers at step {manifest['failure']['step']}; there is nothing to "
                "go on with. Train again with a smaller rate."
            )
        settings = manifest["settings"]
        last = settings["steps"] if steps is None else whole("steps", steps, 0, STEPS)
        if last < settings["steps"]:
            raise InvalidInput(f"steps can only be raised: the run was made for {settings['steps']}, got {last}.")
        if manifest["status"] == "finished" and last == settings["steps"] and "unwritten" not in manifest:
            say(f"the run in {folder.path} is finished, after {last} steps; give steps= for more.")
            return Run.open(folder.path)
        chosen = _further(manifest, last, records)
        known = _registry(registry, plugins)
        subject = _subject(manifest, layer, known, folder.path)
        given = _data(manifest, data, subject, known, folder.path)
        models = _models(manifest, subject, given)
        made = _settings(manifest, given.n, last, optimizer, schedule)
        check_memory(subject, len(models), made)
        found, kept, problems = find_checkpoint(folder.path, manifest)
        for problem in problems:
            say(problem)
        if problems or (found is None and manifest.get("step")):
            where = "its beginning" if found is None else f"step {found.step}"
            say(f"the run goes on from {where}; the records from there on are computed again.")
        resumption = Resumed(folder, found, kept, problems, manifest, force, say)
        stack.enter_context(_threads(manifest.get("threads")))
        taken, way = _probes(manifest, probes), manifest.get("way", "auto")
        return carry_out(models, given, made, chosen, taken, None, progress, False, way, interval, width, resumption)


@dataclasses.dataclass
class Resumed:
    """A run that is taken up again.

    Attributes:
        folder: open for writing.
        checkpoint: where it goes on, None for its beginning.
        kept: the records up to there.
        problems: what was found to be damaged.
        before: the manifest.
        force: whether it goes on whatever has changed.
        say: takes what is worth knowing.
    """

    folder: directories.RunDirectory
    checkpoint: Checkpoint | None
    kept: list[Record]
    problems: list[str]
    before: dict[str, Any]
    force: bool
    say: Tell

    @property
    def groups(self) -> dict[str, int]:
        """How many replicas of each model one call takes; it decides the last bits."""
        every = dict.fromkeys(self.before["models"], len(self.before["settings"]["seeds"]))
        return {**every, **self.before.get("replica_groups", {})}

    def settle(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The manifest of the run as it goes on: what it was, where it was resumed, and what has changed.

        Raises:
            InvalidInput: something that changes the numbers has, and nobody forces it.
        """
        grave, light = changes(self.before, manifest)
        for change in light:
            self.say(f"{change}.")
        if grave and not self.force:
            raise InvalidInput(
                f"the run in {self.folder.path} would not go on as it began: {'; '.join(grave)}. Restore what it was made "
                "with, or force it (force=True, --force): the manifest will say so."
            )
        step = 0 if self.checkpoint is None else self.checkpoint.step
        entry: dict[str, Any] = {"step": step, **({"changed": [*grave, *light]} if grave or light else {})}
        kept = {name: self.before[name] for name in ("rate", "verdicts") if name in self.before}
        return {**manifest, **kept, "resumed": [*self.before.get("resumed", []), entry]}


def _warn(text: str) -> None:
    warnings.warn(text, ResumeWarning, stacklevel=3)


@contextlib.contextmanager
def _threads(count: Any) -> Iterator[None]:
    """As many threads as the run had: sums are split among them, so that their number decides the last bits."""
    own = torch.get_num_threads()
    if not isinstance(count, int) or isinstance(count, bool) or count < 1 or count == own:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(own)


def _registry(registry: Registry | None, plugins: Sequence[str | os.PathLike[str]]) -> Registry:
    from nqf_registry.registry import default_registry

    found = default_registry() if registry is None else registry
    return found.extended(plugins) if plugins else found


def _subject(manifest: Mapping[str, Any], layer: Any, registry: Registry, path: Path) -> Any:
    """The layer or composition of a manifest: the given one, which must be it, or as the registry makes it."""
    said = manifest["subject"]
    subject = layer
    if layer is None:
        try:
            if "yaml" in said:
                from nqf_registry.compose.spec import from_yaml

                subject = from_yaml(said["yaml"], registry)
            else:
                subject = registry.get(said["key"], **said["layers"][said["key"]]["fields"])
        except NQFError as error:
            raise InvalidInput(
                f"the layer of the run in {path} cannot be made again: {error} Give the plugin that registers it (plugins=, "
                "--plugin), or the layer itself (layer=)."
            ) from error
    found = describe_layers(subject)
    for name, part in said.get("layers", {}).items():
        own = found.get(name, {})
        if subject.key != said["key"] or (own.get("key"), own.get("fields")) != (part.get("key"), part.get("fields")):
            raise InvalidInput(
                f"the run in {path} trained {said['key']} with {part.get('fields')}; got {subject.key} with "
                f"{own.get('fields')}."
            )
    return subject


def _data(manifest: Mapping[str, Any], data: Data | None, subject: Any, registry: Registry, path: Path) -> Data:
    said = manifest["data"]
    found = data
    if found is None:
        if "origin" not in said:
            raise InvalidInput(
                f"the data {said['name']!r} of the run in {path} has no name by which it can be made again; give it by data=."
            )
        found = load_data(said["origin"]["name"], subject, registry, **said["origin"]["options"])
    if not isinstance(found, Data):
        raise InvalidInput(f"data must be nqf.Data, got {type(found).__name__}.")
    if found.hash != said["hash"]:
        raise InvalidInput(
            f"the run in {path} was trained on data {said['name']!r} of hash {said['hash'][:12]}; got {found.name!r} of hash "
            f"{found.hash[:12]}. A run goes on with the same data only."
        )
    return found


def _models(manifest: Mapping[str, Any], subject: Any, data: Data) -> list[Model]:
    found = []
    for name in manifest["models"]:
        if name not in MODELS:
            raise InvalidInput(f"the run trained the model {name!r}, which is none of {', '.join(MODELS)}.")
        model = MODELS[name].of(subject, data)
        options = manifest.get("model_options", {}).get(name)
        found.append(dataclasses.replace(model, **options) if options else model)
    return found


def _settings(manifest: Mapping[str, Any], n: int, steps: int, optimizer: Any, schedule: Any) -> Any:
    """The settings of a manifest, checked as new ones are."""
    said = dict(manifest["settings"])
    shape = said.get("schedule") or {}
    if shape.get("source") and schedule is None:
        raise InvalidInput(f"the schedule {shape['name']!r} of the run is a function; give it by schedule=.")
    if said.get("optimizer_source") and optimizer is None:
        raise InvalidInput(f"the rule {said['optimizer']!r} of the run is a class of your own; give it by optimizer=.")
    return make_settings(
        n=n,
        optimizer=optimizer if optimizer is not None else said["optimizer"],
        optimizer_options=said.get("optimizer_options"),
        schedule=schedule if schedule is not None else shape.get("name"),
        schedule_options=None if shape.get("source") else shape.get("options"),
        times=tuple(said.get("times", ())),
        events=said.get("events"),
        lr="auto" if said["optimizer"] == "flow" else said["lr"],
        steps=steps,
        replicas=len(said["seeds"]),
        seed=said["seeds"],
        scale=said["scales"],
        **{name: said[name] for name in AS_THEY_WERE},
    )


def _probes(manifest: Mapping[str, Any], probes: Mapping[str, Probe] | None) -> Mapping[str, Probe] | list[str]:
    names = list(manifest.get("probes", []))
    if probes is not None:
        if sorted(probes) != names:
            raise InvalidInput(f"the run recorded the probes {', '.join(names) or 'none'}; got {', '.join(probes)}.")
        return probes
    from nqf_registry.train.records import BUILT_IN

    own = [name for name in names if name not in BUILT_IN]
    if own:
        raise InvalidInput(f"the run recorded {', '.join(own)} by functions; give all its probes by probes={{name: function}}.")
    return names


def _further(manifest: Mapping[str, Any], last: int, records: int | Sequence[int] | None) -> list[int]:
    """The steps to record, of a run that may take more steps than it was made for."""
    before, first = list(manifest["records"]), manifest["settings"]["steps"]
    if last == first:
        if records is not None:
            raise InvalidInput("records are those of the steps that are added; give steps too.")
        return before
    if manifest["settings"].get("times"):
        raise InvalidInput("a run of gradient flow ends at the time that it was made for; train again with a later one.")
    if isinstance(records, Sequence) and not isinstance(records, str):
        added = {whole("each of records", step, first + 1, last) for step in records}
        return sorted({*before, *added, last})
    begin, end = math.log1p(first), math.log1p(last)
    if records is None:
        count = max(math.ceil((end - begin) * (len(before) - 1) / begin), 1) if first and len(before) > 1 else 100
    else:
        count = whole("records", records, 1)
    inner = {round(math.expm1(begin + (end - begin) * i / count)) for i in range(1, count + 1)}
    return sorted({*before, *(step for step in inner if first < step <= last), last})
