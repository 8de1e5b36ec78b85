"""What the checks of one verification share: the instances, the settings measured so far, and the facts that classify."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nqf_registry.layer import Layer, declares
from nqf_registry.verify.addresses import replay_line
from nqf_registry.verify.described import described
from nqf_registry.verify.drive import Measurement, Outcome, drive
from nqf_registry.verify.examples import example_line
from nqf_registry.verify.explanation import explain
from nqf_registry.verify.first_call import LARGEST, VARIANTS, too_many
from nqf_registry.verify.guard import contained
from nqf_registry.verify.matrix_free import MatrixFree, measure_along
from nqf_registry.verify.measured import Measured, measure
from nqf_registry.verify.messages import paragraph
from nqf_registry.verify.profiles import Profile
from nqf_registry.verify.report import FAIL, OBSERVED, PASS, UNDECIDED, Check
from nqf_registry.verify.setting import Setting, Undecided
from nqf_registry.verify.strategies import Draw, draws, gaussian_weights, simpler


@dataclass
class Facts:
    """What was measured, whatever was claimed; None where it could not be decided."""

    deterministic: bool | None = None
    repeatable: bool = True
    finite: bool | None = None
    symmetric: bool | None = None
    zgz: bool | None = None
    smooth: bool | None = None
    exact: bool | None = None
    order: float | None = None
    still: float | None = None
    reasons: list[str] = field(default_factory=list)


class Context:
    """One verification under way.

    Attributes:
        layer: the layer as it was given.
        instances: it and its variants.
        profile: how much to measure.
        seed: of all draws.
        facts: what was measured so far.
        notes: what had to be done otherwise.
    """

    def __init__(self, layer: Layer, profile: Profile, seed: int) -> None:
        self.layer, self.profile, self.seed = layer, profile, seed
        self.instances = [layer]
        if declares(layer, "variants"):
            with contextlib.suppress(Exception), contained():  # first_call has told what is wrong with them
                self.instances += itertools.islice(layer.variants(), VARIANTS)  # type: ignore[attr-defined]
        self.facts = Facts()
        self.notes: dict[str, None] = {}
        self.disagreement: float | None = None
        self._settings: dict[tuple[int, int, int, int], Setting] = {}
        self._measured: dict[tuple[int, int, int, int], Measured] = {}
        self._along: dict[tuple[int, int, int, int], MatrixFree] = {}

    def widths(self, least: int = 1) -> list[int]:
        """The widths to measure at, smallest first; the layer's own among them."""
        own = self.layer.width
        if self.layer.resized(own + 1).width == own:  # a fixed width
            return [own] if own >= least else []
        return sorted({w for w in (1, 2, 3, 4, 5, own, own + 1) if w >= least})

    def instance(self, draw: Draw) -> Layer:
        """The layer of a draw, at its width."""
        return self.instances[draw.instance].resized(draw.width)

    def setting(self, draw: Draw) -> Setting:
        """The layer at the width and inputs of a draw; made once."""
        layer = self.instance(draw)
        key = (draw.instance, layer.width, draw.samples, draw.inputs)
        if key not in self._settings:
            generator = self._generator(7919 * draw.inputs + draw.samples)
            x = layer.sample(draw.samples, generator)
            self._settings[key] = Setting(layer, x, self.seed)
            if layer.n_params * layer.width > LARGEST:  # a replayed width, or a variant larger than the layer itself
                raise Undecided(too_many(layer))
        return self._settings[key]

    def exact_setting(self, draw: Draw) -> Setting:
        """The same, refusing a layer whose own arithmetic is coarser than float64's."""
        setting = self.setting(draw)
        setting.check_exact()
        return setting

    def measured(self, draw: Draw) -> Measured:
        """The measured expansion at the width and inputs of a draw; made once."""
        layer = self.instance(draw)
        key = (draw.instance, layer.width, draw.samples, draw.inputs)
        if key not in self._measured:
            self._measured[key] = measure(self.setting(draw))
            for note in self._measured[key].notes:
                self.notes[note] = None
            if self._measured[key].source == "differences":
                self.note_disagreement(self._measured[key].disagreement)
        return self._measured[key]

    def along(self, draw: Draw) -> MatrixFree:
        """The expansion along rays at the width and inputs of a draw, for a layer too large for matrices; made once."""
        layer = self.instance(draw)
        key = (draw.instance, layer.width, draw.samples, draw.inputs)
        if key not in self._along:
            self._along[key] = measure_along(self.setting(draw))
            if self._along[key].source == "differences":
                self.note_disagreement(self._along[key].disagreement)
        return self._along[key]

    def note_disagreement(self, gap: float) -> None:
        """Keeps the largest distance between autodiff and differences; every report says it where there is one."""
        self.disagreement = (
            gap if self.disagreement is None else max(self.disagreement, gap, key=lambda g: float("inf") if g != g else g)
        )

    def _generator(self, number: int) -> torch.Generator:
        """A generator for this number and the seed of the verification, however large that is."""
        return torch.Generator().manual_seed((1_000_003 * self.seed + number) % 2**63)

    def weights(self, draw: Draw, setting: Setting, salt: int = 0) -> Tensor:
        """Weights (p, d) of a draw: its factor times the length scale."""
        generator = self._generator(31 * draw.weights + salt)
        return gaussian_weights(setting.p, setting.d, draw.factor * setting.scale, generator)

    def rays(self, draw: Draw, setting: Setting, count: int, salt: int = 0) -> Tensor:
        """Random directions (count, p, d) of a draw."""
        generator = self._generator(31 * draw.weights + salt + 17)
        return torch.randn(count, setting.p, setting.d, generator=generator, dtype=torch.float64)

    def run(
        self,
        measure: Callable[[Draw], Measurement | None],
        *,
        least: int = 1,
        factors: Sequence[float] = (1.0,),
        samples: Sequence[int] = (4, 1),
        share: float = 1.0,
        settings: int | None = None,
        every_width: bool = False,
    ) -> Outcome:
        """Drives a measurement over this layer: its own width and a few others first, then what hypothesis draws.

        Args:
            measure: residual of one draw.
            least: the smallest width that the measurement makes sense for.
            factors: sizes of the weights, in length scales.
            samples: numbers of inputs.
            share: fraction of the profile's examples, for measurements that take longer.
            settings: different inputs a width; by default the profile's.
            every_width: whether each width is among the first examples, not only the layer's own and the smallest.
        """
        widths = self.widths(least)
        if not widths:
            return Outcome()
        settings = settings or self.profile.settings
        own = self.layer.width if self.layer.width in widths else widths[0]
        chosen = [own, *(w for w in widths if w != own)] if every_width else [own, widths[0]]
        first = [
            Draw(0, width, samples[0], i % settings, i, factors[i % len(factors)], i)
            for i, width in enumerate(dict.fromkeys(chosen))
        ]
        first += [Draw(i, max(least, self.instances[i].width), samples[0], 0, i) for i in range(1, len(self.instances))]
        strategy = draws(len(self.instances), widths, settings, factors, samples)
        examples = max(2, round(self.profile.examples * share)) if self.profile.examples else 0
        simplify = functools.partial(simpler, widths=widths, factors=factors, samples=samples)

        def applied(draw: Draw) -> Measurement | None:  # a variant may have a fixed width of its own, below the least
            return measure(draw) if self.instance(draw).width >= least else None

        return drive(applied, strategy, first, examples, self.profile.seconds, self.seed, self.tell, simplify)

    def tell(self, error: BaseException) -> str:
        """What an exception of the layer was, as a sentence."""
        return explain(error, self.layer)

    def conclude(
        self,
        name: str,
        outcome: Outcome,
        promised: bool,
        *,
        holds: str,
        broken: str,
        advice: str,
        nothing: str = "no example could be drawn",
        details: Mapping[str, Any] | None = None,
    ) -> Check:
        """The check that an outcome makes.

        Args:
            name: of the check.
            outcome: what was seen.
            promised: whether the layer claims it.
            holds: what was expected, as a sentence.
            broken: what a failure is, as a sentence that may use {residual}, {tolerance} and the details by name.
            advice: what to do about a failure; it may use the same names.
            nothing: why there was no example.
            details: further numbers to report.
        """
        worst = outcome.worst
        if outcome.reason is not None and not outcome.failed:
            return Check(
                name,
                UNDECIDED,
                examples=outcome.examples,
                message=f"{self.layer.key}: {name} could not be decided: {outcome.reason}",
                stopped=outcome.stopped,
                cause=outcome.reason,
            )
        if worst is None:
            return Check(name, UNDECIDED, message=f"{self.layer.key}: {name} ran no example: {nothing}.", why=nothing)
        numbers = {"residual": worst.residual, "tolerance": worst.tolerance, **worst.details}
        shown = {key: _written(value) for key, value in numbers.items()}
        bound = "at least" if worst.at_least else "at most"
        common: dict[str, Any] = {
            "residual": worst.residual,
            "tolerance": worst.tolerance,
            "examples": outcome.examples,
            "bound": bound,
            "stopped": outcome.stopped,
            "details": {**worst.details, **(details or {})},
        }
        after = "; time ran out before all examples were drawn" if outcome.stopped else ""
        if not outcome.failed:
            status = PASS if promised else OBSERVED
            lead = "" if promised else "not claimed, but it holds: "
            counted = f"{outcome.examples} example{'s' * (outcome.examples != 1)}"
            message = f"{lead}{holds} ({_shown(worst)} over {counted}{after})."
            common["details"] = {**_of_what_holds(worst.details), **(details or {})}
            return Check(name, status, message=message, expected=holds, **common)
        data = worst.counterexample() if worst.counterexample is not None else {}
        said = broken.format_map(shown)
        if promised:
            return self.failed(
                name, outcome.draw, data, expected=holds, measured=said, advice=advice.format_map(shown), **common
            )
        data = {**data, **self.example(name, outcome.draw)}
        return Check(
            name, OBSERVED, message=f"not claimed: {said}.", counterexample=data, expected=holds, measured=said, **common
        )

    def failed(
        self,
        name: str,
        draw: Draw | None,
        data: Mapping[str, Any],
        *,
        expected: str,
        measured: str,
        advice: str,
        **more: Any,
    ) -> Check:
        """A failing check, with its message and the command that replays it.

        Args:
            name: of the check.
            draw: the example that failed.
            data: its counterexample.
            expected: what should hold.
            measured: what was seen.
            advice: what to do, in sentences.
            more: further fields of the check.
        """
        example = self.example(name, draw)
        replay = replay_line(self.layer, example["example"]) if example else ""
        check = Check(
            name,
            FAIL,
            counterexample={**data, **example},
            expected=expected,
            measured=measured,
            advice=advice,
            replay=replay,
            **more,
        )
        return dataclasses.replace(check, message=paragraph(self.layer.key, check, sizes_of(self.layer)))

    def unevaluated(self, name: str, cause: str, draw: Draw | None = None, examples: int = 0) -> Check:
        """The failing check of a layer that raises where it should have a value.

        Args:
            name: of the check.
            cause: what it raised, and where.
            draw: the example that it raised at; by default it does at its first call.
            examples: how many were measured before.
        """
        draw = draw or Draw(0, self.layer.width)
        return self.failed(
            name,
            draw,
            {"sizes": sizes_of(self.instance(draw)), "samples": draw.samples, "inputs_seed": draw.inputs, "raised": cause},
            expected="f has a finite value at every W and x of the declared shapes",
            measured=cause,
            advice="Call layer(layer.random(torch.Generator()), layer.sample(4, torch.Generator())) and mend the line named.",
            examples=examples,
            why="cannot be evaluated",
            cause=cause,
        )

    def example(self, name: str, draw: Draw | None) -> dict[str, str]:
        """What to add to a counterexample so that it can be measured again."""
        return {} if draw is None else {"example": example_line(name, draw, self.seed)}

    def describe(self, draw: Draw, setting: Setting, stacked: Tensor | None = None, **more: Any) -> dict[str, Any]:
        """An example as plain data: sizes, seeds, inputs and weights where they are small, and what else is given."""
        layer = setting.layer
        data: dict[str, Any] = {
            "sizes": sizes_of(layer),
            "samples": draw.samples,
            "inputs_seed": draw.inputs,
            "seed": self.seed,
        }
        if sum(t.numel() for t in setting.x.values()) <= 64:
            data["x"] = {name: _rounded(t) for name, t in setting.x.items()}
        if stacked is not None and (W := weights_of(setting, stacked)):
            data["W"] = W
        return {**data, **{name: value for name, value in more.items() if value != {}}}


