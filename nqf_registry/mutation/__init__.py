"""The verifier verified: faults planted in a layer on purpose, and how many of them a verification catches.

What catches every fault planted in a layer can be believed where it finds none.
"""

from nqf_registry.mutation.harness import Result, run_mutants
from nqf_registry.mutation.mutants import Mutant, altered, plan

__all__ = ["Mutant", "Result", "altered", "plan", "run_mutants"]
