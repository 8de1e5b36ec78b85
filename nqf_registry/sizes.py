"""The sizes of a layer as a user gives them: names and types checked before the layer is made, texts read by type."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from nqf_registry.errors import InvalidInput, one_line
from nqf_registry.spelling import did_you_mean

if TYPE_CHECKING:
    from nqf_registry.layer import Layer

_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a word"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def make_layer(cls: "type[Layer]", sizes: Mapping[str, Any]) -> "Layer":
    """An instance of a layer class with some of its sizes given.

    Raises:
        InvalidInput: a size is unknown, has the wrong type, or makes no valid layer.
    """
    from nqf_registry.layer_validation import validate_layer

    hints = _hints(cls)
    checked = {name: _checked(cls, name, value, _hint(cls, hints, name)) for name, value in sizes.items()}
    try:
        layer = cls(**checked)
        validate_layer(layer)
    except Exception as error:  # a layer may refuse its sizes in any way
        given = ", ".join(f"{name}={_shown(value)}" for name, value in checked.items())
        raise InvalidInput(f"{cls.key} cannot be made with {given or 'its default sizes'}: {one_line(error)}") from error
    return layer


def parse_sizes(cls: "type[Layer]", assignments: Iterable[str]) -> dict[str, Any]:
    """Read sizes written as ``NAME=VALUE``, each by the type of its field.

    Lists are written with commas: ``shape=3,4``. ``none`` is None where the field allows it.

    Raises:
        InvalidInput: a text is no assignment, names no size, or its value does not fit.
    """
    hints = _hints(cls)
    sizes: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise InvalidInput(f"expected a size as NAME=VALUE, such as width=32, got {text!r}")
        if name in sizes:
            raise InvalidInput(f"the size {name!r} is given twice; give it once")
        hint = _hint(cls, hints, name)
        try:
            sizes[name] = _parse(value.strip(), hint)
        except ValueError:
            raise InvalidInput(f"{cls.key}: the size {name} expects {_expected(hint)}, got {_shown(value)}") from None
    return sizes


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    """The fields of a layer class. The base class is no dataclass, so its subclasses are not known to be."""
    return dataclasses.fields(cls)


def _hints(cls: "type[Layer]") -> dict[str, Any]:
    """The type of every size that can be set; where an annotation cannot be resolved, the type of the default."""
    try:
        resolved = typing.get_type_hints(cls)
    except Exception:
        resolved = {}
    return {field.name: resolved.get(field.name, type(field.default)) for field in _fields(cls) if field.init}


def _hint(cls: "type[Layer]", hints: dict[str, Any], name: str) -> Any:
    if name in hints:
        return hints[name]
    for field in _fields(cls):
        if field.name == name:
            raise InvalidInput(f"{cls.key}: the size {name} is fixed at {field.default!r} and cannot be set")
    defaults = {field.name: field.default for field in _fields(cls) if field.init}
    listed = ", ".join(f"{field}={default!r}" for field, default in defaults.items())
    raise InvalidInput(
        f"{cls.key} has no size {name!r}.{did_you_mean(name, hints)} Its sizes, with their defaults: {listed or 'none'}"
    )


def _checked(cls: "type[Layer]", name: str, value: Any, hint: Any) -> Any:
    try:
        return _fit(value, hint)
    except ValueError:
        raise InvalidInput(f"{cls.key}: the size {name} expects {_expected(hint)}, got {_shown(value)}") from None


def _fit(value: Any, hint: Any) -> Any:
    """The value itself where it has the type, an int as a float where that is wanted; unknown kinds of type pass."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _first(lambda argument: _fit(value, argument), arguments)
    if origin is typing.Literal:
        return _member(value, arguments)
    if hint is int:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise ValueError
        return value.__index__()
    if hint is float:
        if isinstance(value, (bool, str)) or not hasattr(value, "__float__"):
            raise ValueError
        return float(value)
    plain = origin or hint
    if plain in (bool, str, tuple) and not isinstance(value, plain):
        if plain is tuple and isinstance(value, list):  # what JSON and YAML make of a tuple
            return tuple(value)
        raise ValueError
    if plain is types.NoneType and value is not None:
        raise ValueError
    return value


def _parse(text: str, hint: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        # None first: a field of type `str | None` would otherwise read "none" as a word.
        return _first(lambda argument: _parse(text, argument), sorted(arguments, key=lambda kind: kind is not types.NoneType))
    if origin is typing.Literal:
        return {str(choice): choice for choice in arguments}[_member(text, [str(choice) for choice in arguments])]
    if hint is types.NoneType:
        if text.lower() != "none":
            raise ValueError
        return None
    if hint is bool:
        return _TRUTH[_member(text.lower(), _TRUTH)]
    if (origin or hint) in (tuple, list):
        kinds = [kind for kind in arguments if kind is not ...] or [str]
        parts = [part.strip() for part in text.strip("()[] ").split(",") if part.strip()]
        return (origin or hint)(_parse(part, kinds[min(place, len(kinds) - 1)]) for place, part in enumerate(parts))
    if hint in (int, float, str):
        return hint(text)
    raise ValueError


def _shown(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= 10**40:  # Python refuses to write out very long ones
        return "a number of more than 40 digits"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _first(read: Any, kinds: Iterable[Any]) -> Any:
    for kind in kinds:
        try:
            return read(kind)
        except ValueError:
            continue
    raise ValueError


def _member(value: Any, choices: Iterable[Any]) -> Any:
    if value not in list(choices):
        raise ValueError
    return value


def _expected(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return "one of " + ", ".join(map(str, arguments))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_expected(kind) for kind in arguments)
    if hint is types.NoneType:
        return "none"
    return _WORDS.get(hint, f"a value of type {getattr(hint, '__name__', hint)}")
