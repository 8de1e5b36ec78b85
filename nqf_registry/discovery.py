"""Where plugins are: entry points of installed distributions, and single files. Nothing of a plugin is imported here."""

import importlib.metadata
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec

GROUP = "nqf_registry.plugins"


@dataclass(frozen=True, order=True)
class Source:
    """One plugin before anything of it is imported.

    Attributes:
        distribution: name of the installed distribution, "" for a plugin given as a file.
        name: name of the entry point, or the file's absolute path.
        value: what the entry point refers to (``module`` or ``module:attribute``), or the file's absolute path.
        version: version of the distribution, "" for a file.
        file: the module file, "" where none was found.
    """

    distribution: str
    name: str
    value: str
    version: str = ""
    file: str = ""

    @property
    def is_file(self) -> bool:
        """Whether the plugin was given as a file, not installed."""
        return not self.distribution

    def __str__(self) -> str:
        return self.name if self.is_file else f"{self.name} ({self.distribution} {self.version})".replace(" )", ")")


def installed_sources() -> list[Source]:
    """Every entry point of the group ``nqf_registry.plugins``, sorted, without importing any.

    Two entry points with the same value are one object in this process, so they are one plugin.
    """
    distributions: dict[int, tuple[str, str]] = {}  # reading a distribution's metadata is slow, and 17 entries share one
    specs: dict[str, ModuleSpec | None] = {}
    sources: dict[str, Source] = {}
    for entry in _entry_points():
        dist = entry.dist
        if id(dist) not in distributions:
            distributions[id(dist)] = _identity(dist)
        name, version = distributions[id(dist)]
        source = Source(name, entry.name, entry.value, version, _module_file(entry.value, specs))
        sources[entry.value] = min(source, sources.get(entry.value, source))
    return sorted(sources.values())


def file_source(path: str | os.PathLike[str]) -> Source:
    """The plugin that a ``.py`` file is; the file may turn out to be missing when it is loaded."""
    absolute = os.path.realpath(os.path.expanduser(path))
    return Source("", absolute, absolute, "", absolute)


def environment_plugins() -> list[str]:
    """The files named by ``NQF_PLUGINS``, separated as in ``PATH``."""
    return [part for part in os.environ.get("NQF_PLUGINS", "").split(os.pathsep) if part.strip()]


def _entry_points() -> Iterable[importlib.metadata.EntryPoint]:
    try:
        return importlib.metadata.entry_points(group=GROUP)
    except Exception:
        # One distribution with a damaged entry_points.txt makes the call above fail for all of them.
        return _readable_entry_points()


def _readable_entry_points() -> list[importlib.metadata.EntryPoint]:
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for dist in importlib.metadata.distributions():
        try:
            name = _identity(dist)[0].lower().replace("-", "_")
            if name not in found:  # the first on sys.path hides the others, as for imports
                found[name] = list(dist.entry_points.select(group=GROUP))
        except Exception:
            continue
    return [entry for name in sorted(found) for entry in found[name]]


def _identity(dist: importlib.metadata.Distribution | None) -> tuple[str, str]:
    """Name and version, with a placeholder where the distribution's own metadata are damaged."""
    try:
        assert dist is not None
        metadata = dist.metadata
        return str(metadata["Name"] or "unnamed"), str(metadata["Version"] or "")
    except Exception:
        return "unnamed", ""


def _module_file(value: str, specs: dict[str, ModuleSpec | None]) -> str:
    """The file of an entry point's module, found without importing the module or its parents; "" where there is none."""
    spec = None
    parts = value.partition(":")[0].strip().split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        if name not in specs:
            path = None if depth == 1 else list((spec and spec.submodule_search_locations) or [])
            specs[name] = _find(name, path)
        spec = specs[name]
        if spec is None:
            return ""
    return os.path.realpath(spec.origin) if spec and spec.has_location and spec.origin else ""


def _find(name: str, path: list[str] | None) -> ModuleSpec | None:
    # importlib.util.find_spec would import the parent package; the finders themselves do not.
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, path)
        except Exception:
            continue
        if spec is not None:
            return spec
    return None
