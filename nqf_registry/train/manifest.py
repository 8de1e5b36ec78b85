"""The run manifest: what a run is, so completely that it can be run again, and what became of it.

``manifest.json`` in the run's folder holds the subject with its sizes and the hash of its source, the models, the data with
its hash, every setting, the chosen rate and its rule, the verdicts, versions, device and git state, and the status:
``running``, ``finished``, ``diverged``, ``interrupted`` or ``failed``; while it runs, also its process, so that a run whose
process has ended is read as ``killed``. What could not be written at the end is told under ``unwritten``. It holds no time of
day: the same command gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import subprocess
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from nqf_registry import __version__
from nqf_registry.train.data import Data
from nqf_registry.train.models import Model
from nqf_registry.train.process import this_process
from nqf_registry.train.rates import Rate
from nqf_registry.train.settings import Settings

FORMAT = 1
FILE = "manifest.json"
STATUSES = ("running", "finished", "diverged", "interrupted", "failed", "killed")
PACKAGES = ("numpy", "scipy", "torch", "opt-einsum", "scikit-learn")


def _words(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _finite(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e309


def _word(value: Any) -> bool:
    return isinstance(value, str)


def _object_of_words(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


# What a reader relies on: where it stands, and what it must be.
SHAPE: dict[tuple[str, ...], tuple[Callable[[Any], bool], str]] = {
    ("status",): (lambda value: value in STATUSES, "a status"),
    ("subject", "key"): (_word, "a word"),
    ("verdicts",): (_object_of_words, "an object of words"),
    ("models",): (lambda value: _words(value) and len(set(value)) == len(value), "a list of different words"),
    ("data", "name"): (_word, "a word"),
    ("data", "hash"): (_word, "a word"),
    ("data", "n"): (_whole, "a whole number"),
    ("settings", "optimizer"): (_word, "a word"),
    ("settings", "dtype"): (_word, "a word"),
    ("settings", "device"): (_word, "a word"),
    ("settings", "steps"): (_whole, "a whole number"),
    ("settings", "seeds"): (lambda value: isinstance(value, list) and bool(value) and all(map(_whole, value)), "whole numbers"),
    ("rate", "rule"): (_word, "a word"),
    ("versions",): (_object_of_words, "an object of words"),
}
BY_REPLICA = ("lr", "scales", "weight_decay")


def damage(manifest: Mapping[str, Any]) -> str:
    """What is missing or wrong in a manifest that was read, empty where a reader finds all it needs."""
    for place, (fits, what) in SHAPE.items():
        value: Any = manifest
        for name in place:
            value = value.get(name) if isinstance(value, Mapping) else None
        try:
            good = fits(value)
        except TypeError:  # something that cannot even be compared
            good = False
        if not good:
            return f"{'.'.join(place)} must be {what}"
    settings = manifest["settings"]
    for name in BY_REPLICA:
        value = settings.get(name)
        if not isinstance(value, list) or len(value) != len(settings["seeds"]) or not all(map(_finite, value)):
            return f"settings.{name} must be one number a replica"
    if "step" in manifest and not _whole(manifest["step"]):
        return "step must be a whole number"
    failure = manifest.get("failure", {"step": 0, "model": "", "replica": 0})
    if not isinstance(failure, Mapping) or not {"step", "model", "replica"} <= set(failure):
        return "failure must name step, model and replica"
    return ""


def layers_of(subject: Any) -> dict[str, Any]:
    """The layers of a subject by node; a layer is its own only one, under its key."""
    return dict(subject.layers()) if hasattr(subject, "layers") else {subject.key: subject}


def describe(
    subject: Any,
    models: Sequence[Model],
    data: Data,
    settings: Settings,
    rate: Rate,
    records: Sequence[int],
    probes: Sequence[str],
    verdicts: Mapping[str, str],
) -> dict[str, Any]:
    """The manifest of a run that is about to start."""
    return {
        "format": FORMAT,
        "status": "running",
        "process": this_process(),
        "subject": {
            "key": subject.key,
            "layers": describe_layers(subject),
            **({"yaml": subject.to_yaml()} if hasattr(subject, "to_yaml") else {}),
        },
        "verdicts": dict(verdicts),
        "models": [model.name for model in models],
        **({"model_options": options} if (options := {m.name: kept for m in models if (kept := _chosen(m))}) else {}),
        "data": describe_data(data),
        "settings": plain(settings.described()),
        "rate": plain(dataclasses.asdict(rate)),
        "records": list(records),
        "probes": list(probes),
        "device": device_name(settings.device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "git": git_state(),
    }


def _chosen(model: Model) -> dict[str, Any]:
    """What a model was made with beside subject and data, where it is not the default."""
    fields = {f.name: f.default for f in dataclasses.fields(model) if f.init and f.name not in ("subject", "data")}
    return {name: plain(value) for name, default in fields.items() if (value := getattr(model, name)) != default}


def describe_layers(subject: Any) -> dict[str, dict[str, Any]]:
    """The layers of a subject by node."""
    return {name: describe_layer(layer) for name, layer in layers_of(subject).items()}


def describe_layer(layer: Any) -> dict[str, Any]:
    """A layer's class, sizes and the hash of its source file."""
    from nqf_registry.verify.source import source_hash  # the verifier is large, and opening a run needs none of it

    cls: Any = type(layer)
    fields = {f.name: getattr(layer, f.name) for f in dataclasses.fields(cls)}
    return {
        "key": layer.key,
        "class": f"{cls.__module__}.{cls.__qualname__}",
        "fields": plain(fields),
        "source": source_hash(layer) or None,
    }


def describe_data(data: Data) -> dict[str, Any]:
    """Name, hash, sizes and what the data says of itself."""
    tests = 0 if data.test_y is None else data.test_y.shape[0]
    found = {"name": data.name, "hash": data.hash, "n": data.n, "k": data.k, "test_n": tests, "info": plain(dict(data.info))}
    return found if data.origin is None else {**found, "origin": dict(data.origin)}


def plain(value: Any) -> Any:
    """A value as JSON has it; tensors are left out of mappings, other things become words."""
    if isinstance(value, Mapping):
        parts = {str(k): plain(v) for k, v in value.items() if not isinstance(v, torch.Tensor)}
        return {k: v for k, v in parts.items() if v != {} or value.get(k) == {}}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)  # JSON has no nan and no inf
    return str(value)


def device_name(device: str) -> str:
    """What a device is called by its maker."""
    if torch.device(device).type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Versions of Python, of this library and of what it computes with."""
    found = {"python": platform.python_version(), "nqf_registry": __version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


@functools.cache
def git_state() -> dict[str, Any] | None:
    """Commit of the checkout that this library is imported from and whether it was changed; None outside of a checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        tracked = git("ls-files", Path(__file__).name)  # an installed library may lie inside somebody else's repository
        if not tracked:
            return None
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.SubprocessError):
        return None
