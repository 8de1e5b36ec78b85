"""A data set as the trainer takes it, and the way to one by name."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput, PluginError, UnknownKey
from nqf_registry.layer import cast
from nqf_registry.spelling import did_you_mean

if TYPE_CHECKING:
    from nqf_registry.registry import Registry


@dataclass(frozen=True, eq=False)
class Data:
    """Inputs and targets, with a test set or without.

    Attributes:
        x: inputs by name, each with leading axis n.
        y: targets (n, k); (n,) is taken as (n, 1).
        name: what to call it.
        test_x: test inputs, named as x.
        test_y: test targets.
        info: what else is known of it: how it was made, the teacher's weights. Numbers, words and lists go into the manifest.
        origin: ``name`` and ``options`` with which :func:`load_data` makes it again, None where nothing does.

    Raises:
        InvalidInput: the sizes do not fit, or a number is complex or not finite.
    """

    x: Mapping[str, Tensor]
    y: Tensor
    name: str = "data"
    test_x: Mapping[str, Tensor] | None = None
    test_y: Tensor | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "y", _checked(self.name, "", self.x, self.y))
        object.__setattr__(self, "x", _detached(self.x))
        if (self.test_x is None) != (self.test_y is None):
            raise InvalidInput(f"{self.name}: give test_x and test_y together, or neither.")
        if self.test_x is not None and self.test_y is not None:
            object.__setattr__(self, "test_y", _checked(self.name, "test_", self.test_x, self.test_y))
            object.__setattr__(self, "test_x", _detached(self.test_x))
            assert self.test_x is not None and self.test_y is not None
            if set(self.test_x) != set(self.x) or self.test_y.shape[1] != self.y.shape[1]:
                raise InvalidInput(
                    f"{self.name}: the test set must have the inputs and the number of outputs of the training set."
                )

    @property
    def n(self) -> int:
        """The number of training samples."""
        return self.y.shape[0]

    @property
    def k(self) -> int:
        """The number of outputs."""
        return self.y.shape[1]

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Data:
        """The same data on a device, floating tensors in a dtype; integer inputs keep theirs."""

        def moved(x: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return cast({name: t.to(device) for name, t in x.items()}, dtype)

        test_x = None if self.test_x is None else moved(self.test_x)
        test_y = None if self.test_y is None else self.test_y.to(device, dtype)
        return replace(self, x=moved(self.x), y=self.y.to(device, dtype), test_x=test_x, test_y=test_y)

    def batch(self, index: Tensor | slice) -> tuple[dict[str, Tensor], Tensor]:
        """Inputs and targets of some training samples."""
        return {name: t[index] for name, t in self.x.items()}, self.y[index]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of names, dtypes, shapes and numbers of both sets."""
        digest = hashlib.sha256()
        parts: dict[str, Tensor] = {f"x.{name}": t for name, t in self.x.items()} | {"y": self.y}
        if self.test_x is not None and self.test_y is not None:
            parts |= {f"test_x.{name}": t for name, t in self.test_x.items()} | {"test_y": self.test_y}
        for name in sorted(parts):
            tensor = parts[name].detach().cpu().contiguous()
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _checked(name: str, prefix: str, x: Mapping[str, Tensor], y: Tensor) -> Tensor:
    """The targets as (n, k), after everything about one set was checked."""
    if not isinstance(x, Mapping) or not x or not all(isinstance(t, Tensor) and t.ndim for t in x.values()):
        raise InvalidInput(f"{name}: {prefix}x must be a dict of tensors with a leading sample axis, got {type(x).__name__}.")
    if not isinstance(y, Tensor) or y.ndim not in (1, 2):
        what = tuple(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise InvalidInput(f"{name}: {prefix}y must be a tensor (n, k), got {what}.")
    for key, tensor in {**{f"x[{key!r}]": t for key, t in x.items()}, "y": y}.items():
        if tensor.is_complex():
            raise InvalidInput(
                f"{name}: {prefix}{key} holds complex numbers ({tensor.dtype}); give real and imaginary parts as real numbers."
            )
    y = (y[:, None] if y.ndim == 1 else y).detach()
    if not y.is_floating_point():
        y = y.to(torch.get_default_dtype())
    counts = {**{f"{prefix}x[{key!r}]": t.shape[0] for key, t in x.items()}, f"{prefix}y": y.shape[0]}
    if len(set(counts.values())) > 1:
        raise InvalidInput(f"{name}: the numbers of samples differ: {', '.join(f'{k} has {n}' for k, n in counts.items())}.")
    if not y.shape[0]:
        raise InvalidInput(f"{name}: there is no sample in {prefix}y.")
    for key, tensor in {**{f"x[{key!r}]": t for key, t in x.items()}, "y": y}.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise InvalidInput(f"{name}: {prefix}{key} holds numbers that are not finite; remove or mend those samples first.")
    return y


def _detached(x: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Inputs without what autograd may know of them: data is numbers."""
    return {name: t.detach() for name, t in x.items()}


# Where the built-in data sets live: name to module and function, imported when asked for.
BUILT_IN = {
    "digits": ("nqf_registry.train.digits", "digits"),
    "mnist": ("nqf_registry.train.mnist", "mnist"),
    "teacher": ("nqf_registry.train.teacher", "teacher"),
}


def load_data(name: str, layer: Any, registry: Registry | None = None, **options: Any) -> Data:
    """A data set by name, encoded for a layer or a composition.

    Args:
        name: ``digits``, ``mnist``, ``teacher``, or a data set that a plugin adds.
        layer: who will learn it.
        registry: where plugins' data sets are looked for; the default registry if left out.
        options: what the loader takes.

    Raises:
        UnknownKey: there is no data set of that name.
        InvalidInput: the loader takes no such option, or the data does not fit the layer.
        PluginError: a plugin's loader returned something else than Data.
    """
    loader = _loader(name, registry)
    try:
        inspect.signature(loader).bind(layer, **options)
    except TypeError as error:
        known = [p for p in list(inspect.signature(loader).parameters)[1:]]
        raise InvalidInput(f"data set {name!r}: {error}; its options are {', '.join(known) or 'none'}.") from None
    data = loader(layer, **options)
    if not isinstance(data, Data):
        raise PluginError(f"the loader of data set {name!r} must return nqf.Data, got {type(data).__name__}.")
    return data if data.origin is not None else replace(data, origin=_origin(name, options))


def named(name: str) -> Callable[[Callable[..., Data]], Callable[..., Data]]:
    """Makes a loader's data say by which name and options it is made again, however the loader is called."""

    def decorate(loader: Callable[..., Data]) -> Callable[..., Data]:
        signature = inspect.signature(loader)

        @functools.wraps(loader)
        def load(*arguments: Any, **options: Any) -> Data:
            data = loader(*arguments, **options)
            bound = signature.bind(*arguments, **options)
            return replace(data, origin=_origin(name, dict(list(bound.arguments.items())[1:])))

        return load

    return decorate


def _origin(name: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Name and options as a manifest holds them, None where it cannot."""
    found = {option: value.tolist() if hasattr(value, "tolist") else value for option, value in options.items()}
    try:
        return {"name": name, "options": json.loads(json.dumps(found, allow_nan=False))}
    except (TypeError, ValueError, RecursionError):
        return None


def _loader(name: str, registry: Registry | None) -> Callable[..., Any]:
    if name in BUILT_IN:
        module, function = BUILT_IN[name]
        return getattr(import_module(module), function)
    if registry is None:
        from nqf_registry.registry import default_registry

        registry = default_registry()
    names = sorted([*BUILT_IN, *(entry.key for entry in registry.data_sets())])
    try:
        return registry.data_set(name)
    except UnknownKey:
        raise UnknownKey(
            f"there is no data set {name!r}.{did_you_mean(str(name), names)} Known are {', '.join(names)}."
        ) from None
