"""Every speed figure in one table: whole runs of this library against plain loops, as ratios within one process.

    python benchmarks/training/speed.py OPPONENTS_FOLDER [--only SECTION ...] [--rounds 9] [--write]

OPPONENTS_FOLDER holds plain.py, the loops that are compared with, imported unchanged. Figures are the opponent's seconds a step
over those of the whole ``nqf.train`` call (set-up and records included; ``verify=False``, so no verification is timed), in
float32, medians of interleaved rounds after a warm-up. --write writes docs/speed.md and its picture.
"""

import argparse
import platform
import time
from dataclasses import dataclass
from pathlib import Path

import opponents
import plain_loops
import torch
from rounds import Timing, compare, seconds_a_step

import nqf_registry as nqf

PAGE = """# Speed

How much quicker a whole `nqf.train` call is than a plain eager PyTorch loop of the same layer and data, both in one
process, in float32 on the CPU. The call is timed with its set-up and its records, without the verification of the
layer's first use. A ratio is that of the seconds a step, the plain loop's over the call's: the median of interleaved
rounds after a warm-up. S, M and L are two-layer perceptrons of 64, 1,000 and 1,000 hidden units on 600, 600 and 2,000
samples. *Wanted* is what the library sets itself; a figure below it is a target that this measurement missed. `python
benchmarks/training/speed.py FOLDER --write` writes this page.
"""
DOCS = Path(__file__).parents[2] / "docs"


@dataclass(frozen=True)
class Row:
    """One figure of the table; ``at_least`` is what it has to be, None where nothing is promised."""

    section: str
    name: str
    against: str
    timing: Timing
    at_least: float | None
    note: str = ""


def run(models, data, steps, replicas=1, **settings):
    """A function that trains and gives seconds a step of a replica."""
    settings = {"lr": 1e-3, "verify": False, "device": "cpu", "replicas": replicas, "steps": steps} | settings

    def timed():
        started = time.perf_counter()
        nqf.train(models, data, **settings)
        return (time.perf_counter() - started) / steps / replicas

    return timed


def loop(step, count):
    """A function that takes steps of a plain loop and gives seconds a step."""
    return lambda: seconds_a_step(step, count)


