"""What the verbs share: options, the registry they work on, layers by key, and JSON output."""

import dataclasses
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from nqf_registry.cli.streams import document, document_stdout
from nqf_registry.discovery import environment_plugins
from nqf_registry.errors import InvalidInput, PluginError, UnknownKey
from nqf_registry.registry import Registry, broken_files

if TYPE_CHECKING:
    from nqf_registry.layer import Layer

_DOCUMENT = f"{__name__}.document"  # where the context keeps what writes to stdout

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class Settings:
    """What was said before and after the verb, and the registry that follows from it."""

    plugins: list[str] = field(default_factory=list)
    debug: bool = False
    _registry: Registry | None = None

    def registry(self) -> Registry:
        """The registry of installed plugins, of ``NQF_PLUGINS`` and of every ``--plugin``, made at its first use.

        A broken file of ``NQF_PLUGINS`` is named on stderr and left out.

        Raises:
            PluginError: a file given by ``--plugin`` cannot be used.
        """
        environment = environment_plugins()
        if self._registry is None:
            self._registry = Registry.discover(environment)
            for line in broken_files(self._registry, environment):
                click.echo(f"Warning: {line}", err=True)
        self._registry = self._registry.extended(self.plugins)
        for line in broken_files(self._registry, self.plugins):
            raise PluginError(line.replace("was left out", "cannot be used"))
        return self._registry


def settings_of(context: click.Context) -> Settings:
    """The settings of this call of ``nqf``; fresh ones where a verb is invoked by itself."""
    settings = context.find_object(Settings)
    if settings is None:
        settings = context.find_root().obj = Settings()
    return settings


def _add_plugins(context: click.Context, _: click.Parameter, value: tuple[str, ...]) -> None:
    if value and not context.resilient_parsing:
        settings_of(context).plugins += [path for path in value if path not in settings_of(context).plugins]


def _keep_stdout(context: click.Context, _: click.Parameter, value: bool) -> bool:
    """From here to the end of the verb stdout belongs to ``print_json``, whatever a layer prints."""
    if value and not context.resilient_parsing:
        context.meta[_DOCUMENT] = context.with_resource(document_stdout())
    return value


def _set_debug(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not context.resilient_parsing:
        settings_of(context).debug = True


_PLUGIN = click.option(
    "--plugin",
    multiple=True,
    metavar="FILE",
    expose_value=False,
    is_eager=True,
    callback=_add_plugins,
    help="Add the layers of a Python file; repeatable, before or after the verb.",
)
_DEBUG = click.option(
    "--debug", is_flag=True, expose_value=False, is_eager=True, callback=_set_debug, help="Show the traceback of an error."
)


def plugin_option(function: F) -> F:
    """Adds ``--plugin FILE`` and ``--debug``, which every verb takes; they pass no argument to the function."""
    return _PLUGIN(_DEBUG(function))


def json_option(function: F) -> F:
    """Adds ``--json``, passed to the function as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, is_eager=True, callback=_keep_stdout, help="Print JSON.")(function)


def size_option(function: F) -> F:
    """Adds ``--set NAME=VALUE``, repeatable, passed to the function as ``sizes`` (a tuple of texts; see ``resolve_layer``)."""
    return click.option(
        "--set",
        "sizes",
        multiple=True,
        metavar="NAME=VALUE",
        help="Set a size or choice of the layer, such as width=32; repeatable.",
    )(function)


def pass_registry(function: Callable[..., Any]) -> Callable[..., Any]:
    """Passes the registry of this call as the first argument."""

    @click.pass_context
    @functools.wraps(function)
    def call(context: click.Context, /, *args: Any, **kwargs: Any) -> Any:
        return context.invoke(function, settings_of(context).registry(), *args, **kwargs)

    return call


def resolve_layer(registry: Registry, key: str, sizes: Iterable[str] = ()) -> "Layer":
    """The layer of a key, with sizes given as ``NAME=VALUE``.

    Raises:
        NQFError: as ``Registry.get`` and ``parse_sizes`` do.
    """
    sizes = tuple(sizes)
    if not sizes:
        return registry.get(key)
    from nqf_registry.sizes import parse_sizes

    return registry.get(key, **parse_sizes(registry.layer_class(key), sizes))


def resolve_layers(registry: Registry, targets: Sequence[str], sizes: Iterable[str] = ()) -> "list[Layer]":
    """The layers that a command line names: keys, ``all``, or plugin files; each layer once, in the order given.

    Raises:
        NQFError: a key is unknown or contested, a file cannot be used, or a size does not fit.
    """
    sizes = tuple(sizes)
    keys: dict[str, None] = {}
    for target in targets:
        if target == "all":
            keys |= dict.fromkeys(registry.keys())
        elif Path(target).is_dir() and target not in registry.keys():
            raise UnknownKey(
                f"{target!r} is a folder; name the plugin file in it that registers the layer, or a key.{_files(target)}"
            )
        elif target.endswith(".py") or Path(target).is_file():
            registry = registry.extended([target])
            for line in broken_files(registry, [target]):
                raise PluginError(line.replace("was left out", "cannot be used"))
            found = registry.keys_of(target)
            if not found:
                raise UnknownKey(f"the plugin {target} registers no layer; it needs a function nqf_register(register)")
            keys |= dict.fromkeys(found)
        else:
            registry.layer_class(target)  # an unknown key is told before any work begins
            keys[target] = None
    if sizes and len(keys) > 1:
        _require_common(registry, keys, sizes)
    return [resolve_layer(registry, key, sizes) for key in keys]


def _files(folder: str) -> str:
    """The first Python files of a folder, as a hint."""
    try:
        names = sorted(path.name for path in Path(folder).glob("*.py") if path.name != "__init__.py")
    except OSError:
        return ""
    return f" It has {', '.join(names[:3])}{', …' * (len(names) > 3)}." if names else ""


def _require_common(registry: Registry, keys: Iterable[str], sizes: Iterable[str]) -> None:
    """Refuses a size that some of several layers have and others do not."""
    fields = {key: {field.name for field in dataclasses.fields(registry.layer_class(key))} for key in keys}  # type: ignore[arg-type]
    for text in sizes:
        name = text.partition("=")[0].strip()
        having = [key for key, names in fields.items() if name in names]
        if name and having and len(having) < len(fields):
            lacking = [key for key in fields if key not in having]
            raise InvalidInput(
                f"--set goes to every layer named, and {name} is no size of {_some(lacking)}; of the {len(fields)} layers "
                f"{len(having)} have it: {_some(having)}. Name those, or leave it out."
            )


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:4]) + f" and {len(names) - 4} more" * (len(names) > 4)


def print_json(obj: Any) -> None:
    """Print one JSON document to stdout. Numbers that JSON does not have (nan, inf) are refused."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    context = click.get_current_context(silent=True)
    text = document(obj, encoding) + "\n"
    write = context.meta.get(_DOCUMENT) if context else None
    if write is None:
        click.echo(text, nl=False)
    else:
        write(text.encode(encoding))


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows of texts in columns, two spaces apart."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
