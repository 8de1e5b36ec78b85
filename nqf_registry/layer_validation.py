"""What a class must be to be registered as a layer. Mathematics is not looked at here; that is the verifier's work."""

import dataclasses
import enum
import inspect
import keyword
import math
import re
import unicodedata
from typing import Any

import torch

from nqf_registry.errors import LayerError, named
from nqf_registry.layer import Claims, Layer
from nqf_registry.references import Reference

MOST_WEIGHTS = 2**36  # of one layer or composition: 256 GiB in float32

_TEXTS = {
    "title": "a text, the layer's name for people",
    "formula": "LaTeX of f as a text",
    "structure_formula": "LaTeX of A(x) as a text",
    "convention": "a text, the readings taken",
    "notes": "a text",
}

_UNSHOWN = {"Cc", "Cs", "Zl", "Zp"}  # control characters, halves of surrogate pairs, line and paragraph separators

KEY = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def validate_layer_class(cls: Any) -> None:
    """Check that a class keeps the contract of ``nqf.Layer``, with the sizes that it has by default.

    Raises:
        LayerError: naming the class, what was expected, what came, and what to write.
    """
    if not isinstance(cls, type):
        hint = f"register the class: register({type(cls).__name__})" if isinstance(cls, Layer) else "pass a class"
        raise LayerError(f"expected a subclass of nqf.Layer, got the {type(cls).__name__} {_shown(cls)}; {hint}")
    if not issubclass(cls, Layer) or cls is Layer:
        raise LayerError(f"expected a subclass of nqf.Layer, got the class {cls.__name__}; derive it from nqf.Layer")
    name = cls.__name__
    key = getattr(cls, "key", None)
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise LayerError(f"{name}.key must be lower-case words joined by hyphens, such as 'two-layer-mlp'; got {_shown(key)}")
    if not isinstance(cls.title, str):
        raise LayerError(f"{name}.title must be {_TEXTS['title']}; got {_shown(cls.title)}")
    _check_fields(cls)
    for method in ("blocks", "sample"):
        if not _overrides(cls, method):
            raise LayerError(f"{name} has no {method}(); define it as nqf.Layer describes")
    if not (_overrides(cls, "unit") or _overrides(cls, "forward")):
        raise LayerError(f"{name} has neither unit() nor forward(); define unit(w, x) for one neuron, or forward(W, x)")
    try:
        layer = cls()
    except Exception as error:
        why = f"{named(error)}"
        raise LayerError(f"{name}() cannot be made with no arguments ({why}); give every size a valid default") from error
    validate_layer(layer)


def validate_layer(layer: Layer) -> None:
    """Check the sizes of one instance: its width, its blocks and its claims.

    Raises:
        LayerError: naming the layer, what was expected and what came.
    """
    name = type(layer).__name__
    width = getattr(layer, "width", None)
    if not isinstance(width, int) or not _positive(width):
        raise LayerError(f"{name}.width must be a positive integer, the number of neurons; got {_shown(width)}")
    _check_texts(layer)
    try:
        blocks = layer.blocks()
    except Exception as error:
        raise LayerError(f"{name}.blocks() raised {named(error)}") from error
    if not isinstance(blocks, dict) or not blocks:
        raise LayerError(
            f"{name}.blocks() must be a dict of block names to shapes, such as {{'u': (8,)}}; got {_shown(blocks)}"
        )
    for block, shape in blocks.items():
        if not isinstance(block, str) or not block.isidentifier() or keyword.iskeyword(block):
            raise LayerError(f"{name}.blocks() must name its blocks by Python identifiers; got {_shown(block)}")
        if not isinstance(shape, tuple) or not all(map(_positive, shape)):
            raise LayerError(
                f"{name}.blocks()[{block!r}] must be a tuple of positive integers, the shape for ONE neuron, such as (8,); "
                f"got {_shown(shape)}"
            )
    p = sum(math.prod(shape) for shape in blocks.values())
    if width * p > MOST_WEIGHTS:
        raise LayerError(
            f"{name} would have width * p = {_count(width)} * {_count(p)} weights, more than the {MOST_WEIGHTS:,} that a layer "
            "may have; give it smaller sizes"
        )


def _check_texts(layer: Layer) -> None:
    """What the layer says of itself: claims, and texts that every table and terminal can show."""
    name = type(layer).__name__
    for attribute, what in _TEXTS.items():
        value = getattr(layer, attribute, None)
        if not isinstance(value, str):
            raise LayerError(f"{name}.{attribute} must be {what}; got {_shown(value)}")
        allowed = "" if attribute == "title" else "\n\t"
        wrong = next((letter for letter in value if letter not in allowed and unicodedata.category(letter) in _UNSHOWN), None)
        if wrong is not None:
            raise LayerError(
                f"{name}.{attribute} must be a text of letters that can be shown{'' if allowed else ', on one line'}; it holds "
                f"U+{ord(wrong):04X}, take it out"
            )
    if not isinstance(layer.references, tuple) or not all(isinstance(one, Reference) for one in layer.references):
        raise LayerError(f"{name}.references must be a tuple of nqf.Reference(...); got {_shown(layer.references)}")
    if not isinstance(layer.claims, Claims):
        raise LayerError(f"{name}.claims must be nqf.Claims(...); got {_shown(layer.claims)}")
    for field in dataclasses.fields(Claims):
        value = getattr(layer.claims, field.name)
        if not isinstance(value, bool):
            raise LayerError(f"{name}.claims.{field.name} must be True or False; got {_shown(value)}")


def _check_fields(cls: type[Layer]) -> None:
    """A class that forgot the decorator has annotations that are no fields: its sizes could not be set."""
    decorate = f"write @dataclass(frozen=True) above class {cls.__name__}"
    if not dataclasses.is_dataclass(cls):
        raise LayerError(f"{cls.__name__} must be a dataclass whose fields are its sizes; {decorate}")
    if not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise LayerError(
            f"{cls.__name__} is a dataclass that is not frozen; {decorate}, because what was measured of a layer is kept under "
            "its sizes, so they must not change"
        )
    fields = {field.name for field in dataclasses.fields(cls)}
    of_the_class = set(inspect.get_annotations(Layer)) - {"width"}  # key, claims, title, ...: annotating these is harmless
    for name, hint in inspect.get_annotations(cls).items():
        if name not in fields | of_the_class and "ClassVar" not in str(hint):
            raise LayerError(f"{cls.__name__}.{name} is annotated as a size but is no dataclass field; {decorate}")
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING and not _plain(field.default):
            raise LayerError(
                f"{cls.__name__}.{field.name} must have a default of plain data (numbers, texts, True, False, None, a torch "
                f"dtype, or tuples of these), which tells two layers apart in every process; got {_shown(field.default)}"
            )


def _plain(value: Any) -> bool:
    """Data whose repr says all of it, and the same in every process."""
    if isinstance(value, tuple | list | set | frozenset):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(map(_plain, (*value.keys(), *value.values())))
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype | enum.Enum)


def _overrides(cls: type[Layer], method: str) -> bool:
    own = getattr(cls, method, None)
    return callable(own) and own is not getattr(Layer, method, None)


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _count(number: int) -> str:
    return f"{number:,}" if number < 10**30 else f"{float(number):.3g}" if number < 10**300 else "a number of over 300 digits"


def _shown(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an object of the plugin's own
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else text[:77] + "..."
