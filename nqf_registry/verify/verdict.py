"""``verdict``: the cached verification that compose, train and forecast print at a layer's first use."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any

import torch

import nqf_registry
from nqf_registry import cache
from nqf_registry.layer import Layer
from nqf_registry.verify.checks import CHECKS
from nqf_registry.verify.classification import CLASSIFICATIONS
from nqf_registry.verify.context import sizes_of
from nqf_registry.verify.report import STATUSES, Check, Report
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
    found = _read(name, layer.key)
    if found is not None:
        return dataclasses.replace(found, cached=True)
    report = verify(layer)
    if not report.hurried:  # what a check saw until its time ran out is this machine's, not the layer's
        cache.write_json(name, report.to_dict())
    return report


def fingerprint(layer: Layer, source: str) -> str:
    """The hash that a verdict is stored under."""
    parts = [source, type(layer).__qualname__, repr(sorted(sizes_of(layer).items())), repr(layer.claims)]
    parts += [nqf_registry.__version__, library_hash(), SUITE, torch.__version__]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _read(name: str, key: str) -> Report | None:
    data: Any = cache.read_json(name)
    try:
        report = Report.from_dict(data)
        return report if _sound(report) and report.layer == key else None
    except (TypeError, KeyError, AttributeError, ValueError):  # nothing there, or written by another version
        return None


def _sound(report: Report) -> bool:
    """Whether everything has the type that readers of a report count on; a damaged file is measured again."""
    return (
        all(
            isinstance(text, str)
            for text in (report.layer, report.classification, report.profile, report.source, *report.notes)
        )
        and isinstance(report.passed, bool)
        and _number(report.seed)
        and _number(report.seconds)
        and (report.leading_order is None or _number(report.leading_order))
        and isinstance(report.sizes, Mapping)
        and isinstance(report.versions, Mapping)
        and all(isinstance(version, str) for version in report.versions.values())
        and [check.name for check in report.checks] == list(CHECKS)
        and all(map(_sound_check, report.checks))
        and report.classification in CLASSIFICATIONS
        and report.passed == (not any(check.broken for check in report.checks))
    )


def _sound_check(check: Check) -> bool:
    return (
        check.status in STATUSES
        and all(value is None or _number(value) for value in (check.residual, check.tolerance))
        and isinstance(check.examples, int)
        and check.examples >= 0
        and all(isinstance(text, str) for text in (check.message, check.bound, check.why, check.cause))
        and (check.counterexample is None or isinstance(check.counterexample, Mapping))
        and isinstance(check.details, Mapping)
        and isinstance(check.promised, bool)
        and isinstance(check.stopped, bool)
    )


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
