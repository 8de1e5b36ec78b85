"""A hash of everything that a verdict depends on: the layer's source files and sizes, and the versions of what measured it."""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
from pathlib import Path

from nqf_registry.layer import Layer


def source_files(layer: Layer) -> list[Path]:
    """The files of the layer's class, of its bases outside the library, and of what they import from their own package."""
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


@functools.cache
def library_hash() -> str:
    """SHA-256 over the library's own code that evaluates and verifies layers, so that an edit of it makes verdicts stale."""
    digest = hashlib.sha256()
    root = Path(__file__).parent
    for path in sorted([*root.parent.glob("*.py"), *root.rglob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


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
