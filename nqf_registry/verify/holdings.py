"""What a layer holds: its tensors, modules, arrays and generators, as they were, to be compared with and put back in place.

Found are fields and attributes of the instance and of its class, and what lies in their lists, dicts, sets, tuples, modules and
plain objects. Out of reach are globals, closures, default arguments and caches of functions: a layer that keeps its state there
is noticed by its values only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from nqf_registry.layer import Layer

# Dicts of a module whose entries are its attributes: bn._buffers["running_mean"] is called bn.running_mean.
_INNER = ("_parameters", "_buffers", "_modules")
_LEAVES = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


@dataclass(frozen=True)
class _Kept:
    """One thing that is held: what has changed about it, in words ("its own tensor u"), and how to put it back."""

    changes: Callable[[], list[str]]
    restore: Callable[[], None]


class Holdings:
    """A snapshot of everything that a layer holds; the objects stay, what is in them is copied."""

    def __init__(self, layer: Layer) -> None:
        self._kept: list[_Kept] = []
        self._seen: dict[int, Any] = {}  # keeps them alive, so that no other object gets the same id
        self._walk(layer, "")

    def changes(self) -> list[str]:
        """What is not as it was, by name. A dict, list or object that only grew is a cache, and is not named."""
        return list(dict.fromkeys(name for kept in self._kept for name in kept.changes()))

    def restore(self) -> None:
        """Puts everything back in place: no object is replaced, and what is as it was is not touched."""
        for kept in self._kept:
            with contextlib.suppress(Exception):  # one that cannot be put back must not keep the others from it
                kept.restore()

    def _walk(self, value: Any, name: str) -> None:
        if isinstance(value, _LEAVES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if isinstance(value, Tensor):
            self._keep_tensor(value, name)
        elif isinstance(value, numpy.ndarray):
            self._kept.append(_kept_array(value, name))
        elif (state := _generator(value)) is not None:
            self._kept.append(_kept_state(*state, name))
        elif isinstance(value, dict):
            self._keep_dict(value, name, lambda key: f"{name}[{key!r}]", "entry")
        elif isinstance(value, list | deque):
            self._kept.append(_kept_list(value, name))
            for index, item in enumerate(value):
                self._walk(item, f"{name}[{index}]")
        elif isinstance(value, tuple | frozenset):
            for index, item in enumerate(value):
                self._walk(item, f"{name}[{index}]")
        elif isinstance(value, set):
            self._kept.append(_kept_set(value))
        elif _is_plain(value):
            self._keep_object(value, name)

    def _keep_tensor(self, tensor: Tensor, name: str) -> None:
        with contextlib.suppress(Exception), torch._C.DisableTorchFunctionSubclass():  # no memory: meta, lazy, fake tensors
            self._kept.append(_kept_tensor(tensor, name))
            if tensor.is_leaf and tensor.grad is not None:
                self._walk(tensor.grad, f"{name}.grad")

    def _keep_dict(self, entries: dict, name: str, called: Callable[[Any], str], kind: str, free: tuple = ()) -> None:
        self._kept.append(_kept_dict(entries, name, called, kind, free))
        for key, item in list(entries.items()):
            if kind == "attribute" and key in _INNER and isinstance(item, dict):
                if id(item) not in self._seen:
                    self._seen[id(item)] = item
                    self._keep_dict(item, name, functools.partial(_dotted, name), "member")
            else:
                self._walk(item, called(key))

    def _keep_object(self, value: Any, name: str) -> None:
        called = functools.partial(_dotted, name)
        if hasattr(value, "__dict__"):
            # What a cached property keeps is a cache, not a state.
            free = tuple(
                n for cls in type(value).__mro__ for n, v in vars(cls).items() if isinstance(v, functools.cached_property)
            )
            self._keep_dict(vars(value), name, called, "attribute", free)
        elif dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self._walk(getattr(value, field.name, None), called(field.name))
        if isinstance(value, Layer):
            for cls in _own_classes(type(value)):
                self._kept.append(_kept_class(cls))
                for key, item in _attributes(cls).items():
                    self._walk(item, called(key))


def _dotted(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _is_plain(value: Any) -> bool:
    """Whether an object is looked into: modules, layers, dataclasses, and instances of classes from outside the libraries."""
    if isinstance(value, type) or (callable(value) and not isinstance(value, nn.Module | Layer)):
        return False
    if isinstance(value, nn.Module | Layer) or dataclasses.is_dataclass(value):
        return True
    origin = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and origin not in sys.stdlib_module_names and origin not in ("torch", "numpy", "builtins")


def _own_classes(cls: type) -> Iterator[type]:
    for base in cls.__mro__:
        if base is Layer or base is object or base.__module__.partition(".")[0] in ("typing", "abc"):
            continue
        yield base


def _attributes(cls: type) -> dict[str, Any]:
    """The attributes of a class that are data."""
    return {
        name: value
        for name, value in vars(cls).items()
        if not (name.startswith("__") or name.startswith("_abc_") or hasattr(value, "__get__") or isinstance(value, type))
    }


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, _LEAVES) and type(a) is type(b) and bool(a == b or (a != a and b != b)))


def _what(value: Any, name: str) -> str:
    kind = {Tensor: "tensor", numpy.ndarray: "array", nn.Module: "module"}
    return f"its own {next((word for cls, word in kind.items() if isinstance(value, cls)), 'attribute')} {name}"


def _kept_dict(entries: dict, name: str, called: Callable[[Any], str], kind: str, free: tuple) -> _Kept:
    before = {key: item for key, item in entries.items() if key not in free}

    def changes() -> list[str]:
        found = []
        for key, item in before.items():
            if key not in entries or not _same(entries[key], item):
                training = kind == "attribute" and key == "training"
                found.append(f"the training flag of {name}" if training else _what(item, called(key)))
        return found

    def restore() -> None:
        now = {key: item for key, item in entries.items() if key not in free}
        if list(now) == list(before):
            for key, item in before.items():
                if not _same(entries[key], item):
                    entries[key] = item
            return
        cached = {key: item for key, item in entries.items() if key in free}
        entries.clear()
        entries.update(before | cached)

    return _Kept(changes, restore)


def _kept_list(items: list | deque, name: str) -> _Kept:
    before = list(items)

    def changes() -> list[str]:
        now = list(items)[: len(before)]
        return [] if len(now) == len(before) and all(map(_same, now, before)) else [f"its own list {name}"]

    def restore() -> None:
        if len(items) != len(before) or not all(map(_same, items, before)):
            items.clear()
            items.extend(before)

    return _Kept(changes, restore)


def _kept_set(items: set) -> _Kept:
    before = set(items)

    def restore() -> None:
        if items != before:
            items.clear()
            items.update(before)

    return _Kept(list, restore)


def _kept_class(cls: type) -> _Kept:
    before = _attributes(cls)

    def changes() -> list[str]:
        now = _attributes(cls)
        return [_what(item, f"{cls.__name__}.{key}") for key, item in before.items() if not _same(now.get(key), item)]

    def restore() -> None:
        for key, item in before.items():
            if not _same(vars(cls).get(key), item):
                setattr(cls, key, item)
        for key in _attributes(cls).keys() - before.keys():
            delattr(cls, key)

    return _Kept(changes, restore)


def _kept_array(array: numpy.ndarray, name: str) -> _Kept:
    before, writeable = array.copy(), array.flags.writeable

    def same() -> bool:
        return array.shape == before.shape and array.dtype == before.dtype and array.tobytes() == before.tobytes()

    def restore() -> None:
        if not same():
            array.flags.writeable = True
            if array.shape != before.shape:
                array.resize(before.shape, refcheck=False)
            array[...] = before
        if array.flags.writeable != writeable:
            array.flags.writeable = writeable

    return _Kept(lambda: [] if same() else [f"its own array {name}"], restore)


def _generator(value: Any) -> tuple[Callable[[], Any], Callable[[Any], Any]] | None:
    """How to read and set the state of a random generator; None where this is none."""
    if isinstance(value, torch.Generator):
        return value.get_state, value.set_state
    if isinstance(value, numpy.random.Generator):
        bits: Any = value.bit_generator
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    if isinstance(value, numpy.random.RandomState):
        return value.get_state, value.set_state
    if isinstance(value, random.Random):
        return value.getstate, value.setstate
    return None


def _kept_state(read: Callable[[], Any], write: Callable[[Any], Any], name: str) -> _Kept:
    before = read()
    if isinstance(before, Tensor):
        before = before.clone()

    def same() -> bool:
        return _equal_states(before, read())

    def restore() -> None:
        if not same():
            write(before)

    return _Kept(lambda: [] if same() else [f"its own random generator {name}"], restore)


def _equal_states(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return bool(numpy.array_equal(a, b))
    if isinstance(a, tuple):
        return len(a) == len(b) and all(map(_equal_states, a, b))
    if isinstance(a, Mapping):
        return a.keys() == b.keys() and all(_equal_states(a[key], b[key]) for key in a)
    return bool(a == b)


def _kept_tensor(tensor: Tensor, name: str) -> _Kept:
    before = _bits(tensor)
    storage = tensor.untyped_storage() if tensor.layout == torch.strided else None
    place = (tensor.storage_offset(), tensor.shape, tensor.stride()) if storage is not None else None
    pointer, size = (storage.data_ptr(), storage.nbytes()) if storage is not None else (0, 0)
    leaf, needs, gradient = tensor.is_leaf, tensor.requires_grad, tensor.grad if tensor.is_leaf else None

    def in_place() -> bool:
        if storage is None:
            return True
        here = (tensor.storage_offset(), tensor.shape, tensor.stride())
        return here == place and tensor.untyped_storage().data_ptr() == pointer and storage.nbytes() == size

    def same() -> bool:
        return (
            tensor.dtype == before.dtype and tensor.shape == before.shape and torch.equal(_bytes(_bits(tensor)), _bytes(before))
        )

    def changes() -> list[str]:
        with torch._C.DisableTorchFunctionSubclass():
            found = [] if same() else [f"its own tensor {name}"]
            if tensor.is_leaf != leaf or tensor.requires_grad != needs:
                found.append(f"whether {name} needs a gradient")
            if leaf and tensor.is_leaf and tensor.grad is not gradient:
                found.append(f"the gradient of {name}")
        return found

    def restore() -> None:
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            if tensor.is_leaf != leaf and leaf:
                tensor.detach_()
            if not in_place() and storage is not None and place is not None:
                if storage.nbytes() != size:
                    storage.resize_(size)
                tensor.data = torch.empty(0, dtype=before.dtype, device=before.device).set_(storage, *place)
            if not same():
                tensor.data.copy_(before)
            if leaf and tensor.requires_grad != needs:
                tensor.requires_grad_(needs)
            if leaf and tensor.grad is not gradient:
                tensor.grad = gradient

    return _Kept(changes, restore)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().resolve_conj().resolve_neg().clone()


def _bytes(tensor: Tensor) -> Tensor:
    """Compared as bytes, since nan is not nan and 0 is −0."""
    if tensor.layout != torch.strided:
        return tensor.to_dense()
    return tensor.contiguous().reshape(-1).view(torch.uint8)
