"""Keeps a verification from changing anything outside it: random states, dtype, warnings filters, hooks."""

from __future__ import annotations

import contextlib
import gc
import random
import warnings
from collections.abc import Iterator

import numpy
import torch


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Restores the global state of torch, numpy and Python's random, whatever happens inside.

    Hypothesis leaves a callback at the garbage collector, which times it. An interrupt that arrives while such a callback runs
    is lost: Python prints its traceback and goes on. So it is taken away again.
    """
    callbacks = list(gc.callbacks)
    torch_state, numpy_state, python_state = torch.get_rng_state(), numpy.random.get_state(), random.getstate()
    dtype, precision, threads = torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.get_num_threads()
    deterministic, warn_only = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    try:
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]), torch.enable_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_rng_state(torch_state)
        numpy.random.set_state(numpy_state)
        random.setstate(python_state)
        torch.set_default_dtype(dtype)
        torch.set_float32_matmul_precision(precision)
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
        gc.callbacks[:] = callbacks


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Makes a RuntimeError of what a layer's code raises beside Exception, such as SystemExit; an interrupt stays one.

    A layer that leaves the program is one more layer that cannot be evaluated: it must not end the verification of others.
    """
    try:
        yield
    except (Exception, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        raise RuntimeError(f"it raised {type(error).__name__} {error}".rstrip()) from error