def weights_of(setting: Setting, stacked: Tensor) -> dict[str, Any]:
    """Weights (p, d) block by block as plain data, where they are few enough to be read."""
    return {} if stacked.numel() > 256 else {name: _rounded(t) for name, t in setting.layer.unstack(stacked).items()}


def sizes_of(layer: Layer) -> dict[str, Any]:
    """The fields of a layer by name."""
    return {f.name: described(getattr(layer, f.name)) for f in dataclasses.fields(layer)}  # type: ignore[arg-type]


def parameter_name(layer: Layer, index: int) -> str:
    """The name of one of the p parameters of a neuron: ``u[2]``, ``V[0, 1]``."""
    for name, shape in layer.blocks().items():
        size = int(torch.Size(shape).numel())
        if index < size:
            place = [int(i) for i in torch.unravel_index(torch.tensor(index), shape)] if shape else []
            return f"{name}{place}" if place else name
        index -= size
    raise IndexError(index)


def _written(value: Any) -> Any:
    """A number as it stands in a sentence."""
    if not isinstance(value, float):
        return value
    return f"{value:.3g}" if 0.01 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"


def _rounded(tensor: Tensor) -> Any:
    return tensor.tolist()


def _shown(worst: Measurement) -> str:
    return (
        f"worst {worst.residual:.3g}, must be at least {worst.tolerance:g}"
        if worst.at_least
        else f"worst {worst.residual:.1e}"
        if worst.residual
        else "worst 0"
    )


def _of_what_holds(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details that mean something where a check holds: numbers and names do, sentences are about a failure."""
    return {name: value for name, value in details.items() if name in ("part", "source") or not isinstance(value, str)}
