"""Plants every fault in each of the seventeen entries and writes how many the verification catches.

    python benchmarks/mutation_table.py            # docs/mutants.md
    python benchmarks/mutation_table.py --check    # exit 1 where that page is not what is measured
    python benchmarks/mutation_table.py --entry two-layer-mlp --seed 3

Faults that any layer can have come from ``nqf_registry.mutation``; those that only some entries can have are here.
"""

import argparse
import dataclasses
import os
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import torch

import nqf_registry as nqf
from nqf_registry.mutation import Mutant, altered, plan, run_mutants

PAGE = Path(__file__).parent.parent / "docs" / "mutants.md"
FORM = ("structure-matrix", "remainder-order")
ZERO = ("zero-gradient-at-zero",)


def with_structure(layer, kind, what, change):
    """A mutant whose structure is a function of the right one, the layer and its inputs."""
    original = type(layer).structure
    wrong = altered(layer, structure=lambda self, x: change(self, original(self, x), x))
    return Mutant(kind, wrong, FORM, description=what)


def covariance_with_n_minus_one(layer):
    """Σ_X over N − 1 where the layer has it over N."""
    return with_structure(
        layer, "covariance with N − 1", "Σ_X over N − 1", lambda self, A, x: (x["X"].shape[1] / (x["X"].shape[1] - 1)) * A
    )


def sum_for_mean(layer):
    """A sum over tokens where the layer has the mean."""
    return with_structure(layer, "sum for mean", "tokens added", lambda self, A, x: float(x["X"].shape[1]) * A)


def uncentred(layer):
    """X Xᵀ / N for the covariance."""
    original = type(layer).structure

    def structure(self, x):
        centred = x["X"] - x["X"].mean(1, keepdim=True)
        size = (x["X"].square().sum((1, 2)) / centred.square().sum((1, 2))).sqrt()
        return nqf.dense(original(self, x).dense() * size[:, None, None, None])

    return Mutant("mean not taken off", altered(layer, structure=structure), FORM, description="A of the size of X Xᵀ / N")


def transposed_square(**sizes):
    """S transposed, where it is square."""

    def make(layer):
        other = dataclasses.replace(layer, **sizes)
        return next(mutant for mutant in plan(other) if mutant.kind == "coefficient transposed")

    return make


def without_root(name):
    """The 1/√size of the logits forgotten."""

    def make(layer):
        return with_structure(
            layer, f"1/√{name} forgotten", f"A × √{name}", lambda self, A, x: float(getattr(self, name)) ** 0.5 * A
        )

    return make


def mean_for_sum(layer):
    """Patches averaged where the layer adds them."""
    count = layer.positions[0] * layer.positions[1]
    return with_structure(layer, "mean for sum", "patches averaged", lambda self, A, x: (1 / count) * A)


def forgotten_slope(**choices):
    """φ'(0) = 1 for an activation that has another slope."""
    slope = nqf.activation(next(iter(choices.values()))).slope

    def make(layer):
        other = dataclasses.replace(layer, **choices)
        what = "φ'(0) = 1 for gelu"
        return with_structure(other, "slope of the activation forgotten", what, lambda self, A, x: (1 / slope) * A)

    return make


def false_zero_gradient(**choices):
    """A claim of zero gradient at zero with an activation that has none."""

    def make(layer):
        other = dataclasses.replace(layer, **choices)
        claims = dataclasses.replace(other.claims, zgz=True)
        what = "claims.zgz = True where it does not hold"
        return Mutant("false claim: zero gradient at zero", altered(other, claims=claims), ZERO, description=what)

    return make


def missing_linear(**choices):
    """A linear part g = 0 declared where the activation does not vanish at zero."""

    def make(layer):
        other = dataclasses.replace(layer, **choices)
        return Mutant("linear part dropped", altered(other, linear=lambda self, x: {}), FORM, description="g = 0 declared")

    return make


OWN = {
    "rectangular-matrix-sensing": [transposed_square(rows=4, columns=4)],
    "query-key-attention": [covariance_with_n_minus_one, uncentred, without_root("d_k")],
    "single-head-attention": [covariance_with_n_minus_one, uncentred, without_root("width")],
    "tied-query-key-attention": [without_root("width")],
    "multi-head-attention": [sum_for_mean],
    "mixture-of-experts": [
        forgotten_slope(gate="gelu"),
        false_zero_gradient(gate="sigmoid"),
        missing_linear(gate="sigmoid"),
    ],
    "single-layer-cnn": [
        mean_for_sum,
        forgotten_slope(activation="gelu"),
        false_zero_gradient(activation="sigmoid"),
        missing_linear(activation="sigmoid"),
    ],
    "two-layer-mlp": [
        forgotten_slope(activation="gelu"),
        false_zero_gradient(activation="sigmoid"),
        missing_linear(activation="sigmoid"),
    ],
}

