"""Importing one plugin and asking it what it registers. Whatever it does wrong ends here, as a ``Quarantined``."""

import contextlib
import hashlib
import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

from nqf_registry import hookspecs
from nqf_registry.discovery import Source
from nqf_registry.errors import PluginError
from nqf_registry.metadata import Metadata, describe
from nqf_registry.verbs import VERBS

if TYPE_CHECKING:
    import click

    from nqf_registry.layer import Layer

# The path of a plugin, in order. "registration" is pluggy taking its hooks, "hook" is calling them, "validation" is looking
# at what they registered.
STAGES = ("import", "registration", "hook", "validation")

_NAME = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


class Quarantined(Exception):
    """A plugin failed at one stage; nothing of what it registered before counts."""

    def __init__(self, stage: str, error: BaseException) -> None:
        super().__init__(stage, error)
        self.stage = stage
        self.error = error


@dataclass(frozen=True)
class Plugin:
    """What one plugin registered, all of it valid."""

    source: Source
    layers: "dict[str, type[Layer]]"
    commands: "dict[str, click.Command]"
    data: dict[str, Callable[..., Any]]
    metadata: Metadata
    files: tuple[str, ...]


def load(source: Source) -> Plugin:
    """Import a plugin, call its hooks and check what they register.

    What the plugin prints goes to stderr, so that it cannot spoil the output of a command.

    Raises:
        Quarantined: with the stage and whatever was raised there, ``SystemExit`` included. Only ``KeyboardInterrupt`` passes.
    """
    before = set(sys.modules)
    with contextlib.redirect_stdout(sys.stderr):
        with _stage("import"):
            target, module = _import_file(source) if source.is_file else _import_entry(source)
        with _stage("registration"):
            hooks = _hooks(source, target)
        with _stage("hook"):
            layers, commands, data = _call(hooks)
        with _stage("validation"):
            named = _named_layers(layers), _named_commands(commands), _named_data(data)
            metadata = describe(*named)
            registered = [*layers, *(command.callback for command in commands), *(loader for _, loader in data)]
            files = _files(source, module, set(sys.modules) - before, registered)
    return Plugin(source, *named, metadata, files)


