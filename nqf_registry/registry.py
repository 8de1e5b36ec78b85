"""The registry: which layers, commands and data sets there are, whose they are, and what is wrong with the rest."""

import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nqf_registry.discovery import Source, environment_plugins, file_source, installed_sources
from nqf_registry.errors import ContestedKey, InvalidInput, NQFError, PluginError, UnknownKey, named, one_line
from nqf_registry.metadata import Metadata, recall, remember
from nqf_registry.spelling import did_you_mean

if TYPE_CHECKING:
    import click

    from nqf_registry.layer import Layer
    from nqf_registry.loading import Plugin


@dataclass(frozen=True)
class Entry:
    """One registered name: a layer's key, a command or a data set.

    Attributes:
        key: the name.
        title: the layer's title, the command's short help, or the first docstring line of the data set's loader.
        plugin: name of the entry point, or the path of the plugin file.
        distribution: name of the installed distribution, "" for a plugin file.
        version: its version, "" for a plugin file.
        file: the plugin's module file.
    """

    key: str
    title: str
    plugin: str
    distribution: str
    version: str
    file: str


@dataclass(frozen=True)
class Failure:
    """One plugin that cannot be used, or one key that it cannot have.

    Attributes:
        plugin: name of the entry point, or the path of the plugin file.
        distribution: name of the installed distribution, "" for a plugin file.
        stage: "import", "registration", "hook" or "validation": the whole plugin is out. "contested": only one name is.
        error: what was raised.
        message: one line about it.
        file: the plugin's module file, "" where it was not found.
    """

    plugin: str
    distribution: str
    stage: str
    error: BaseException
    message: str
    file: str = ""


