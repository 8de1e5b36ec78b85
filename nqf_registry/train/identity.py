"""Whether a run that goes on is the run that began: what its manifest says beside what it would say now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DECIDE = ("torch", "nqf_registry")  # packages whose version decides the numbers
GIVEN = ("steps", "lr")  # what a resumed run has from its manifest, or may change


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """What differs between two manifests of one run: what changes its numbers, and what is only worth saying."""
    grave, light = [], []
    for name, layer in before["subject"].get("layers", {}).items():
        own = now["subject"]["layers"].get(name, {})
        if layer.get("source") != own.get("source"):
            grave.append(f"the source of the layer {name} has changed (hash {_short(layer)} before, {_short(own)} now)")
    for name in sorted({*before["versions"], *now["versions"]}):
        old, new = before["versions"].get(name, "not there"), now["versions"].get(name, "not there")
        if old != new:
            (grave if name in DECIDE else light).append(f"{name} was {old} and is {new}")
    if "ways" in before and before["ways"] != now["ways"]:
        grave.append(f"gradients were computed by {_said(before['ways'])} and would be by {_said(now['ways'])}")
    for name, old in before["settings"].items():
        new = now["settings"].get(name)
        if name not in GIVEN and old != new:
            grave.append(f"{name} was {old} and is {new}")
    if before.get("device") != now["device"]:
        light.append(f"the device was {before.get('device')} and is {now['device']}, which may change the last bits")
    old, new = before.get("git"), now.get("git")
    if old != new and old and new and old.get("commit") != new.get("commit"):
        light.append(f"the library's checkout was at {str(old.get('commit'))[:12]} and is at {str(new.get('commit'))[:12]}")
    return grave, light


def _short(layer: Mapping[str, Any]) -> str:
    return str(layer.get("source"))[:12]


def _said(ways: Mapping[str, str]) -> str:
    return ", ".join(f"{way} ({model})" for model, way in ways.items())
