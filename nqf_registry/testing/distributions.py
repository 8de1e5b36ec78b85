"""``fake_distribution``: for as long as a block lasts, a distribution with entry points seems to be installed."""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

from nqf_registry.discovery import GROUP
from nqf_registry.errors import InvalidInput

_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")


@contextlib.contextmanager
def fake_distribution(
    folder: str | os.PathLike[str],
    name: str,
    *,
    modules: Mapping[str, str | os.PathLike[str]] | None = None,
    entry_points: Mapping[str, str] | None = None,
    version: str = "1.0",
    group: str = GROUP,
) -> Iterator[Path]:
    """Writes what pip would leave of a distribution into a folder, and lets this process and its children import from there.

    On leaving, what was written is removed, and so is every module that was imported from the folder.

    Args:
        folder: where to write; made where it is missing. Several distributions may share one.
        name: of the distribution.
        modules: by dotted name, the source of a module, or the path of a file to copy; packages above it are made.
        entry_points: by name, ``module`` or ``module:attribute``. Without any, the distribution is no plugin.
        version: of the distribution.
        group: of the entry points.

    Yields:
        The folder.

    Raises:
        InvalidInput: the name is none that a distribution can have, a module's name is no dotted name, or there is already
            such a distribution or module in the folder.

    Example:
        >>> import importlib.metadata, tempfile
        >>> from nqf_registry.testing import fake_distribution
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with fake_distribution(folder, "my-plugin", modules={"my_plugin": ""}, entry_points={"my-layer": "my_plugin"}):
        ...         importlib.metadata.version("my-plugin")
        '1.0'
    """
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"a distribution's name is letters, digits and - . _ between them, got {name!r}.")
    site = Path(os.path.realpath(folder))
    files: dict[Path, str] = {}
    for module, source in (modules or {}).items():
        parts = module.split(".")
        if not all(part.isidentifier() for part in parts):
            raise InvalidInput(f"modules are given by dotted names such as my_plugin, got {module!r}.")
        for depth in range(1, len(parts)):
            files.setdefault(site.joinpath(*parts[:depth], "__init__.py"), "")
        inner = any(other.startswith(f"{module}.") for other in modules or {})
        text = textwrap.dedent(source) if isinstance(source, str) else Path(source).read_text(encoding="utf-8")
        files[site.joinpath(*parts, "__init__.py") if inner else site.joinpath(*parts[:-1], f"{parts[-1]}.py")] = text
    info = site / f"{re.sub('[-_.]+', '_', name)}-{version}.dist-info"
    files[info / "METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    if entry_points:
        lines = [f"{entry} = {value}" for entry, value in entry_points.items()]
        files[info / "entry_points.txt"] = "\n".join([f"[{group}]", *lines, ""])
    if there := [str(path) for path in files if path.exists()]:
        raise InvalidInput(f"{there[0]} is there already; give the distribution a folder or names of its own.")
    with contextlib.ExitStack() as undo:
        for path, text in files.items():
            _make(path.parent, undo)
            path.write_text(text, encoding="utf-8")
            undo.callback(path.unlink, missing_ok=True)
        _search(site, undo)
        yield site


def _make(folder: Path, undo: contextlib.ExitStack) -> None:
    """Makes a folder and those above it; each that is new goes again, unless something was left in it."""
    if folder.exists():
        return
    _make(folder.parent, undo)
    folder.mkdir()

    def remove() -> None:
        cache = folder / "__pycache__"
        for path in cache.glob("*.pyc"):
            path.unlink()
        for path in (cache, folder):
            with contextlib.suppress(OSError):
                path.rmdir()

    undo.callback(remove)


def _search(site: Path, undo: contextlib.ExitStack) -> None:
    """Puts a folder first on the search path of this process and of its children."""
    loaded = set(sys.modules)
    variable, path = os.environ.get("PYTHONPATH"), str(site)
    os.environ["PYTHONPATH"] = os.pathsep.join([path, variable] if variable else [path])
    sys.path.insert(0, path)
    importlib.invalidate_caches()  # a finder trusts a folder's time stamp, which is coarser than a test

    def restore() -> None:
        with contextlib.suppress(ValueError):
            sys.path.remove(path)
        if variable is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = variable
        for name in set(sys.modules) - loaded:
            file = getattr(sys.modules[name], "__file__", None)
            if isinstance(file, str) and Path(os.path.realpath(file)).is_relative_to(site):
                del sys.modules[name]
        importlib.invalidate_caches()

    undo.callback(restore)