class Registry:
    """Every plugin that was found, each imported only when something of it is asked for.

    ``Registry.load`` makes one. A plugin that fails at import, at registration or at validation is quarantined whole: it is
    listed in ``failures``, and everything else works. A key that two plugins claim belongs to neither and is in ``contested``.

    >>> registry = Registry.load()
    >>> layer = registry.get("two-layer-mlp", width=32)
    >>> layer.width
    32
    """

    def __init__(self, sources: Iterable[Source]) -> None:
        self._sources: list[Source] = list(sources)
        self._metadata: dict[Source, Metadata] = {}
        self._plugins: dict[Source, Plugin] = {}
        self._failed: dict[Source, Failure] = {}
        # What is in none of the three is not known yet; `_complete` sees to it.
        for source in self._sources:
            metadata = recall(source)
            if metadata is not None:
                self._metadata[source] = metadata

    @classmethod
    def load(
        cls, plugins: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]" = (), entry_points: bool = True
    ) -> "Registry":
        """Find the plugins and read what is known of them.

        An installed plugin that was never seen before, or has changed since, is imported at the first question about layers.
        A file given here is looked at now: one that cannot be used gives a warning that names it, and is in ``failures``.

        Args:
            plugins: path of a plugin file, or several. One that is the module file of an installed plugin is that plugin.
            entry_points: whether installed plugins are looked for.

        Raises:
            InvalidInput: ``plugins`` is neither a path nor a collection of paths.
        """
        files = plugin_files(plugins)
        registry = cls.discover(files, entry_points)
        for line in broken_files(registry, files):
            warnings.warn(line, stacklevel=2)
        return registry

    @classmethod
    def discover(cls, files: Iterable[str | os.PathLike[str]], entry_points: bool = True) -> "Registry":
        """As ``load``, without a warning: for those who tell in another way which files are broken."""
        sources = installed_sources() if entry_points else []
        known = {source.file for source in sources if source.file}
        for path in files:
            source = file_source(path)
            if source.file not in known:
                known.add(source.file)
                sources.append(source)
        return cls(sources)

    def extended(self, plugins: Iterable[str | os.PathLike[str]]) -> "Registry":
        """A registry with further plugin files; what this one has imported is not imported again."""
        known = {source.file for source in self._sources if source.file}
        extra = [source for source in dict.fromkeys(map(file_source, plugin_files(plugins))) if source.file not in known]
        if not extra:
            return self
        registry = Registry(extra)
        registry._sources = [*self._sources, *extra]
        registry._metadata |= self._metadata
        registry._plugins |= self._plugins
        registry._failed |= self._failed
        return registry

    # ------------------------------------------------------------------------------------------------------------ layers

    def keys(self) -> list[str]:
        """The keys of all layers that can be had, sorted."""
        return self._names("layers")

    def entries(self) -> list[Entry]:
        """Every layer that can be had, sorted by key, from metadata alone."""
        return self._entries("layers")

    def get(self, key: str, /, **sizes: Any) -> "Layer":
        """The layer of this key, with the given sizes in place of its defaults.

        Raises:
            UnknownKey: no plugin registered the key.
            ContestedKey: several did.
            PluginError: the plugin that had it can no longer be imported.
            InvalidInput: a size is unknown, has the wrong type, or makes no valid layer.
        """
        from nqf_registry.sizes import make_layer

        return make_layer(self.layer_class(key), sizes)

    def layer_class(self, key: str) -> "type[Layer]":
        """The class registered under a key; raises as ``get`` does."""
        return self._lookup("layers", key)

    def layers(self) -> "list[Layer]":
        """Every layer that can be had, at its default sizes, sorted by key. Imports all plugins; see ``failures`` after."""
        self.import_all()
        return [self.get(key) for key in self.keys()]

    @property
    def contested(self) -> dict[str, list[str]]:
        """The keys that several plugins claim, each with those plugins."""
        return self._contested("layers")

    # --------------------------------------------------------------------------------------------- commands and data sets

    def commands(self) -> list[Entry]:
        """The commands that plugins add to ``nqf``, sorted by name, from metadata alone.

        The verbs of the library itself are built in, so plugins of its own distribution are not imported for this:
        ``nqf --help`` is quick the first time too.
        """
        return self._entries("commands")

    def command(self, name: str) -> "click.Command":
        """The click command of this name; raises as ``get`` does."""
        return self._lookup("commands", name)

    def data_sets(self) -> list[Entry]:
        """The data sets that plugins add, sorted by name, from metadata alone."""
        return self._entries("data")

    def data_set(self, name: str) -> Callable[..., Any]:
        """The loader of this data set, called as ``loader(layer, **options)``; raises as ``get`` does."""
        return self._lookup("data", name)

    # ----------------------------------------------------------------------------------------------------------- plugins

    @property
    def failures(self) -> list[Failure]:
        """What is wrong: each quarantined plugin, and each claim to a contested name.

        A plugin known from metadata is not imported for this; ``import_all`` makes the list complete.
        """
        self._complete("layers")
        failures = [self._failed[source] for source in self._sources if source in self._failed]
        for kind in _KINDS:
            for name, sources in self._claims(kind).items():
                if len(sources) > 1:
                    error = _contest(kind, name, sources)
                    failures += [_failure(source, "contested", error) for source in sources]
        return failures

    def failures_of(self, files: Iterable[str | os.PathLike[str]]) -> list[Failure]:
        """The failures of these plugin files alone; no other plugin is imported for it."""
        wanted = {file_source(file).file for file in files}
        chosen = [source for source in self._sources if source.file in wanted]
        for source in chosen:
            if source not in self._metadata:
                self._import(source)
        return [self._failed[source] for source in chosen if source in self._failed]

    def plugins(self) -> list[tuple[Source, Metadata | None]]:
        """Every plugin that was found, with what it registers, or None where it failed."""
        self._complete("layers")
        return [(source, self._metadata.get(source)) for source in self._sources]

    def import_all(self) -> None:
        """Import every plugin that is not imported yet."""
        for source in self._sources:
            self._import(source)

    def keys_of(self, path: str | os.PathLike[str]) -> list[str]:
        """The keys that the plugin of this file claims, contested ones among them, sorted.

        Raises:
            PluginError: the file is no plugin of this registry, or its plugin failed.
        """
        file = file_source(path).file
        for source in self._sources:
            if source.file == file:
                if source not in self._metadata and self._import(source) is None:
                    raise self._unusable(source)
                return sorted(self._metadata[source].layers)
        raise PluginError(f"{path} is no plugin of this registry; load it with Registry.load(plugins=[...])")

    # ---------------------------------------------------------------------------------------------------------- internals

    def _import(self, source: Source) -> "Plugin | None":
        if source in self._plugins or source in self._failed:
            return self._plugins.get(source)
        from nqf_registry.loading import Quarantined, load

        try:
            plugin = load(source)
        except Quarantined as quarantined:
            self._metadata.pop(source, None)
            self._failed[source] = _failure(source, quarantined.stage, quarantined.error)
            return None
        self._plugins[source] = plugin
        self._metadata[source] = plugin.metadata
        remember(source, plugin.metadata, plugin.files)
        return plugin

    def _complete(self, kind: str) -> None:
        """Import what is not known yet, as far as it can have names of this kind."""
        for source in self._sources:
            if source not in self._metadata and not (kind == "commands" and source.distribution == _LIBRARY):
                self._import(source)

    def _claims(self, kind: str) -> dict[str, list[Source]]:
        self._complete(kind)
        claims: dict[str, list[Source]] = {}
        for source in self._sources:
            if source in self._metadata:
                for name in getattr(self._metadata[source], kind):
                    claims.setdefault(name, []).append(source)
        return dict(sorted(claims.items()))

    def _names(self, kind: str) -> list[str]:
        return [name for name, sources in self._claims(kind).items() if len(sources) == 1]

    def _contested(self, kind: str) -> dict[str, list[str]]:
        return {name: list(map(str, sources)) for name, sources in self._claims(kind).items() if len(sources) > 1}

    def _entries(self, kind: str) -> list[Entry]:
        return [
            Entry(
                name, getattr(self._metadata[source], kind)[name], source.name, source.distribution, source.version, source.file
            )
            for name, (source, *others) in self._claims(kind).items()
            if not others
        ]

    def _lookup(self, kind: str, name: str) -> Any:
        sources = self._claims(kind).get(name, [])
        if len(sources) > 1:
            raise _contest(kind, name, sources)
        if not sources:
            raise self._unknown(kind, name)
        plugin = self._import(sources[0])
        if plugin is None:
            raise self._unusable(sources[0])
        try:
            return getattr(plugin, kind)[name]
        except KeyError:
            # The metadata were stale in a way that sizes and times do not show: the plugin decides at import what it registers.
            raise self._unknown(kind, name) from None

    def _unknown(self, kind: str, name: str) -> UnknownKey:
        noun, listing = _KINDS[kind]
        known = self._names(kind)
        failed = len(self._failed)
        quarantined = f" {failed} plugin{'s' * (failed != 1)} failed to load; see `nqf plugins`." if failed else ""
        if not isinstance(name, str):
            return UnknownKey(f"expected the name of a {noun} as a string, got {name!r}.")
        return UnknownKey(f"no {noun} {name!r} is registered.{did_you_mean(name, known)} {listing} {_FROM_A_FILE}{quarantined}")

    def _unusable(self, source: Source) -> PluginError:
        failure = self._failed[source]
        error = PluginError(f"the plugin {source} cannot be used: it failed at {failure.stage}: {failure.message}")
        error.__cause__ = failure.error
        return error


