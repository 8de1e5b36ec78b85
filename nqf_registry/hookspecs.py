"""The three hooks of a plugin and the pluggy markers for them.

Each hook gets a callback; the library keeps the books. A plugin implements what it needs:

>>> import nqf_registry as nqf
>>> @nqf.hookimpl
... def nqf_register(register):
...     register(MyLayer)  # a subclass of nqf.Layer
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    import click

    from nqf_registry.layer import Layer

PROJECT = "nqf_registry"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def nqf_register(register: "Callable[[type[Layer]], None]") -> None:
    """Register layers: call ``register(LayerClass)`` once for each class, not for an instance."""


@hookspec
def nqf_register_commands(register: "Callable[[click.Command], None]") -> None:
    """Add verbs to ``nqf``: call ``register(command)``; the verb is the name of the click command."""


@hookspec
def nqf_register_data(register: "Callable[[str, Callable[..., Any]], None]") -> None:
    """Add data sets: call ``register(name, loader)`` with ``loader(layer, **options) -> nqf.Data``.

    The first line of the loader's docstring is what listings say of the data set.
    """
