"""Verification of many layers for the catalogue."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Verified:
    report: Any
    error: str | None


def verify_layers(layers, profile):
    raise NotImplementedError


def first_use(layer):
    raise NotImplementedError
