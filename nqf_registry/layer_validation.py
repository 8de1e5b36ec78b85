"""What a class must be to be registered as a layer. Mathematics is not looked at here; that is the verifier's work."""

import dataclasses
import inspect
import keyword
import re
from typing import Any

from nqf_registry.errors import LayerError
from nqf_registry.layer import Claims, Layer

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
        raise LayerError(f"{name}.title must be a text, the layer's name for people; got {_shown(cls.title)}")
    _check_fields(cls)
    for method in ("blocks", "sample"):
        if not _overrides(cls, method):
            raise LayerError(f"{name} has no {method}(); define it as nqf.Layer describes")
    if not (_overrides(cls, "unit") or _overrides(cls, "forward")):
        raise LayerError(f"{name} has neither unit() nor forward(); define unit(w, x) for one neuron, or forward(W, x)")
    try:
        layer = cls()
    except Exception as error:
        raise LayerError(
            f"{name}() cannot be made with no arguments ({type(error).__name__}: {error}); give every size a valid default"
        ) from error
    validate_layer(layer)


def validate_layer(layer: Layer) -> None:
    """Check the sizes of one instance: its width, its blocks and its claims.

    Raises:
        LayerError: naming the layer, what was expected and what came.
    """
    name = type(layer).__name__
    width = getattr(layer, "width", None)
    if not _positive(width):
        raise LayerError(f"{name}.width must be a positive integer, the number of neurons; got {_shown(width)}")
    if not isinstance(layer.claims, Claims):
        raise LayerError(f"{name}.claims must be nqf.Claims(...); got {_shown(layer.claims)}")
    try:
        blocks = layer.blocks()
    except Exception as error:
        raise LayerError(f"{name}.blocks() raised {type(error).__name__}: {error}") from error
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


def _check_fields(cls: type[Layer]) -> None:
    """A class that forgot the decorator has annotations that are no fields: its sizes could not be set."""
    decorate = f"write @dataclass(frozen=True) above class {cls.__name__}"
    if not dataclasses.is_dataclass(cls):
        raise LayerError(f"{cls.__name__} must be a dataclass whose fields are its sizes; {decorate}")
    fields = {field.name for field in dataclasses.fields(cls)}
    of_the_class = set(inspect.get_annotations(Layer)) - {"width"}  # key, claims, title, ...: annotating these is harmless
    for name, hint in inspect.get_annotations(cls).items():
        if name not in fields | of_the_class and "ClassVar" not in str(hint):
            raise LayerError(f"{cls.__name__}.{name} is annotated as a size but is no dataclass field; {decorate}")


def _overrides(cls: type[Layer], method: str) -> bool:
    own = getattr(cls, method, None)
    return callable(own) and own is not getattr(Layer, method, None)


def _positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
