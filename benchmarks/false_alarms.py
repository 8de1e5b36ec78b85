"""Verifies good layers at many sizes, choices and scales of their inputs; what does not pass as what it is, is a false alarm.

    python benchmarks/false_alarms.py [--seeds 20] [--first 0] [--entry KEY ...] [--seed N] [--profile dev] [--jobs 2]

Each seed draws every size field of an entry, its choices, and a factor on all floating inputs, log-uniform from 1e-4 to 1e4.
The layer must pass, and be classified as its own mathematics says. Prints a line for each draw that alarms, with the command
that repeats it, then how many of each entry passed and what was drawn; exit code 1 where one alarmed. One draw, shown whole, is
``--entry KEY --seed N``.
"""

from __future__ import annotations

import argparse
import dataclasses
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import torch

import nqf_registry as nqf

SCALES = (-4.0, 4.0)  # decimal logarithm of the factor on the inputs
# Every activation without a kink: with one the layer is not smooth, and the alarm a true one.
SMOOTH = ("arctan", "erf", "gelu", "gelu-tanh", "identity", "mish", "sigmoid", "silu", "sin", "softplus", "tanh")

# Every field by entry: (smallest, largest) of a size, or the choices.
FIELDS: dict[str, dict[str, tuple]] = {
    "bilinear-sequence-regression": {"dim": (1, 7), "width": (1, 6)},
    "diagonal-linear-square": {"n_in": (1, 12)},
    "diagonal-linear-two-factor": {"n_in": (1, 10)},
    "linear-ssl": {"dim": (1, 8), "width": (1, 6)},
    "matrix-completion": {"rows": (1, 8), "columns": (1, 8), "width": (1, 6)},
    "mixture-of-experts": {
        "n_in": (1, 6),
        "n_out": (1, 3),
        "width": (1, 6),
        "expert": ("linear", "affine", "quadratic"),
        "expert_activation": SMOOTH,
        "gate": SMOOTH,
    },
    # One token leaves attention nothing to attend to: the softmax is 1, and the layer another one.
    "multi-head-attention": {
        "dim": (1, 5),
        "tokens": (2, 6),
        "d_k": (1, 3),
        "d_v": (1, 3),
        "n_out": (1, 3),
        "width": (1, 5),
    },
    "phase-retrieval": {"size": (1, 10), "width": (1, 6)},
    "psd-matrix-sensing": {"size": (1, 6), "width": (1, 6)},
    "quadratic-network": {"n_in": (1, 10), "width": (1, 8)},
    "query-key-attention": {
        "dim": (1, 5),
        "tokens": (2, 6),
        "d_k": (1, 3),
        "n_out": (1, 3),
        "width": (1, 5),
        "readout_seed": (0, 2**16),
        "queries": ("one", "all"),
    },
    "rectangular-matrix-sensing": {"rows": (1, 6), "columns": (1, 6), "width": (1, 6)},
    "single-head-attention": {"dim": (1, 6), "tokens": (2, 7), "n_out": (1, 3), "width": (1, 6), "readout_seed": (0, 2**16)},
    "single-layer-cnn": {
        "channels": (1, 3),
        "rows": (3, 7),
        "columns": (3, 7),
        "kernel_rows": (1, 3),
        "kernel_columns": (1, 3),
        "stride": (1, 2),
        "n_out": (1, 3),
        "width": (1, 8),
        "activation": SMOOTH,
    },
    "tied-query-key-attention": {"dim": (1, 8), "width": (1, 6)},
    "two-layer-mlp": {"n_in": (1, 10), "n_out": (1, 3), "width": (1, 16), "activation": SMOOTH},
    "word-context-embedding": {"words": (1, 9), "contexts": (1, 9), "width": (1, 6)},
}
NOT_EXACT = {"multi-head-attention", "query-key-attention", "single-head-attention"}


def draw(key: str, seed: int) -> tuple[dict, float]:
    """The fields of an entry and the factor on its inputs, for one seed."""
    source = random.Random(f"{key} {seed}")
    factor = 10 ** source.uniform(*SCALES)
    spans = FIELDS[key].items()
    return {name: source.randint(*span) if isinstance(span[0], int) else source.choice(span) for name, span in spans}, factor


def expected(key: str, fields: dict) -> str:
    """What the layer is, by its own mathematics, at these choices."""
    chosen = [nqf.activation(fields[name]) for name in ("activation", "gate", "expert_activation") if name in fields]
    if any(phi.value for phi in chosen):  # a unit that is not zero at zero has a gradient there
        return "general-nqf"
    exact = key not in NOT_EXACT and all(phi.name == "identity" for phi in chosen)
    return "exact-nqf" if exact else "nqf"


