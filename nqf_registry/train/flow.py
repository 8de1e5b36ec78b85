"""Gradient flow: Ẇ = −∇L − γ W, integrated with error control in the logarithm of time.

A run of the flow goes from one recorded time to the next; in between scipy's integrator chooses its own steps in
s = log(1 + t / t₀), where t₀ is the time in which the initial weights would change by their own size. Every replica is
integrated by itself, with its own steps, so that it does not see its neighbours. What has to be known to go on from a recorded
time lies in the slots.

Source: E. Hairer, S. Nørsett, G. Wanner, "Solving Ordinary Differential Equations I" (1993), for DOP853.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nqf_registry.errors import InvalidInput, WorkFailed
from nqf_registry.spelling import did_you_mean
from nqf_registry.train.gradients import Gradient, formed
from nqf_registry.train.numbers import number, short
from nqf_registry.train.optimizers import Differentiable, Optimizer, Slots

METHODS = {"dop853": "DOP853", "rk45": "RK45", "lsoda": "LSODA", "radau": "Radau", "bdf": "BDF"}
OPTIONS = ("method", "rtol", "atol")
TOLERANCE = {torch.float32: (1e-5, 1e-6), torch.float64: (1e-9, 1e-13)}  # of a dtype: the usual one, and the least sensible one
SPAN = 1e3  # the last recorded time over the first one
STATE = "flow"  # the slot


class Flow(Optimizer):
    """Gradient flow, between the times of ``options["times"]``; a "step" goes from one of them to the next."""

    name = "flow"
    linear = True
    takes_rate = False
    full_batch = True
    rate_default = 1.0

    @classmethod
    def check_options(
        cls, options: Mapping[str, Any], dtype: torch.dtype, lr: float | None, weight_decay: float, momentum: float
    ) -> dict[str, Any]:
        """The method and its tolerances.

        Raises:
            InvalidInput: there is no such option or method, or a tolerance is none that the dtype reaches.
        """
        for name in options:
            if name not in OPTIONS:
                raise InvalidInput(
                    f"flow has no option {name!r}.{did_you_mean(str(name), OPTIONS)} It has {', '.join(OPTIONS)}."
                )
        method = options.get("method", "dop853")
        if not isinstance(method, str) or method.lower() not in METHODS:
            raise InvalidInput(
                f"method of flow must be one of {', '.join(METHODS)}, got {short(method)}.{did_you_mean(str(method), METHODS)}"
            )
        usual, least = TOLERANCE[dtype]
        rtol = number("rtol of flow", options.get("rtol", usual))
        if not least <= rtol <= 0.1:
            raise InvalidInput(
                f"rtol of flow must be from {least:g}, which {str(dtype).removeprefix('torch.')} can reach, to 0.1; "
                f"got {rtol:g}."
            )
        atol = number("atol of flow", options.get("atol", rtol))
        if atol <= 0:
            raise InvalidInput(f"atol of flow, in units of the initial weights' size, must be positive; got {atol:g}.")
        return {"method": method.lower(), "rtol": rtol, "atol": atol}

    def slots(self, W: Mapping[str, Tensor]) -> Slots:
        """By replica: the next step of the integrator in s, t₀, the size of the initial weights; zero until they are known."""
        replicas = len(next(iter(W.values())))
        kept = {name: torch.zeros(replicas, dtype=torch.float64) for name in ("step", "scale", "size", "evaluations")}
        return {STATE: kept}

    def step(self, W: Mapping[str, Tensor], gradient: Gradient, slots: Slots, count: int) -> None:
        """The flow asks for gradients itself.

        Raises:
            InvalidInput: always.
        """
        raise InvalidInput("gradient flow asks for gradients itself; take it by stepper.")

    def stepper(self, objective: Differentiable, state: dict[str, Tensor], slots: Slots) -> tuple[Callable[[int], None], Any]:
        """From one recorded time to the next, replica by replica."""
        times: Sequence[float] = self.options["times"]

        def step(count: int) -> None:
            for r in range(len(next(iter(state.values())))):
                part = _Replica(self, objective, {name: block[r : r + 1] for name, block in state.items()}, slots[STATE], r)
                part.integrate(times[count - 1], times[count])

        return step, lambda: None

    def stability_limit(self) -> None:
        """None: the integrator chooses its steps."""
        return None


class _Replica:
    """One replica on its way; its blocks (1, *shape, d) and its part of the slot are written to."""

    def __init__(
        self, rule: Flow, objective: Differentiable, W: dict[str, Tensor], kept: dict[str, Tensor], replica: int
    ) -> None:
        self.rule, self.objective, self.W, self.kept, self.r = rule, objective, W, kept, replica
        self.lr = rule.lr[replica if len(rule.lr) > 1 else 0]
        self.decay = rule.weight_decay[replica if len(rule.weight_decay) > 1 else 0]
        self.evaluations, self.finite = 0, True

    def integrate(self, begin: float, end: float) -> None:
        """From one time to another."""
        import scipy.integrate

        start = self._vector(self.W)
        if not self.kept["scale"][self.r]:
            self._measure(start, end)
        t0 = float(self.kept["scale"][self.r])
        first, last = float(np.log1p(begin / t0)), float(np.log1p(end / t0))
        options = self.rule.options
        size = max(float(self.kept["size"][self.r]), np.finfo(float).tiny / options["atol"])
        wanted = float(self.kept["step"][self.r])
        solver: Any = getattr(scipy.integrate, METHODS[options["method"]])(
            lambda s, y: self._derivative(y) * (t0 * np.exp(s)),
            first,
            start,
            last,
            rtol=options["rtol"],
            atol=options["atol"] * size,
            first_step=min(wanted, last - first) if wanted else None,
        )
        message = None
        while solver.status == "running" and self.finite:
            message = solver.step()
        self.kept["evaluations"][self.r] += self.evaluations
        if not self.finite:
            for block in self.W.values():  # the run sees it as what it is
                block.fill_(float("nan"))
            return
        if solver.status == "failed":
            raise WorkFailed(
                f"the flow of replica {self.r} cannot go on at time {t0 * np.expm1(solver.t):.6g} to an accuracy of rtol = "
                f"{options['rtol']:g}: {message} Give a larger rtol by optimizer_options, or dtype float64."
            )
        self.kept["step"][self.r] = max(float(getattr(solver, "h_abs", 0.0)), 0.0)
        for name, block in self._blocks(solver.y).items():
            self.W[name].copy_(block)

    def _measure(self, start: np.ndarray, end: float) -> None:
        """The size of the initial weights and the time in which they would change by it."""
        speed, size = float(np.linalg.norm(self._derivative(start))), float(np.linalg.norm(start))
        natural = size / speed if self.finite and 0 < speed < np.inf else end
        self.kept["scale"][self.r] = natural if 0 < natural < np.inf else end
        self.kept["size"][self.r] = size / np.sqrt(len(start))

    def _derivative(self, y: np.ndarray) -> np.ndarray:
        """−η (∇L + γ W) as a vector."""
        W = self._blocks(y)
        gradient, self.evaluations = self.objective.gradient(W), self.evaluations + 1
        parts = {name: formed(gradient[name]) if name in gradient else torch.zeros_like(block) for name, block in W.items()}
        found = -self.lr * (self._vector(parts) + self.decay * y)
        self.finite = self.finite and bool(np.isfinite(found).all())
        return found if self.finite else np.zeros_like(found)

    def _vector(self, blocks: Mapping[str, Tensor]) -> np.ndarray:
        return torch.cat([blocks[name].reshape(-1) for name in self.W]).double().cpu().numpy()

    def _blocks(self, y: np.ndarray) -> dict[str, Tensor]:
        first = next(iter(self.W.values()))
        parts = torch.from_numpy(y).to(first).split([block.numel() for block in self.W.values()])
        return {name: part.view(block.shape) for (name, block), part in zip(self.W.items(), parts, strict=True)}


def flow_times(until: Any, records: Any) -> tuple[float, ...]:
    """The recorded times of a flow, from 0.

    Args:
        until: the last time, or all times after 0 in ascending order.
        records: how many times to record where ``until`` is one number, log-spaced over three decades; or which.

    Raises:
        InvalidInput: they are no times.
    """
    until, records = (value.tolist() if hasattr(value, "tolist") else value for value in (until, records))
    if until is None:
        raise InvalidInput("optimizer 'flow' needs until=, the flow time at which it ends, or a list of times to record.")
    if isinstance(until, Sequence) and not isinstance(until, str):
        return _ascending("until", until)
    end = number("until", until)
    if end <= 0:
        raise InvalidInput(f"until must be a positive time, got {end:g}.")
    if isinstance(records, Sequence) and not isinstance(records, str | bytes):
        chosen = [number("each of records", time) for time in records]
        return _ascending("records", [*[time for time in chosen if 0 < time < end], *[t for t in chosen if t > end], end])
    if isinstance(records, bool) or not isinstance(records, int) or records < 2:
        raise InvalidInput(f"records must be a number of at least 2, or a list of times of the flow; got {short(records)}.")
    if records == 2:
        return (0.0, end)
    inner = np.geomspace(end / SPAN, end, records - 1)[:-1]
    return (0.0, *map(float, inner), end)


def _ascending(name: str, times: Sequence[Any]) -> tuple[float, ...]:
    found = [number(f"each of {name}", time) for time in times]
    found = found[1:] if found and found[0] == 0 else found
    if not found or any(b <= a for a, b in zip((0.0, *found), found, strict=False)):
        raise InvalidInput(f"{name} must be positive times in ascending order, none beyond the last; got {short(list(times))}.")
    return (0.0, *found)
