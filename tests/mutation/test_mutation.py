"""Planted faults: caught for the right reason, told from the layer itself, and missed by a verifier that is blind."""

import importlib.util
import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.mutation import Mutant, altered, plan, run_mutants
from nqf_registry.mutation.equivalence import comparisons
from nqf_registry.verify import checks

ROOT = Path(__file__).parent.parent.parent
KEYS = nqf.default_registry().keys()


@dataclass(frozen=True)
class Units(nqf.Layer):
    """Σ v_i tanh(u_i·x), everything declared that can be."""

    key = "test-planted"
    width: int = 3

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return torch.tanh(x["x"] @ W["u"]) @ W["v"].mT

    def structure(self, x):
        return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")

    def offset(self, x):
        return 0.0

    def pullback(self, W, x, cotangent):
        h = torch.tanh(x["x"] @ W["u"])
        return {"u": x["x"].mT @ ((cotangent @ W["v"]) * (1 - h**2)), "v": cotangent.mT @ h}


MUTANTS = {mutant.kind: mutant for mutant in plan(Units())}


@pytest.mark.parametrize("kind", MUTANTS)
def test_every_fault_of_a_small_layer_is_caught_for_its_own_reason(kind):
    [result] = run_mutants(Units(), mutants=[MUTANTS[kind]])
    assert result.caught and not result.survived, result
    assert set(result.by) & set(MUTANTS[kind].expected)


def test_the_layer_itself_passes():
    assert nqf.verify(Units()).passed


def test_a_written_gradient_is_planted_in_too():
    assert "gradient × 1.01" in MUTANTS and "offset wrong" in MUTANTS and "constant added" in MUTANTS
    assert len(MUTANTS) >= 45 and all(mutant.description for mutant in MUTANTS.values())