def scaled(layer: nqf.Layer, factor: float) -> nqf.Layer:
    """The same layer, which is given inputs of another size: its class is derived from, nothing else changes."""
    cls = type(layer)

    def sample(self, n, generator):
        x = cls.sample(self, n, generator)
        return {name: value.double() * factor if value.is_floating_point() else value for name, value in x.items()}

    derived = type(cls.__name__, (cls,), {"sample": sample, "__module__": __name__})
    return derived(**{field.name: getattr(layer, field.name) for field in dataclasses.fields(layer) if field.init})


@dataclasses.dataclass(frozen=True)
class Result:
    """One draw, verified.

    ``floating`` tells whether it has inputs to scale; ``alarm`` is "" where it passed as what it is.
    """

    key: str
    seed: int
    fields: dict
    factor: float
    floating: bool
    wanted: str
    alarm: str
    report: nqf.Report


def measure(key: str, seed: int, profile: str) -> Result:
    """Verifies one draw."""
    torch.set_num_threads(1)
    fields, factor = draw(key, seed)
    layer = nqf.default_registry().get(key, **fields)
    if missing := {field.name for field in dataclasses.fields(layer) if field.init} - fields.keys():
        raise SystemExit(f"{key} has the fields {', '.join(sorted(missing))}, which FIELDS does not draw; add them.")
    report, wanted = nqf.verify(scaled(layer, factor), profile, seed), expected(key, fields)
    alarm = "" if report.passed and report.classification == wanted else report.line()
    floating = any(value.is_floating_point() for value in layer.sample(1, torch.Generator()).values())
    return Result(key, seed, fields, factor, floating, wanted, alarm, report)


def command(result: Result, profile: str) -> str:
    """What repeats one draw."""
    return f"python benchmarks/false_alarms.py --entry {result.key} --seed {result.seed} --profile {profile}"


def study(keys: list[str], seeds: list[int], profile: str, jobs: int):
    """Yields a result for each seed of each entry, in this order."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(
            measure, [key for key in keys for _ in seeds], seeds * len(keys), [profile] * len(keys) * len(seeds)
        )


def summary(results: list[Result]) -> str:
    """By entry, how many passed and the range of what was drawn."""
    lines = []
    for key in dict.fromkeys(result.key for result in results):
        own = [result for result in results if result.key == key]
        kinds = sorted({result.wanted for result in own})
        spans = [f"{name} {_span([result.fields[name] for result in own])}" for name in own[0].fields]
        spans.append(f"inputs × {_factors(own)}" if any(r.floating for r in own) else "inputs are integers, not scaled")
        good = sum(not result.alarm for result in own)
        lines.append(f"{key}: {good} of {len(own)} passed as {', '.join(kinds)}; {', '.join(spans)}")
    return "\n".join(lines)


def _factors(results: list[Result]) -> str:
    return f"{min(r.factor for r in results):.1e} … {max(r.factor for r in results):.1e}"


def _span(values: list) -> str:
    if isinstance(values[0], int):
        return f"{min(values)} … {max(values)}"
    return "/".join(sorted(set(values)))


def main() -> int:
    """Runs the study; 1 where there is an alarm."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds of each entry")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--entry", nargs="+", choices=sorted(FIELDS), default=sorted(FIELDS), help="which entries")
    parser.add_argument("--seed", type=int, help="this one alone, with its report")
    parser.add_argument("--profile", choices=["dev", "ci", "deep"], default="dev")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    options = parser.parse_args()
    if forgotten := set(nqf.default_registry().keys()) - FIELDS.keys():
        print(f"not in the study: {', '.join(sorted(forgotten))}", file=sys.stderr)
    if options.seed is not None:
        results = [measure(key, options.seed, options.profile) for key in options.entry]
        for result in results:
            print(f"{result.fields}, inputs × {result.factor:.3g}, expected {result.wanted}\n{result.report.render()}\n")
        return int(any(result.alarm for result in results))
    begin, results = time.perf_counter(), []
    total = len(options.entry) * options.seeds
    for result in study(
        options.entry, list(range(options.first, options.first + options.seeds)), options.profile, options.jobs
    ):
        results.append(result)
        if result.alarm:
            print(f"ALARM {result.alarm}\n  expected {result.wanted}; repeat: {command(result, options.profile)}", flush=True)
        if len(results) % options.seeds == 0:
            print(f"{len(results)} of {total}: {result.key} done after {time.perf_counter() - begin:.0f} s", flush=True)
    alarms = sum(bool(result.alarm) for result in results)
    print(f"\n{summary(results)}\n")
    print(
        f"{total - alarms} of {total} passed, {alarms} false alarms; {options.seeds} seeds of {len(options.entry)} entries, "
        f"inputs × {_factors(results)}, profile {options.profile}, "
        f"{time.perf_counter() - begin:.0f} s in {options.jobs} processes"
    )
    return int(alarms > 0)


if __name__ == "__main__":
    sys.exit(main())
