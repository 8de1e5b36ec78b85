"""What a layer's own code raised, in one sentence: the method, the file and the line, and what to write where that is known."""

from __future__ import annotations

import linecache
import re
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from nqf_registry.errors import named, one_line
from nqf_registry.layer import Layer

METHODS = ("sample", "blocks", "unit", "forward", "structure", "linear", "cross", "offset", "pullback", "encode", "variants")
_PRECISION = re.compile(r"same dtype|scalar type|\b(double|float)\b.*\b(double|float)\b", re.IGNORECASE)
PRECISION = "; verification runs in float64: make constants with x's dtype"
_SHAPES = re.compile(r"shape|size|dimension|subscript|broadcast", re.IGNORECASE)


def explain(error: BaseException, layer: Layer) -> str:
    """An exception as a sentence about the layer, or as ``named`` puts it where no line of the layer took part."""
    frames = _own_frames(error, layer)
    if not frames and error.__cause__ is not None:
        frames = _own_frames(error.__cause__, layer)
    if not frames:
        return named(error)
    frame, line = frames[-1]
    method = next((f.f_code.co_name for f, _ in frames if f.f_code.co_name in METHODS), frame.f_code.co_name)
    where = f"{Path(frame.f_code.co_filename).name}, line {line}"
    if isinstance(error, KeyError) and len(error.args) == 1:
        return f"{method} {_missing(error.args[0], frame, line, layer)} ({where})"
    return f"{method} raised {named(error)} ({where}){_hint(error, layer)}"


def about_precision(told: str) -> bool:
    """Whether what ``explain`` told is that tensors of two dtypes met: the layer may be right where all have one."""
    return told.endswith(PRECISION)


def about_inputs(told: str) -> bool:
    """Whether what kept a layer from being evaluated lies in what it draws or lists, so that f itself was not reached."""
    return told.startswith(("sample ", "variants "))


def _own_frames(error: BaseException, layer: Layer) -> list[tuple[FrameType, int]]:
    """The frames in the files that define the layer's class and its bases, outermost first."""
    modules = {cls.__module__ for cls in type(layer).__mro__ if issubclass(cls, Layer) and cls is not Layer}
    files = {getattr(sys.modules.get(name), "__file__", None) for name in modules}
    for cls in type(layer).__mro__:  # a function put on a class from elsewhere is the layer's own too
        if issubclass(cls, Layer) and cls is not Layer:
            codes = (
                getattr(getattr(cls.__dict__.get(name), "__wrapped__", cls.__dict__.get(name)), "__code__", None)
                for name in METHODS
            )
            files |= {code.co_filename for code in codes if code is not None}
    return [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename in files]


def _missing(key: object, frame: FrameType, line: int, layer: Layer) -> str:
    """What a KeyError was about: a block of W, an input, or something of the layer's own."""
    blocks = ", ".join(layer.blocks())
    code = linecache.getline(frame.f_code.co_filename, line)
    for name, value in frame.f_locals.items():
        if not isinstance(value, Mapping) or not re.search(rf"\b{re.escape(name)}\[\s*['\"]{re.escape(str(key))}['\"]", code):
            continue
        if set(value) == set(layer.blocks()):
            return f"asked for block {key!r}; the blocks are {blocks}"
        if key not in value and set(value) == set(_inputs(layer)):
            return f"asked for input {key!r}; the inputs are {', '.join(value)}"
    return f"raised KeyError: {key!r}; the blocks are {blocks}, the inputs {', '.join(_inputs(layer)) or '?'}"


def _inputs(layer: Layer) -> tuple[str, ...]:
    try:
        return tuple(layer.ports())
    except Exception:  # sample may be what is broken
        return ()


def _hint(error: BaseException, layer: Layer) -> str:
    text = one_line(error)
    if _PRECISION.search(text):
        return PRECISION
    if isinstance(error, RuntimeError | ValueError | IndexError) and _SHAPES.search(text):
        try:
            blocks = ", ".join(f"{name} {tuple(shape)}" for name, shape in layer.blocks().items())
            inputs = ", ".join(f"{name} {port}" for name, port in layer.ports().items())
        except Exception:  # blocks or sample may be what is broken
            return ""
        return f"; one neuron has {blocks}, the inputs are {inputs}"
    return ""
