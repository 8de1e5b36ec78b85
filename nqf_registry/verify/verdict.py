"""``verdict``: the cached verification that compose, train and forecast print at a layer's first use."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import torch

import nqf_registry
from nqf_registry import cache
from nqf_registry.layer import Layer
from nqf_registry.verify.context import sizes_of
from nqf_registry.verify.report import Report
from nqf_registry.verify.source import library_hash, source_hash
from nqf_registry.verify.suite import SUITE, verify


def verdict(layer: Layer) -> Report:
    """The report of a layer at profile dev, measured at its first use and read from the cache until what it rests on changes.

    That is the source of the class, its sizes, the library's own code, and the versions of the suite and of torch. A class
    whose source cannot be read is verified each time.

    Args:
        layer: any layer.

    Returns:
        The report, with ``cached`` set where it was read. ``report.line()`` says it in one line.
    """
    source = source_hash(layer)
    if not source:
        return verify(layer)
    name = f"verdicts/{layer.key or 'layer'}-{fingerprint(layer, source)}.json"
    found = _read(name)
    if found is not None:
        return dataclasses.replace(found, cached=True)
    report = verify(layer)
    if not report.stopped:  # what a check saw until its time ran out is this machine's, not the layer's
        cache.write_json(name, report.to_dict())
    return report


def fingerprint(layer: Layer, source: str) -> str:
    """The hash that a verdict is stored under."""
    parts = [source, type(layer).__qualname__, repr(sorted(sizes_of(layer).items())), repr(layer.claims)]
    parts += [nqf_registry.__version__, library_hash(), SUITE, torch.__version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _read(name: str) -> Report | None:
    data: Any = cache.read_json(name)
    try:
        return Report.from_dict(data)
    except (TypeError, KeyError, AttributeError):  # nothing there, or written by another version
        return None
