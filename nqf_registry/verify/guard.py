"""Keeps a verification from changing anything outside it: the process around it, and what the layer itself holds."""

from __future__ import annotations

import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from nqf_registry.errors import named
from nqf_registry.layer import Layer
from nqf_registry.verify.holdings import Holdings
from nqf_registry.verify.surroundings import global_state, restore


@contextlib.contextmanager
def guarded(*layers: Layer) -> Iterator[None]:
    """Restores the process's random states and settings and what layers hold, bit by bit, whatever happens inside.

    Inside, gradients can be taken whatever mode the caller is in, and no warning is shown. Hypothesis leaves a callback at the
    garbage collector, which times it. An interrupt that arrives while such a callback runs is lost: Python prints its traceback
    and goes on. So it is taken away again.
    """
    before = global_state()
    held = [Holdings(layer) for layer in layers]
    try:
        with warnings.catch_warnings(), torch.inference_mode(False), torch.enable_grad(), _no_autocast():
            warnings.simplefilter("ignore")
            yield
    finally:
        for holdings in held:
            holdings.restore()
        restore(before)


@contextlib.contextmanager
def _no_autocast() -> Iterator[None]:
    with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def guarding(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A check that leaves everything as it was, also where it is called alone and where it raises."""

    @functools.wraps(check)
    def guarded_check(context: Any) -> Any:
        with guarded(*context.instances):
            return check(context)

    return guarded_check


@contextlib.contextmanager
def contained() -> Iterator[None]:
    """Makes a RuntimeError of what a layer's code raises beside Exception, such as SystemExit; an interrupt stays one.

    A layer that leaves the program is one more layer that cannot be evaluated: it must not end the verification of others.
    ``os._exit`` would end this process without a word, so for the time being it is an exception too.
    """
    leave, process = os._exit, os.getpid()

    def told(status: int) -> NoReturn:
        if os.getpid() != process:  # a forked child may end itself
            leave(status)
        raise RuntimeError(f"it called os._exit({status})")

    os._exit = told
    try:
        yield
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise RuntimeError(f"it raised {named(error).replace(':', '', 1)}") from error
    finally:
        os._exit = leave
