"""Facts of A(x) against matrices written out by hand."""

from dataclasses import dataclass, replace

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.report.structure_facts import fingerprint, kronecker_factor, structure_facts
from nqf_registry.report.structure_text import structure_lines


@dataclass(frozen=True)
class Heads(nqf.Layer):
    """Values and a readout as in attention, and one block that A does not reach."""

    key = "heads"
    factor: float = 1.0
    width: int = 2

    def blocks(self):
        return {"K": (2, 3), "V": (2, 3), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def unit(self, w, x):
        return self.factor * torch.einsum("ad,nd,a->n", w["V"], x["x"], w["v"])[:, None]

    def structure(self, x):
        return nqf.quadratic("ad,nd,a->n", "V", x["x"], "v", scale=self.factor)


@dataclass(frozen=True)
class Derived(Heads):
    """The same without a declared structure."""

    key = "derived"
    structure = nqf.Layer.structure if hasattr(nqf.Layer, "structure") else None


def test_facts_of_a_layer_like_attention():
    facts = structure_facts(Heads())
    assert facts["couplings"] == ["V-v"] and facts["inert"] == ["K"] and facts["inert_parameters"] == 6
    assert facts["bipartite"] and not facts["diagonal"]
    assert facts["kronecker"] == {"size": 2, "axes": {"V": 0, "v": 0}}
    assert facts["components"] == 2  # one for each of the two rows of V
    assert facts["rank"] == [4, 4] and facts["signature"] == [(2, 2)]
    assert facts["sparsity"] == round(1 - 12 / 14**2, 4)


def test_a_changed_coefficient_shows_in_the_fingerprint_alone():
    before, after = structure_facts(Heads()), structure_facts(Heads(1.001))
    assert before.pop("fingerprint") != after.pop("fingerprint")
    assert before == after


def test_a_kronecker_factor_is_refused_where_one_entry_differs():
    x = torch.randn(1, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    A = Heads().structure({"x": x}).dense()[0]
    blocks = Heads().blocks()
    assert kronecker_factor(blocks, A, ["V", "v"]) is not None
    A[0, 6, 12] += 1e-3
    assert kronecker_factor(blocks, A, ["V", "v"]) is None


def test_text_of_the_form():
    assert structure_lines(Heads()) == ["A[V_ad, v_a] = 1/2 x_d"]
    assert structure_lines(Heads(0.5)) == ["A[V_ad, v_a] = 1/4 x_d"]


def test_text_names_rows_and_symmetrised_forms():
    @dataclass(frozen=True)
    class Entry(Heads):
        def blocks(self):
            return {"u": (4,), "w": (3,)}

        def sample(self, n, generator):
            return {"i": torch.randint(4, (n,), generator=generator), "S": torch.randn(n, 3, 3, generator=generator)}

        def unit(self, w, x):
            return torch.zeros(len(x["i"]), 1)

        def structure(self, x):
            return nqf.quadratic("n,n->n", nqf.rows("u", x["i"]), nqf.rows("u", x["i"])) + nqf.quadratic(
                "a,nab,b->n", "w", x["S"], "w"
            )

    assert structure_lines(Entry()) == ["A[u[i], u[i]] = 1", "A[w_a, w_b] = S_ab, symmetrised"]


def test_fingerprints_are_rounded_and_tell_what_is_not_finite():
    values = torch.tensor([[1.23456789, 0.0], [float("nan"), 0.0], [1e-20, 0.0]], dtype=torch.float64)
    assert fingerprint(values) == [1.23457, None, 0.0]


def test_a_layer_too_large_for_a_dense_matrix_keeps_its_fingerprint():
    @dataclass(frozen=True)
    class Wide(Heads):
        n_in: int = 6000

        def blocks(self):
            return {"u": (self.n_in,)}

        def sample(self, n, generator):
            return {"x": torch.randn(n, self.n_in, generator=generator)}

        def unit(self, w, x):
            return (x["x"] @ w["u"].square())[:, None]

        def structure(self, x):
            return nqf.quadratic("i,ni,i->n", "u", x["x"], "u")

    facts = structure_facts(Wide())
    assert facts["samples"] == 0 and "rank" not in facts and len(facts["fingerprint"]) == 3


@pytest.mark.parametrize("key", ["multi-head-attention", "diagonal-linear-square"])
def test_declared_and_derived_structure_have_the_same_facts(key):
    from nqf_registry.report import structure_facts as module

    layer = nqf.default_registry().get(key)
    declared = structure_facts(layer)
    hidden = type(layer).structure
    try:
        del type(layer).structure
        derived = module.structure_facts(replace(layer))
    finally:
        type(layer).structure = hidden
    assert declared.pop("declared") and not derived.pop("declared")
    assert declared == derived


def test_a_derived_structure_that_would_not_fit_memory_is_refused():
    @dataclass(frozen=True)
    class Large(nqf.Layer):
        key = "large"
        width: int = 2

        def blocks(self):
            return {"w": (20_000,)}

        def sample(self, n, generator):
            return {"x": torch.randn(n, 1, generator=generator)}

        def unit(self, w, x):
            return x["x"] * w["w"].square().sum()

    with pytest.raises(nqf.InvalidInput, match="p = 20,000 is too large"):
        structure_facts(Large())
