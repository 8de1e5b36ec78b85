"""How a layer is named where an example is measured again: on a command line, or in Python where no command finds it."""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import sys
from typing import Any

from nqf_registry.layer import Layer
from nqf_registry.verify.report import replay_command


def replay_line(layer: Layer, example: str) -> str:
    """What measures an example of a layer again: a command, or a line of Python.

    A command names a layer by its key where an installed plugin registers its class, and by its file where that registers it.
    A class that nothing registers, or a size that cannot be typed, is in the hands of whoever made it in Python only.
    """
    target = _found_as(layer)
    sizes = sizes_typed(layer)
    if target is None or sizes is None:
        return f"nqf.replay(layer, {example!r})"
    return replay_command(f"{target}{sizes}", example)


def target_of(layer: Layer) -> str:
    """What names a layer of an installed plugin: its key, and ``--set`` for what differs from the defaults and can be typed.

    >>> import nqf_registry as nqf
    >>> target_of(nqf.default_registry().get("quadratic-network", width=3))
    'quadratic-network --set width=3'
    """
    return " ".join([layer.key, *_settings(layer)[0]])


def sizes_typed(layer: Layer) -> str | None:
    """The ``--set`` of a layer's sizes, each after a space; None where one cannot be typed."""
    words, whole = _settings(layer)
    return "".join(f" {word}" for word in words) if whole else None


def _settings(layer: Layer) -> tuple[list[str], bool]:
    """``--set NAME=VALUE`` for what differs from the defaults, and whether that is all that does."""
    words: list[str] = []
    whole = True
    for field in dataclasses.fields(layer):  # type: ignore[arg-type]
        value = getattr(layer, field.name)
        default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        if not field.init or _is(value, default):
            continue
        if _is_typed(value):
            words += ["--set", shlex.quote(f"{field.name}={_typed(value)}")]
        else:
            whole = False
    return words, whole


def _found_as(layer: Layer) -> str | None:
    """The key of an installed class, the key and the file of one that its own file registers; None of any other."""
    from nqf_registry.registry import default_registry

    cls = type(layer)
    with contextlib.suppress(Exception):  # no such key, a contested one, or a plugin that cannot be imported
        registry = default_registry()
        if layer.key in registry.keys() and registry.layer_class(layer.key) is cls:
            return layer.key
    module: Any = sys.modules.get(cls.__module__)
    file, hook = getattr(module, "__file__", None), getattr(module, "nqf_register", None)
    registered: list[Any] = []
    with contextlib.suppress(Exception):  # a hook may do anything
        if file and hook is not None:
            hook(registered.append)
    return f"{layer.key} --plugin {shlex.quote(str(file))}" if any(other is cls for other in registered) else None


def _is(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except Exception:  # a size may compare in any way
        return False


def _is_typed(value: Any) -> bool:
    """Whether a size can be typed: numbers, words, and lists of them; a layer made in Python may have others."""
    if isinstance(value, list | tuple):
        return all(map(_is_typed, value))
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and value.isprintable())


def _typed(value: Any) -> str:
    """A size as ``--set`` reads it."""
    if isinstance(value, list | tuple):
        return ",".join(map(_typed, value))
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
