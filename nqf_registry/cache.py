"""A folder for what can be computed again: JSON files, written whole or not at all.

Nothing here may break a command: where the folder cannot be written or a file in it is damaged, the answer is "not cached".
"""

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any


def cache_dir() -> Path:
    """The cache folder: ``$NQF_CACHE_DIR``, else ``$XDG_CACHE_HOME/nqf_registry``, else ``~/.cache/nqf_registry``.

    The folder need not exist; writing makes it.
    """
    if chosen := os.environ.get("NQF_CACHE_DIR"):
        return Path(chosen)
    # An unset HOME makes expanduser return the path as it is; the cache then lies below the working directory's "~",
    # which is never right, so the temporary folder is used.
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(tempfile.gettempdir() if base.startswith("~") else base) / "nqf_registry"


def read_json(name: str) -> Any | None:
    """What ``write_json`` stored under this name, or None where there is nothing readable.

    Args:
        name: path relative to the cache folder, such as ``"plugins/3f2a.json"``.
    """
    try:
        path = cache_dir() / name
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None  # reading a pipe would wait
    except (OSError, ValueError, RecursionError):
        return None


def write_json(name: str, obj: Any) -> bool:
    """Store an object under a name, atomically; returns whether it was stored.

    Readers see the old file or the new one, never a part: the text goes to a temporary file in the same folder that then
    takes the name.

    Args:
        name: path relative to the cache folder.
        obj: anything that ``json.dumps`` takes.
    """
    path = cache_dir() / name
    text = json.dumps(obj, sort_keys=True)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    except OSError:
        return False
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
    return True
