"""A hash of everything that a verdict depends on: the layer's source files and sizes, and the versions of what measured it."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path

from nqf_registry.layer import Layer


def source_files(layer: Layer) -> list[Path]:
    """The files that define the layer's class and its bases outside the library, and the modules of its package that they import."""
    modules = {cls.__module__ for cls in type(layer).__mro__ if issubclass(cls, Layer) and cls is not Layer}
    files: set[Path] = set()
    for name in modules:
        module = sys.modules.get(name)
        top = name.partition(".")[0]
        for used in [module, *(getattr(value, "__module__", None) for value in vars(module).values())] if module else []:
            found = sys.modules.get(used) if isinstance(used, str) else used
            if found is None or (found is not module and found.__name__.partition(".")[0] != top):
                continue
            path = getattr(found, "__file__", None)
            if path:
                files.add(Path(path))
    return sorted(files)


def source_hash(layer: Layer) -> str:
    """SHA-256 over the source of a layer; "" where no file can be read (a class typed into a console)."""
    digest = hashlib.sha256()
    try:
        for path in source_files(layer):
            digest.update(path.read_bytes())
        source = inspect.getsource(type(layer))
    except (OSError, TypeError):
        return ""
    digest.update(source.encode())
    return digest.hexdigest()
