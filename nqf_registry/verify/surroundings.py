"""The process around a layer: every random state and setting that a call must leave alone, each with how to read and set it."""

from __future__ import annotations

import gc
import os
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.utils import _device

_SDPA = ("flash", "mem_efficient", "math", "cudnn")
_AUTOCAST = ("cpu", "cuda")


def _cuda_states() -> list[Tensor]:
    """The random states of CUDA devices that are in use; asking would start CUDA where it is not."""
    return torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []


def _set_cuda_states(states: list[Tensor]) -> None:
    if states:
        torch.cuda.set_rng_state_all(states)


def _autocast() -> tuple[Any, ...]:
    modes = [(torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)) for device in _AUTOCAST]
    return (*modes, torch.is_autocast_cache_enabled())


def _set_autocast(state: tuple[Any, ...]) -> None:
    for device, (enabled, dtype) in zip(_AUTOCAST, state, strict=False):
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(state[-1])


def _sdpa() -> tuple[bool, ...]:
    return tuple(getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in _SDPA)


def _set_sdpa(state: tuple[bool, ...]) -> None:
    for name, enabled in zip(_SDPA, state, strict=True):
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_filters(filters: list[Any]) -> None:
    with warnings.catch_warnings():  # leaving it tells Python that its cache of filters is stale
        pass
    warnings.filters[:] = filters  # pyright: ignore[reportIndexIssue]


def _cudnn() -> tuple[bool, ...]:
    cudnn: Any = torch.backends.cudnn
    return cudnn.enabled, cudnn.benchmark, cudnn.deterministic


def _set_cudnn(state: tuple[bool, ...]) -> None:
    cudnn: Any = torch.backends.cudnn
    cudnn.enabled, cudnn.benchmark, cudnn.deterministic = state


def _flushes_denormals() -> bool:
    """Torch sets this and does not tell it; a denormal number does."""
    return bool(torch.full((1,), 2.0**-1060, dtype=torch.float64, device="cpu").mul(1.0).eq(0))


def _set_warnings_functions(state: tuple[Any, Any]) -> None:
    warnings.showwarning, warnings.formatwarning = state


def _directory() -> str:
    """The working directory, "" where it has been removed."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _set_directory(path: str) -> None:
    if path:
        os.chdir(path)


def _set_environment(variables: dict[str, str]) -> None:
    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)


# name: how to read it, how to set it. The names stand in messages: "a call changes NAME".
SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "torch's random state": (torch.get_rng_state, torch.set_rng_state),
    "CUDA's random states": (_cuda_states, _set_cuda_states),
    "numpy's random state": (numpy.random.get_state, numpy.random.set_state),
    "Python's random state": (random.getstate, random.setstate),
    "torch's default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    # The public getter cannot tell "none was set" from "cpu was set", and the latter costs every later call.
    "torch's default device": (lambda: _device.CURRENT_DEVICE, torch.set_default_device),
    "torch's matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "torch's deterministic mode": (_deterministic, lambda s: torch.use_deterministic_algorithms(s[0], warn_only=s[1])),
    "torch's anomaly mode": (
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda s: torch.autograd.set_detect_anomaly(*s),
    ),
    "torch's grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "torch's autocast": (_autocast, _set_autocast),
    "torch's number of threads": (torch.get_num_threads, torch.set_num_threads),
    "torch's attention kernels": (_sdpa, _set_sdpa),
    "cuDNN's settings": (_cudnn, _set_cudnn),
    "torch's treatment of denormal numbers": (_flushes_denormals, torch.set_flush_denormal),
    "the warnings filters": (lambda: list(warnings.filters), _set_filters),
    "how warnings are shown": (lambda: (warnings.showwarning, warnings.formatwarning), _set_warnings_functions),
    "numpy's error handling": (
        lambda: (numpy.geterr(), numpy.geterrcall()),
        lambda s: (numpy.seterr(**s[0]), numpy.seterrcall(s[1])),
    ),
    "the working directory": (_directory, _set_directory),
    "the environment variables": (lambda: dict(os.environ), _set_environment),
    "Python's recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "the callbacks of the garbage collector": (lambda: list(gc.callbacks), lambda s: gc.callbacks.__setitem__(slice(None), s)),
}


def global_state() -> dict[str, Any]:
    """The random states and settings of the process that a layer must leave alone, by name."""
    return {name: read() for name, (read, _) in SETTINGS.items()}


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of what differs between two states."""
    return [name for name in before if not _equal(before[name], after[name])]


def restore(state: dict[str, Any]) -> None:
    """Puts back what differs from a state; what is as it was is not touched."""
    for name, (read, write) in SETTINGS.items():
        if not _equal(state[name], read()):
            write(state[name])


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    if isinstance(a, numpy.ndarray):
        return bool(numpy.array_equal(a, b))
    if isinstance(a, tuple | list):
        return type(a) is type(b) and len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)
