"""A module as the text of a plugin file: its neurons, and its A(x) in the closed form that was recognised."""

from __future__ import annotations

import keyword
import re
from collections.abc import Sequence

from nqf_registry.errors import InvalidInput
from nqf_registry.modules.adapter import layer_key
from nqf_registry.modules.analysis import GroupAnalysis

FILE = '''"""{title} as a layer of its {width} units{closed}.

Written by ``nqf new``: ``nqf verify {name}.py`` measures what it says, and it is yours to change.
"""

from dataclasses import dataclass, field
from functools import cache

import torch
{functional}
import nqf_registry as nqf

NEURONS = {neurons}
SIZES = {sizes}
BLOCKS = {blocks}  # names here, and of the parameters


@cache
def base():
    """The module as a layer; what lies outside the neurons is held at the values of this seed."""
    from {where} import {root}

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed({seed})
        module = {call}{mode}
    generator = torch.Generator().manual_seed({seed})
    inputs = []
{inputs}
    return nqf.from_module(module, tuple(inputs), NEURONS, sizes=SIZES)


@dataclass(frozen=True)
class {cls}(nqf.Layer):
    """{title}, a neuron being what one index d of its parameters selects."""

    key = {key!r}
    title = {title!r}
    claims = nqf.Claims({claims})

    width: int = field(default={width}, init=False)

    def blocks(self):
        """The parameters of one neuron."""
        shapes = base().blocks()
        return {{name: shapes[parameter] for name, parameter in BLOCKS.items()}}

    def sample(self, n, generator):
        """Inputs like the example."""
        return base().sample(n, generator)

    def forward(self, W, x):
        """The module with these weights, all outputs of a sample in one row."""
        return base().forward({{parameter: W[name] for name, parameter in BLOCKS.items()}}, x)
{structure}

@nqf.hookimpl
def nqf_register(register):
    """Registers ``{key}``."""
    register({cls})
'''

STRUCTURE = '''
    def structure(self, x):
        """{text}."""
        like = next(iter(x.values()))
        return {code}
'''


def plugin_file(
    group: GroupAnalysis,
    where: str,
    name: str,
    call: str,
    inputs: Sequence[str],
    seed: int = 0,
    key: str = "",
    training: bool = False,
) -> str:
    """The text of a plugin file.

    Args:
        group: the neurons, with their verdict and the form of A(x).
        where: the package of the class.
        name: of the class, with dots where it is nested.
        call: the expression that makes the module.
        inputs: by input of the module an expression that draws it, of ``generator`` and ``inputs``, those before it.
        seed: of weights and inputs.
        key: of the layer; by default from the name of the class.
        training: whether the module stays in training mode.

    Raises:
        InvalidInput: the key is none.
    """
    key = key or layer_key(name.rpartition(".")[2])
    if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key):
        raise InvalidInput(f"a key is lower-case words joined by hyphens, such as gated-unit; got {key!r}.")
    report, form = group.report, group.form
    quadratic = report.classification in ("nqf", "exact-nqf")
    closed = form is not None and form.complete and quadratic
    blocks = block_names(list(group.neurons.partition.patterns))
    structure, functional = "", ""
    if form is not None and closed:
        code = "\n            + ".join(
            term.code({parameter: block for block, parameter in blocks.items()}) for term in form.terms
        )
        code = f"(\n            {code}\n        )" if len(form.terms) > 1 else code
        structure = STRUCTURE.format(text="; ".join(map(str, form.terms)), code=code)
        functional = "from torch.nn import functional as F\n" if "F." in code else ""
    broken = {check.name for check in report.checks if check.broken}
    claims = ["zgz=False"] * ("zero-gradient-at-zero" in broken) + ["smooth=False"] * ("smoothness" in broken)
    claims += ["exact=True"] * (report.classification == "exact-nqf" and closed)
    cls = "".join(word.capitalize() for word in key.split("-"))
    cls = f"Layer{cls}" if cls[0].isdigit() or keyword.iskeyword(cls) else cls
    cls += "Layer" * (cls == name.partition(".")[0])
    return FILE.format(
        title=call.replace('"', "'"),
        width=group.neurons.width,
        closed=", with A(x) in closed form" if closed else "; its A(x) is derived by autodiff",
        name=key.replace("-", "_"),
        functional=functional,
        neurons=dict(group.neurons.partition.patterns),
        sizes=dict(group.neurons.partition.sizes),
        blocks=blocks,
        where=where,
        root=name.partition(".")[0],
        seed=seed,
        call=call,
        mode="" if training else ".eval()",
        inputs="\n".join(f"    inputs.append({text})" for text in inputs),
        cls=cls,
        key=key,
        claims=", ".join(claims),
        structure=structure,
    )


def block_names(parameters: Sequence[str]) -> dict[str, str]:
    """Names for blocks, which are identifiers, of parameters, which may have dots.

    >>> block_names(["0.weight", "fc.weight", "fc_weight"])
    {'w_0_weight': '0.weight', 'fc_weight': 'fc.weight', 'fc_weight_': 'fc_weight'}
    """
    found: dict[str, str] = {}
    for parameter in parameters:
        name = re.sub(r"\W", "_", parameter)
        name = f"w_{name}" if not name.isidentifier() or keyword.iskeyword(name) else name
        while name in found:
            name += "_"
        found[name] = parameter
    return found
