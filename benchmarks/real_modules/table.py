"""What the library says of layers that others wrote, as a table: docs/real-modules.md.

python benchmarks/real_modules/table.py [--write] [--only TEXT]

Exits with 1 where a partition that was found is not one that was declared by hand, or the other way round, or where the page
says otherwise than what was measured (times apart).
"""

import argparse
import re
import sys
import time
from pathlib import Path
from textwrap import shorten

import package_layers
import torch
import torch_layers

import nqf_registry as nqf
from nqf_registry.verify.setting import Setting, Undecided

WHY = 130  # characters of a reason
PAGE = Path(__file__).parents[2] / "docs" / "real-modules.md"
HEAD = """# Real layers

What `nqf.analyze` says of layers from `torch.nn`, `transformers` and `peft`, at small sizes and in evaluation mode. Every group
of interchangeable units is a line, found by `nqf.find_neurons` and compared, as permutations of the parameters, with the units
that were declared by hand. What cannot be followed is verified with the declared units, and says so. *Order* is that of
f(W) − f(0) along small weights; *inert* is what A(x) does not reach. A layer that is `no-neurons` has no units whose exchange
leaves its outputs unchanged. `python benchmarks/real_modules/table.py --write` writes this page.

| package | layer | units | verdict | order | A(x) | inert | seconds |
|---|---|---|---|---|---|---|---|
"""


def rows(entry):
    """The lines of an entry, and what is wrong with its partitions."""
    torch.manual_seed(0)
    module, example = entry.make()
    begin = time.perf_counter()
    seen = nqf.analyze(module, example, output=entry.output)
    seconds = time.perf_counter() - begin
    groups, wrong = list(seen.groups), []
    distinct = entry.distinct_parameters(module, example)
    for units in entry.units:
        same = [group for group in groups if units.acts_as(group.neurons, distinct)]
        if same:
            groups.remove(same[0])
        else:
            wrong.append(f"{entry.name}: not found: {dict(units.patterns)}")
    wrong += [f"{entry.name}: found, not declared: {group.neurons}" for group in groups]
    lines = [row(entry, group, f"{seconds:.1f}" if i == 0 else "") for i, group in enumerate(seen.groups)]
    if not lines and seen.found.undecided and entry.units:  # what cannot be followed is declared
        for units in entry.units:
            layer = nqf.from_module(module, example, units.patterns, sizes=units.sizes, output=entry.output)
            report = nqf.verify(layer)
            names = ", ".join(f"`{name}`" for name in units.patterns)
            lines.append(
                [f"{layer.width} (declared, not found): {names}", report.classification, order(layer), why(report), "–", ""]
            )
        lines[0][-1] = f"{time.perf_counter() - begin:.1f}"
        wrong = []
    if not lines:
        lines = [["–", seen.classification, "–", "–", "–", f"{seconds:.1f}"]]
    return [[entry.package if i == 0 else "", entry.name if i == 0 else "", *line] for i, line in enumerate(lines)], wrong


def row(entry, group, seconds):
    """One group: units, verdict, order, A, inert parts."""
    report = group.report
    inert = ", ".join(f"`{name}`" for name in group.growth.inert) if group.growth is not None else ""
    blocks = ", ".join(f"`{name}`" for name in group.neurons.partition.patterns)
    return [f"{group.neurons.width}: {blocks}", report.classification, order(group.layer), form(group), inert or "–", seconds]


def order(layer):
    """The exponent of f(W) − f(0) along small random weights."""
    found = Setting(layer, layer.sample(4, torch.Generator().manual_seed(0)))
    try:
        return f"{found.order:.2g}" if found.order is not None else "constant"
    except Undecided:
        return "–"


def form(group):
    """The closed form where there is one, else what A couples."""
    if group.form is not None and group.form.complete and group.form.terms:
        return "; ".join(f"`{term}`" for term in group.form.terms)
    if group.structure:
        return f"couples {', '.join(f'`{pair}`' for pair in group.structure['couplings']) or 'nothing'}"
    return why(group.report)


def why(report):
    """What kept a layer from being decided; a dash where nothing did."""
    causes = [re.sub(r" of \d[\d.]*e-\d+", "", check.cause) for check in report.checks if check.cause]
    return shorten(causes[0], WHY, placeholder=" …") if report.classification == "undecided" and causes else "–"


def main():
    """Measures all layers, and writes or compares the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the page")
    parser.add_argument("--only", default="", help="layers whose name has this text")
    args = parser.parse_args()
    torch.set_num_threads(1)
    found, wrong = [], []
    entries = [entry for entry in [*torch_layers.LAYERS, *package_layers.LAYERS] if args.only.lower() in entry.name.lower()]
    for entry in entries:
        lines, mistakes = rows(entry)
        found += lines
        wrong += mistakes
        for line in lines:
            print(" | ".join(line), flush=True)
    page = HEAD + "".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |\n" for line in found)
    if args.write:
        PAGE.write_text(page)
    elif not args.only and (not PAGE.exists() or timeless(PAGE.read_text()) != timeless(page)):
        wrong.append(f"{PAGE.name} says otherwise; write it anew by --write")
    print(
        f"\n{len(entries)} layers, {sum(len(e.units) for e in entries)} declared partitions; {len(wrong)} mistakes",
        *wrong,
        sep="\n",
    )
    sys.exit(bool(wrong))


def timeless(page):
    """The page without what differs from one run to the next."""
    return re.sub(r"\| [0-9.]* \|$", "|", page, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