@contextlib.contextmanager
def _stage(name: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin that calls sys.exit() must not end the program
        raise Quarantined(name, error) from error


# ---------------------------------------------------------------------------------------------------------------- import


def _import_entry(source: Source) -> tuple[Any, str]:
    name, _, attributes = source.value.partition(":")
    name = name.strip()
    target: Any = importlib.import_module(name)
    for attribute in filter(None, attributes.partition("[")[0].strip().split(".")):
        target = getattr(target, attribute)
    if target is None:
        raise PluginError(
            f"the entry point {source.name!r} refers to {source.value!r}, which is None; expected a module or an object with "
            "functions marked @nqf.hookimpl"
        )
    return target, name


class _FreshLoader(SourceFileLoader):
    """Compiles the source each time: bytecode caches compare whole seconds, so a quick edit of equal length would be missed."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _import_file(source: Source) -> tuple[ModuleType, str]:
    path = Path(source.file)
    if not path.is_file():
        found = "a directory" if path.is_dir() else "nothing"
        raise PluginError(f"expected a Python file at {path}, found {found} there")
    if path.suffix != ".py":
        raise PluginError(f"expected a Python file whose name ends in .py, got {path}")
    stat = path.stat()
    # The same unchanged file is the same module, so that its classes are the same objects in two registries.
    mark = hashlib.sha256(f"{path}\0{stat.st_mtime_ns}\0{stat.st_size}".encode(errors="surrogatepass")).hexdigest()[:12]
    name = f"nqf_plugin_{re.sub(r'[^a-zA-Z0-9]', '_', path.stem)}_{mark}"
    if name in sys.modules:
        return sys.modules[name], name
    spec = spec_from_file_location(name, path, loader=_FreshLoader(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # before execution: dataclasses look their own module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module, name


# ----------------------------------------------------------------------------------------------------------------- hooks


def _hooks(source: Source, target: Any) -> pluggy.PluginManager:
    """A plugin manager of this plugin alone, so that an error in one cannot touch another."""
    hooks = pluggy.PluginManager(hookspecs.PROJECT)
    hooks.add_hookspecs(hookspecs)
    hooks.register(target, source.name)
    hooks.check_pending()  # a misspelt hook would otherwise never be called, and nobody would know
    if not hooks.get_hookcallers(target):
        raise PluginError(
            f"no hook in {source.value}; expected at least one function nqf_register(register), "
            "nqf_register_commands(register) or nqf_register_data(register) marked @nqf.hookimpl"
        )
    return hooks


def _call(hooks: pluggy.PluginManager) -> tuple[list[Any], list[Any], list[tuple[Any, Any]]]:
    layers: list[Any] = []
    commands: list[Any] = []
    data: list[tuple[Any, Any]] = []
    hooks.hook.nqf_register(register=layers.append)
    hooks.hook.nqf_register_commands(register=commands.append)
    hooks.hook.nqf_register_data(register=lambda name, loader: data.append((name, loader)))
    return layers, commands, data


# ------------------------------------------------------------------------------------------------------------ validation


def _named_layers(layers: list[Any]) -> "dict[str, type[Layer]]":
    if not layers:
        return {}
    from nqf_registry.layer_validation import validate_layer_class  # imports torch

    for cls in layers:
        validate_layer_class(cls)
    return _unique([(cls.key, cls) for cls in layers], "key")


def _named_commands(commands: list[Any]) -> "dict[str, click.Command]":
    if not commands:
        return {}
    import click

    for command in commands:
        if not isinstance(command, click.Command):
            raise PluginError(f"expected a click command, got {command!r}; decorate the function with @click.command()")
        if not isinstance(command.name, str) or not _NAME.fullmatch(command.name):
            raise PluginError(f"expected a command named by lower-case words joined by hyphens, got {command.name!r}")
        if command.name in VERBS:
            raise PluginError(f"the command name {command.name!r} belongs to nqf itself; choose another")
    return _unique([(command.name, command) for command in commands], "command")


def _named_data(data: list[tuple[Any, Any]]) -> dict[str, Callable[..., Any]]:
    for name, loader in data:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise PluginError(f"expected a data set named by lower-case words joined by hyphens, got {name!r}")
        if not callable(loader):
            raise PluginError(f"expected a function loader(layer, **options) for the data set {name!r}, got {loader!r}")
    return _unique(data, "data set")


def _unique(pairs: list[tuple[str, Any]], kind: str) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        twice = next(name for name, _ in pairs if [other for other, _ in pairs].count(name) > 1)
        raise PluginError(f"the plugin registers the {kind} {twice!r} twice; give each its own name")
    return named


# ----------------------------------------------------------------------------------------------------------------- files


def _files(source: Source, module: str, fresh: set[Any], registered: list[Any]) -> tuple[str, ...]:
    """The plugin's own files: a change in any of them makes cached metadata stale.

    These are its module and the packages above it, the modules of its top-level package that were imported with it, and those
    that define the registered classes and what they inherit.
    """
    top = module.partition(".")[0]
    # A plugin may put anything into sys.modules and into __file__.
    own = (name for name in fresh if isinstance(name, str) and (name == top or name.startswith(top + ".")))
    names = {module, *_parents(module), *own}
    for thing in registered:
        for part in getattr(thing, "__mro__", (thing,)):
            names.add(str(getattr(part, "__module__", "")))
    library = hookspecs.__name__.partition(".")[0]
    files = {source.file}
    for name in names - set(sys.builtin_module_names):
        if name.partition(".")[0] != library:
            file = getattr(sys.modules.get(name), "__file__", None)
            if isinstance(file, str) and "\0" not in file:
                files.add(file)
    return tuple(sorted(os.path.realpath(file) for file in files if file))


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts))]