WHY = {
    "neurons weighted by index": "the width is fixed at 1, and the first index weighs 1",
    "blocks exchanged": "both blocks meet the same coefficient, so A is its own image",
    "coefficient transposed": "A is the symmetric part of the form, which transposing the coefficient leaves alone",
    "matrix not symmetric": "A is diagonal: it has no other triangle",
    ("multi-head-attention", "blocks exchanged"): "K and Q are of one size and inert: A is zero at both",
    ("mixture-of-experts", "coefficient transposed"): "gate and expert both see x, so the two vectors are one",
}


def mutants_of(key):
    """Every mutant of one entry, the general ones first."""
    layer = nqf.default_registry().get(key)
    return layer, [*plan(layer), *(make(layer) for make in OWN.get(key, ()))]


def measure(arguments):
    """The results of one entry, in a process of its own."""
    key, seed = arguments
    torch.set_num_threads(1)
    layer, mutants = mutants_of(key)
    return run_mutants(layer, seed=seed, mutants=mutants)


def run(keys, seed, jobs):
    """The results of all entries, in the order of their keys."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        results = []
        for key, found in zip(keys, pool.map(measure, [(key, seed) for key in keys]), strict=True):
            print(f"{key}: {sum(r.caught for r in found)} of {len(found)} caught", file=sys.stderr, flush=True)
            results += found
        return results


def table(rows, head):
    """A Markdown table."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def counted(results, of):
    """Caught, planted and equivalent by entry or by kind, as rows."""
    names = dict.fromkeys(of(result) for result in results)
    rows = []
    for name in names:
        own = [result for result in results if of(result) == name]
        equivalent = sum(bool(result.equivalent) for result in own)
        caught = sum(result.caught for result in own)
        rows.append((name, f"{caught} / {len(own) - equivalent}", equivalent or ""))
    return rows


def page(results):
    """docs/mutants.md."""
    equivalent = [result for result in results if result.equivalent]
    survivors = [result for result in results if result.survived]
    planted, caught = len(results) - len(equivalent), sum(result.caught for result in results)
    by_check = Counter(name for result in results if result.caught for name in result.by)
    what_of = {result.kind: result.description.replace("|", "\\|") for result in results}
    kinds = len(what_of)
    lines = [
        "# The verifier, verified",
        "",
        f"{kinds} kinds of fault were planted in the seventeen entries, one at a time, and each mutant was verified like",
        f"any other layer (profile dev). **{caught} of {planted} were caught.** {len(equivalent)} more are the entry itself in",
        "other words.",
        "",
        "A mutant counts as caught only if its verification does not pass *and* one of the checks that its fault must",
        "disturb is among those that failed: a kink must fail `smoothness`, not merely something. One that passes is compared",
        "with the entry, output by output and A(x) by A(x), at several widths, seeds and numbers of samples; only where all",
        "are equal is it equivalent.",
        "",
        "This page is written by `python benchmarks/mutation_table.py`; `--check` compares. For a layer of your own:",
        "`nqf_registry.mutation.run_mutants(layer)`.",
        "",
        "## By entry",
        "",
        *table(counted(results, lambda r: f"`{r.layer}`"), ("entry", "caught / planted", "equivalent")),
        "",
        "## By kind of fault",
        "",
        *table(
            [(kind, what_of[kind], *row) for kind, *row in counted(results, lambda r: r.kind)],
            ("kind", "what was done", "caught / planted", "equivalent"),
        ),
        "",
        "## By check",
        "",
        "How many mutants each check failed; one mutant may fail several.",
        "",
        *table(sorted(by_check.items(), key=lambda item: (-item[1], item[0])), ("check", "mutants")),
        "",
        "## Equivalent mutants",
        "",
        *table(
            [(f"`{r.layer}`", r.kind, WHY.get((r.layer, r.kind), WHY.get(r.kind, "")), r.equivalent) for r in equivalent],
            ("entry", "kind", "why it is the same layer", "equal comparisons"),
        ),
        "",
        "## Survivors",
        "",
        *(
            table([(f"`{r.layer}`", r.kind, ", ".join(r.by) or "none failed") for r in survivors], ("entry", "kind", "failed"))
            if survivors
            else ["None."]
        ),
    ]
    return "\n".join(lines) + "\n"


def main():
    """Measures, and writes or compares the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the committed page")
    parser.add_argument(
        "--entry", action="append", choices=nqf.default_registry().keys(), help="only this entry; prints the page"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    results = run(arguments.entry or nqf.default_registry().keys(), arguments.seed, arguments.jobs)
    text = page(results)
    survivors = sum(result.survived for result in results)
    if arguments.entry or arguments.seed:
        print(text)
    elif arguments.check:
        if PAGE.read_text() != text:
            print(f"{PAGE.name} is not what is measured; write it anew by python benchmarks/mutation_table.py", file=sys.stderr)
            return 1
    else:
        PAGE.write_text(text)
    print(f"{sum(result.caught for result in results)} caught, {survivors} survived", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