def sizes(plain, rounds):
    """S, M and L: 20,000 steps with 100 records for the forms; fewer for the originals, whose steps take longer."""
    torch.set_num_threads(1)
    wanted = {"nqf": (15, 30, 50), "order-parameters": (15, 90, 200), "original": (2, 1.6, 1.2)}
    for which, size in enumerate(plain.SIZES):
        layer, data = opponents.mlp(plain.SIZES[size])
        for kind in (nqf.NQF, nqf.OrderParameters, nqf.Original):
            against = f"mlp-{size}" if kind is nqf.Original else f"mlp-nqf-{size}"
            steps = {"S": 4000, "M": 400, "L": 100}[size] if kind is nqf.Original else 20_000
            records = max(2, steps // 200)  # as dense as 100 records in 20,000 steps
            mine = run(kind(layer), data, steps, records=records)
            timing = compare(mine, loop(plain.OPPONENTS[against](), {"S": 400, "M": 60, "L": 12}[size]), rounds)
            yield Row(
                "sizes", f"{kind.name} {size}", against, timing, wanted[kind.name][which], f"{steps} steps, {records} records"
            )


def large(plain, rounds):
    """The convolution and query-key attention with two threads and Adam."""
    torch.set_num_threads(2)
    for name, made, targets in (
        ("cnn", opponents.cnn, {"cnn": 2.0}),
        ("query-key", opponents.query_key, {"query-key-separate": 4.0, "query-key-folded": 0.95}),
    ):
        layer, data = made()
        for against, wanted in targets.items():
            mine = run(nqf.Original(layer), data, 120, optimizer="adam", records=2)
            timing = compare(mine, loop(plain.OPPONENTS[against](), 2), rounds)
            yield Row("large", f"original {name}", against, timing, wanted, "120 steps, 2 records, 2 threads")


def replicas(plain, rounds):
    """256 replicas, per replica-step, against one replica of the plain loop of the form."""
    torch.set_num_threads(1)
    layer, data = opponents.mlp(plain.SIZES["S"])
    for model, steps, wanted in (
        (nqf.OrderParameters(layer), 2000, 100),
        (nqf.Original(layer), 100, 2),
        (nqf.Original(layer, replicas=1), 100, None),
    ):
        name = f"{model.name}, 256 replicas" + (", one a piece" if getattr(model, "replicas", None) == 1 else "")
        mine = run(model, data, steps, replicas=256, records=3)
        timing = compare(mine, loop(plain.OPPONENTS["mlp-nqf-S"](), 400), rounds)
        yield Row("replicas", name, "mlp-nqf-S", timing, wanted, f"{steps} steps, 3 records")


def bare_step(model, data):
    """One step of a model without the loop around it."""
    from nqf_registry.train.lockstep import Lockstep
    from nqf_registry.train.losses import find_loss
    from nqf_registry.train.models import initial_weights
    from nqf_registry.train.optimizers import GradientDescent

    rule = GradientDescent((1e-3,))
    lockstep = Lockstep([model], data.to("cpu", torch.float32), find_loss("squared"), rule, None)
    progress = lockstep.begin(initial_weights(model.subject, [0]))
    take, _ = lockstep.objectives(0)[0].stepper(lockstep.rules[0], progress.states[0], progress.slots[0])
    return take


def steps_of(take, count):
    """A function that takes bare steps and gives seconds a step."""

    def timed():
        with torch.no_grad():
            return seconds_a_step(lambda: take(1), count)

    return timed


def width(plain, rounds):
    """Order parameters at width 10⁶ against width 100; the opponent is the narrow one, so 0.95 is five per cent."""
    torch.set_num_threads(1)
    n_in, _, n_out, n = plain.SIZES["S"]
    made = [opponents.mlp((n_in, d, n_out, n)) for d in (10**6, 100)]
    wide, narrow = (steps_of(bare_step(nqf.OrderParameters(layer), data), 20_000) for layer, data in made)
    yield Row("width", "order-parameters, 10⁶ wide", "100 wide", compare(wide, narrow, rounds), 0.95, "steps alone")


def overhead(plain, rounds):
    """The loop around a step against the bare step, from about 50 µs a step upwards."""
    torch.set_num_threads(1)
    for size in plain.SIZES:
        layer, data = opponents.mlp(plain.SIZES[size])
        steps = {"S": 20_000, "M": 2000, "L": 200}[size]
        bare = steps_of(bare_step(nqf.Original(layer), data), steps)
        timing = compare(run(nqf.Original(layer), data, steps, records=2), bare, rounds)
        yield Row("overhead", f"original {size}, whole call", "its bare steps", timing, 0.95, f"{steps} steps, 2 records")


def seventeen(plain, rounds):
    """Every entry against its own plain loop, 600 samples of a teacher."""
    torch.set_num_threads(1)
    for layer in nqf.default_registry().layers():
        if layer.key not in plain_loops.PREDICT:
            continue
        data = nqf.teacher(layer, n=600)
        step, _ = plain_loops.make(layer, data)
        timing = compare(run(nqf.Original(layer), data, 2000, lr=1e-4, records=10), loop(step, 300), rounds)
        yield Row("seventeen", f"original {layer.key}", "its plain loop", timing, 0.95, "2000 steps, 10 records")


SECTIONS = {f.__name__: f for f in (sizes, large, replicas, width, overhead, seventeen)}


def machine():
    """One line on what was measured on."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        name = next((line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line), name)
    return (
        f"{name}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"nqf_registry {nqf.__version__}"
    )


def text(rows):
    """The table in Markdown."""
    lines = ["| section | run | against | mine, µs | opponent, µs | ratio | wanted |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        t, wanted = row.timing, "" if row.at_least is None else f"{row.at_least:g}"
        lines.append(
            f"| {row.section} | {row.name} ({row.note}) | {row.against} | {1e6 * t.mine:.4g} | {1e6 * t.opponent:.4g} | "
            f"{t.ratio:.2f} | {wanted} |"
        )
    return "\n".join(lines)


def picture(rows, path):
    """Bars of the ratios on a logarithmic axis, with what is wanted as a tick on each."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.27 * len(rows) + 1.2), layout="constrained")
    FigureCanvasAgg(figure)
    axis = figure.subplots()
    places = range(len(rows))
    axis.barh(places, [row.timing.ratio - 1 for row in rows], left=1, color="#1b6ca8", height=0.7)
    for place, row in zip(places, rows, strict=True):
        axis.text(max(row.timing.ratio, row.at_least or 0, 1) * 1.04, place, f"{row.timing.ratio:.3g}", va="center", fontsize=8)
        if row.at_least is not None:
            axis.plot([row.at_least] * 2, [place - 0.42, place + 0.42], color="#d1495b", linewidth=2)
    axis.set_xscale("log")
    axis.set_yticks(places, [f"{row.name} : {row.against}" for row in rows], fontsize=8)
    axis.invert_yaxis()
    axis.margins(y=0.01)
    axis.set_xlim(0.8, 2.5 * max(row.timing.ratio for row in rows))
    axis.set_xlabel("times as quick as the opponent; red: what is wanted")
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})


def page(rows, where):
    """The page of the documentation."""
    return f"{PAGE}\nMeasured on: {where}.\n\n![ratios](speed.svg)\n\n{text(rows)}\n"


def main():
    """Measures, prints, and writes the page if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("opponents", help="folder of plain.py")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--write", action="store_true", help="write docs/speed.md and docs/speed.svg")
    arguments = parser.parse_args()
    plain, rows = opponents.load(arguments.opponents), []
    print(machine(), flush=True)
    for section in arguments.only:
        for row in SECTIONS[section](plain, arguments.rounds):
            rows.append(row)
            print(f"{row.section:10s} {row.name:42s} {row.timing.ratio:8.2f}  (wanted {row.at_least})  {row.note}", flush=True)
    if arguments.write:
        picture(rows, DOCS / "speed.svg")
        (DOCS / "speed.md").write_text(page(rows, f"{machine()}; {arguments.rounds} rounds"))


if __name__ == "__main__":
    main()
