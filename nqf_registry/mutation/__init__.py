"""The verifier verified: faults planted in a layer on purpose, and how many of them a verification catches.

What catches every fault planted in a layer can be believed where it finds none. Each family of faults has its file: what is
declared (structure), what is computed (forward), smoothness (kink), the gradient, calling, the partition and the claims.
"""

from nqf_registry.mutation.harness import Result, run_mutants
from nqf_registry.mutation.mutants import Mutant, altered, computing, plan

__all__ = ["Mutant", "Result", "altered", "computing", "plan", "run_mutants"]