@dataclass(frozen=True)
class Coupled(nqf.Layer):
    """Σ_i a·x σ(w_i·x) + b (Σ_i w_i·x)²: g and B are not zero, the replica axis and linearise are its own."""

    key = "test-coupled"
    claims = nqf.Claims(zgz=False)
    batched = True
    width: int = 3

    def blocks(self):
        return {"w": (3,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        h = x["x"] @ W["w"]  # (…, n, d)
        return (torch.tanh(h) + h**2).sum(-1, keepdim=True) + 0.5 * h.sum(-1, keepdim=True) ** 2

    def linearise(self, W, x):
        h = x["x"] @ W["w"]
        slope = 1 - torch.tanh(h) ** 2 + 2 * h + h.sum(-1, keepdim=True)
        return self.forward(W, x), lambda c: {"w": x["x"].mT @ (c * slope)}

    def structure(self, x):
        return 1.5 * nqf.quadratic("i,ni,nj,j->n", "w", x["x"], x["x"], "w")

    def linear(self, x):
        return {"w": x["x"][:, None]}

    def cross(self, x):
        return 0.5 * nqf.quadratic("i,ni,nj,j->n", "w", x["x"], x["x"], "w")


GENERAL = {mutant.kind: mutant for mutant in plan(Coupled())}


def test_the_coupled_layer_itself_passes():
    report = nqf.verify(Coupled())
    assert report.passed and report.classification == "general-nqf"


@pytest.mark.parametrize(
    "kind",
    [
        "linear part × 1.01",
        "linear part dropped",
        "cross part × 1.01",
        "cross part dropped",
        "false claim: zero gradient at zero",
        "replicas mixed",
        "gradient × 1.01",
        "gradient of one neuron wrong",
        "structure × 1.01",
        "noise",
    ],
)
def test_faults_of_the_general_form_and_of_a_replica_axis_are_caught(kind):
    [result] = run_mutants(Coupled(), mutants=[GENERAL[kind]])
    assert result.caught, result


def test_a_layer_that_declares_nothing_has_mutants_too():
    class Plain(Units):
        structure = offset = pullback = None

    kinds = [mutant.kind for mutant in plan(Plain())]
    assert len(kinds) >= 25 and not [kind for kind in kinds if kind.startswith(("structure", "offset", "gradient ×"))]


def test_the_same_layer_in_other_words_is_equivalent_and_another_is_not():
    layer = Units()
    same = altered(layer, structure=lambda self, x: 2.0 * (0.5 * type(layer).structure(self, x)))
    assert comparisons(layer, same) > 100
    for other in (
        altered(layer, structure=lambda self, x: (1 + 1e-12) * type(layer).structure(self, x)),
        altered(layer, forward=lambda self, W, x: type(layer).forward(self, W, x) * (1 + 2**-52)),
        altered(layer, offset=lambda self, x: 1e-9),
        altered(layer, claims=nqf.Claims(sign_symmetric=True)),
        altered(layer, pullback=lambda self, W, x, c: {n: 1.0001 * g for n, g in type(layer).pullback(self, W, x, c).items()}),
    ):
        assert comparisons(layer, other) == 0


@pytest.mark.parametrize(
    "kind", ["weights written to", "torch seeded", "random numbers drawn", "inputs drawn elsewhere", "gradient cut"]
)
def test_a_mutant_of_the_same_values_is_not_equivalent(kind):
    """What it writes to, draws, or gives as a gradient tells it apart."""
    assert comparisons(Units(), MUTANTS[kind].layer) == 0


def test_a_mutant_that_writes_after_it_has_computed_is_not_equivalent():
    class Late(Units):
        def forward(self, W, x):
            value = Units.forward(self, W, x)
            W["v"].mul_(1.5)
            return value

    assert comparisons(Units(), Late()) == 0


def test_two_neurons_as_one_is_the_same_function():
    """The mutants of the partition are right but for their partition: nothing else may fail or be undecided."""
    for kind in ("two neurons as one", "two neurons side by side"):
        assert [check.name for check in nqf.verify(MUTANTS[kind].layer).failures] == ["minimality"]


def test_a_difference_at_one_width_only_is_no_equivalence():
    layer = Units()
    other = altered(layer, structure=lambda self, x: (2.0 if self.width == 5 else 1.0) * type(layer).structure(self, x))
    assert comparisons(layer, other) == 0


def test_a_blind_verifier_is_told():
    """With the check that sees it switched off the fault survives, so the harness can fail."""
    mutant = Mutant("structure × 1.01", MUTANTS["structure × 1.01"].layer, MUTANTS["structure × 1.01"].expected)
    seen = {name: checks.CHECKS[name] for name in mutant.expected}
    try:
        for name in seen:
            checks.CHECKS[name] = lambda context, name=name: nqf.Check(name, "pass", 0.0, 1.0, 9)
        [result] = run_mutants(Units(), mutants=[mutant])
    finally:
        checks.CHECKS.update(seen)
    assert result.survived and not result.equivalent and result.by == ()


def test_caught_for_another_reason_is_not_caught():
    mutant = replace(MUTANTS["noise"], expected=("minimality",))
    [result] = run_mutants(Units(), mutants=[mutant])
    assert not result.caught and result.by == ("determinism",) and result.survived


def test_variants_carry_the_fault():
    class Varied(Units):
        def variants(self):
            return [Varied(width=4)]

    mutant = next(m for m in plan(Varied()) if m.kind == "structure × 2")
    [variant] = mutant.layer.variants()
    x = variant.sample(2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(variant.structure(x).dense(), 2 * Varied(width=4).structure(x).dense())


def test_a_false_claim_is_planted_only_where_it_is_false():
    kinds = {mutant.kind for mutant in plan(nqf.default_registry().get("quadratic-network"))}
    assert "false claim: exact" not in kinds and "false claim: even in each neuron" not in kinds
    assert "false claim: exact" in MUTANTS and "false claim: even in each neuron" not in MUTANTS  # tanh units are even


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("mutation_table", ROOT / "benchmarks" / "mutation_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_counts_what_is_planned(table):
    """The committed page against the plan, without verifying anything."""
    page = table.PAGE.read_text()
    assert page.endswith("## Survivors\n\nNone.\n")
    equivalent = Counter(re.findall(r"^\| `([\w-]+)` \| [^|]+ \| [^|]+ \| \d+ \|$", page, re.MULTILINE))
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (\d+ / \d+) \|", page, re.MULTILINE))
    assert list(rows) == KEYS
    for key in KEYS:
        caught, planted = map(int, rows[key].split(" / "))
        mutants = table.mutants_of(key)[1]
        assert caught == planted == len(mutants) - equivalent[key], key
        assert len({mutant.kind for mutant in mutants}) >= 10 + equivalent[key], key
    kinds = {mutant.kind for key in KEYS for mutant in table.mutants_of(key)[1]}
    assert all(f"| {kind} |" in page for kind in kinds)


def test_one_entry_of_the_page_is_what_is_measured(table):
    results = table.measure(("diagonal-linear-square", 1))
    assert not [result for result in results if result.survived]
    assert {result.kind for result in results if result.equivalent} == {"matrix not symmetric", "neurons weighted by index"}
    assert all(result.equivalent > 10 for result in results if not result.caught)
