"""The built-in verbs of ``nqf``: one module of ``nqf_registry.cli`` for each, and its line in ``nqf --help``.

The table stands here, below the command line, because the registry refuses a plugin command that takes one of these names,
and because help is printed without importing any verb.
"""

VERBS = {
    "analyze": "Find the neurons of an ordinary torch module, and say what it is.",
    "catalogue": "Write the table of all entries from measurements, or compare it.",
    "compose": "Check a composition of layers from a YAML file, and draw it.",
    "demo": "The whole road on one example: verify, catalogue, compose, train.",
    "list": "List every registered layer.",
    "new": "Write a plugin file of an ordinary torch module.",
    "plugins": "List every plugin, and what is wrong with those that failed.",
    "runs": "List finished and unfinished runs, or show one.",
    "show": "Show one layer: its claims, sizes, formulas and structure.",
    "train": "Train the original layer and its quadratic form in lockstep.",
    "verify": "Measure what a layer claims, with a counterexample where it fails.",
}