_LIBRARY = __name__.partition(".")[0]

_FROM_A_FILE = "If it is in a file, name the file: --plugin FILE, or in Python Registry.load(plugins=[FILE])."

# What each kind of name is called in messages, and how to list them.
_KINDS = {
    "layers": ("layer", "`nqf list` shows all layers."),
    "commands": ("command", "`nqf --help` shows all commands."),
    "data": ("data set", "`registry.data_sets()` shows those that plugins add."),
}


def default_registry() -> Registry:
    """A new registry of every installed plugin and of the files that ``NQF_PLUGINS`` names.

    A file of ``NQF_PLUGINS`` that cannot be used gives a warning that names it.
    """
    files = environment_plugins()
    registry = Registry.discover(files)
    for line in broken_files(registry, files):
        warnings.warn(line, stacklevel=2)
    return registry


def plugin_files(plugins: Any) -> list[str]:
    """Paths of plugin files from one path or several.

    Raises:
        InvalidInput: it is neither.
    """
    given = [plugins] if isinstance(plugins, str | os.PathLike) else plugins
    if not isinstance(given, Iterable) or isinstance(given, bytes):
        raise InvalidInput(f'plugins must be paths of Python files, such as ["my_layers.py"]; got {given!r}.')
    files = list(given)
    for path in files:
        if not isinstance(path, str | os.PathLike):
            raise InvalidInput(f'plugins must be paths of Python files, such as ["my_layers.py"]; one of them is {path!r}.')
    return [os.fspath(path) for path in files]


def broken_files(registry: Registry, files: Iterable[str | os.PathLike[str]]) -> list[str]:
    """One line for each of these plugin files that was quarantined."""
    return [
        f"the plugin {failure.plugin} was left out: it failed at {failure.stage}: {failure.message}"
        for failure in registry.failures_of(files)
    ]


def _failure(source: Source, stage: str, error: BaseException) -> Failure:
    text = (one_line(error) if isinstance(error, NQFError) else "") or named(error)
    return Failure(source.name, source.distribution, stage, error, text, source.file)


def _contest(kind: str, name: str, sources: list[Source]) -> ContestedKey:
    noun = "key" if kind == "layers" else _KINDS[kind][0]
    return ContestedKey(
        f"the {noun} {name!r} is contested: it is claimed by {' and by '.join(map(str, sources))}, so neither has it; "
        f"remove one of the plugins or change the {noun} in one of them"
    )
