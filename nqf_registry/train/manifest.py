"""The run manifest: what a run is, so completely that it can be run again, and what became of it.

``manifest.json`` in the run's folder holds the subject with its sizes and the hash of its source, the models, the data with
its hash, every setting, the chosen rate and its rule, the verdicts, versions, device and git state, and the status:
``running``, ``finished``, ``diverged``, ``interrupted`` or ``failed``. It holds no time of day: the same command gives the
same bytes.
"""

from __future__ import annotations

import dataclasses
import functools
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from nqf_registry import __version__
from nqf_registry.train.data import Data
from nqf_registry.train.models import Model
from nqf_registry.train.rates import Rate
from nqf_registry.train.settings import Settings

FORMAT = 1
FILE = "manifest.json"
STATUSES = ("running", "finished", "diverged", "interrupted", "failed")
PACKAGES = ("numpy", "scipy", "torch", "opt-einsum", "scikit-learn")


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
        "subject": {
            "key": subject.key,
            "layers": {name: describe_layer(layer) for name, layer in layers_of(subject).items()},
            **({"yaml": subject.to_yaml()} if hasattr(subject, "to_yaml") else {}),
        },
        "verdicts": dict(verdicts),
        "models": [model.name for model in models],
        "data": describe_data(data),
        "settings": plain(dataclasses.asdict(settings)),
        "rate": dataclasses.asdict(rate),
        "records": list(records),
        "probes": list(probes),
        "device": device_name(settings.device),
        "threads": torch.get_num_threads(),
        "versions": versions(),
        "git": git_state(),
    }


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
    return {"name": data.name, "hash": data.hash, "n": data.n, "k": data.k, "test_n": tests, "info": plain(dict(data.info))}


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
