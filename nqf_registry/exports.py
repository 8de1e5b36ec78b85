"""A package whose public names are imported at their first use."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class LazyPackage(ModuleType):
    """The class that a package gives itself; it reads ``_EXPORTS``, the public names and the modules that hold them.

    An exported name stays what it is when a submodule of that name is imported: ``nqf.train`` is the function, and importing
    ``nqf_registry.train.loop`` would otherwise set it to the subpackage.
    """

    _EXPORTS: dict[str, str]

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and name in self._EXPORTS):
            super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name == "_EXPORTS" or name not in self._EXPORTS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self._EXPORTS[name]), name)
        super().__setattr__(name, value)
        return value

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._EXPORTS})
