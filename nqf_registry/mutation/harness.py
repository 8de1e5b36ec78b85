"""Plants every fault in a layer, verifies each mutant, and says which were caught, by which checks, and which cannot be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nqf_registry.layer import Layer
from nqf_registry.mutation.equivalence import comparisons
from nqf_registry.mutation.mutants import Mutant, plan
from nqf_registry.verify.report import FAIL, UNDECIDED
from nqf_registry.verify.suite import verify


@dataclass(frozen=True)
class Result:
    """What became of one mutant.

    Attributes:
        layer: key of the layer.
        kind: of fault.
        caught: whether the verification did not pass, for one of the reasons that the fault gives it.
        by: the checks that failed, or that were promised and could not be decided.
        equivalent: in how many comparisons the mutant did and declared the same as the layer; 0 where it differs.
        description: what was done.
    """

    layer: str
    kind: str
    caught: bool
    by: tuple[str, ...]
    equivalent: int = 0
    description: str = ""

    @property
    def survived(self) -> bool:
        """Whether the mutant is another layer, and passed."""
        return not self.caught and not self.equivalent


def run_mutants(layer: Layer, profile: str = "dev", seed: int = 0, mutants: Iterable[Mutant] | None = None) -> list[Result]:
    """Verifies every mutant of a layer.

    A mutant is caught if its verification does not pass and one of the checks that its fault must disturb is among the failed
    ones. One that passes is compared with the layer: only if both do and declare the same throughout is it equivalent.

    Args:
        layer: a layer that passes.
        profile: brief, dev, ci or deep.
        seed: of the verifications.
        mutants: which; all of :func:`nqf_registry.mutation.plan` if left out.

    Example:
        >>> import nqf_registry as nqf
        >>> from nqf_registry.mutation import run_mutants
        >>> results = run_mutants(nqf.default_registry().get("quadratic-network"))
        >>> sum(result.caught for result in results) >= 20, [result.kind for result in results if result.survived]
        (True, [])
    """
    results = []
    for mutant in plan(layer) if mutants is None else mutants:
        report = verify(mutant.layer, profile, seed)
        by = tuple(check.name for check in report.failures if check.status == FAIL)
        if mutant.undecided:
            by += tuple(check.name for check in report.failures if check.status == UNDECIDED)
        caught = not report.passed and bool(set(by) & set(mutant.expected))
        equal = 0 if caught else comparisons(layer, mutant.layer)
        results.append(Result(layer.key, mutant.kind, caught, by, equal, mutant.description))
    return results
