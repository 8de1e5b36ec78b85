"""Layers whose matrices would not fit: the same expansion along rays, declared and derived, with and without ZGZ."""

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify import expansions, matrix_free
from nqf_registry.verify.matrix_free import MatrixFree, measure_along, random_rays
from nqf_registry.verify.measured import measure
from nqf_registry.verify.residuals.structure_along_rays import gaps_along

P = 3000


def status(report):
    return {check.name: check.status for check in report.checks}


def wide_inputs(self, n, generator):
    return {"x": torch.randn(n, P - 2, generator=generator) / P**0.5}


def general(W, x):
    """Two outputs, coupled neurons and a slope: g, Ā and B all there, and terms of every order."""
    a, v = x @ W["u"], W["v"]  # (n, d), (2, d)
    total = a.sum(-1, keepdim=True)
    first = torch.exp(total) + (a**2).sum(-1, keepdim=True)
    second = 2 + total * v[0].sum() + torch.tanh(a) @ v[1:].mT
    return torch.cat([first, second], -1)


def offset(self, x):
    return torch.cat([torch.ones_like(x["x"][:, :1]), 2 * torch.ones_like(x["x"][:, :1])], -1)


def linear(self, x):
    g = x["x"].new_zeros(len(x["x"]), 2, P - 2)
    g[:, 0] = x["x"]
    return {"u": g}


def first_output(x):
    return x.new_tensor([1.0, 0.0])


def second_output(x):
    return x.new_tensor([0.0, 1.0])


def cross(self, x):
    """½ (μ·x)² in the first output, (μ_u·x) μ_v0 in the second."""
    x = x["x"]
    pick = x.new_tensor([1.0, 0.0])
    return nqf.quadratic("i,ni,nj,o,j->no", "u", x, x, first_output(x), "u", scale=0.5) + nqf.quadratic(
        "i,ni,o,v,v->no", "u", x, second_output(x), pick, "v"
    )


def structure(self, x):
    """Ā = B + what each neuron adds by itself: (u·x)² in the first output, (u·x) v_1 in the second."""
    x = x["x"]
    pick = x.new_tensor([1.0, 1.0])
    return nqf.quadratic("i,ni,nj,o,j->no", "u", x, x, first_output(x), "u", scale=1.5) + nqf.quadratic(
        "i,ni,o,v,v->no", "u", x, second_output(x), pick, "v"
    )


PARTS = {"structure": structure, "linear": linear, "cross": cross, "offset": offset}


def make(layer, name, declared=PARTS, forward=general, **more):
    more = {"claims": nqf.Claims(zgz=False), "blocks": {"u": (P - 2,), "v": (2,)}, "sample": wide_inputs, "width": 3} | more
    methods = {part: method for part, method in declared.items() if part != "structure"}
    made = layer(name, forward=forward, **more, **methods)
    if "structure" in declared:
        cls = type(made)
        return type(cls.__name__, (cls,), {"structure": declared["structure"], "__module__": __name__})()
    return made


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("structure",),
        ("cross",),
        ("structure", "linear", "offset"),
        ("structure", "linear", "cross", "offset"),
    ],
)
def test_a_large_general_layer_passes_whatever_it_declares(layer, parts):
    report = nqf.verify(make(layer, "large-" + ("-".join(parts) or "derived"), {name: PARTS[name] for name in parts}))
    assert report.passed and report.classification == "general-nqf", str(report)
    assert report["remainder-order"].residual == pytest.approx(3, abs=0.05)
    found = report["structure-matrix"]
    assert found.status == ("pass" if parts else "observed")
    norms = found.details["norms"]
    x = make(layer, "again").sample(4, torch.Generator().manual_seed(4))["x"]
    assert set(norms) == {"g", "Ā", "B", "A"} and 0.5 < norms["A"] / float((x**2).sum(-1).max()) < 2


@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [
        ("structure", lambda self, x: 1.01 * structure(self, x), "Ā"),
        ("linear", lambda self, x: {"u": 1.01 * linear(self, x)["u"]}, "g of"),
        ("linear", lambda self, x: {}, "g of"),
        ("cross", lambda self, x: 1.01 * cross(self, x), "B of"),
        ("cross", lambda self, x: -1 * cross(self, x), "minus the truth"),
        ("offset", lambda self, x: 1.0, "f(0)"),
    ],
)
def test_each_wrong_part_of_a_large_layer_is_seen(layer, part, wrong, said):
    report = nqf.verify(make(layer, f"wrong-{part}", PARTS | {part: wrong}))
    assert status(report)["structure-matrix"] == "fail" and said in report["structure-matrix"].message
    assert status(report)["remainder-order"] == "fail"
    assert report.classification == "general-nqf"


def test_an_error_in_one_output_of_a_large_layer_is_seen(layer):
    def one_output(self, x):
        pick = x["x"].new_tensor([0.0, 1.0])
        return structure(self, x) + nqf.quadratic("i,ni,o,v,v->no", "u", 1e-3 * x["x"], second_output(x["x"]), pick, "v")

    report = nqf.verify(make(layer, "one-output", PARTS | {"structure": one_output}))
    assert status(report)["structure-matrix"] == "fail" and "output 1" in report["structure-matrix"].message


def test_a_large_layer_under_zgz_is_derived_too(layer):
    forward = lambda W, x: torch.tanh(x @ W["u"]) @ W["v"].mT  # noqa: E731
    report = nqf.verify(make(layer, "large-zgz", {}, forward, claims=nqf.Claims(sign_symmetric=True)))
    assert report.passed and report.classification == "nqf"
    assert report["remainder-order"].residual >= 3.9
    assert "along random rays" in report["structure-matrix"].message


def test_a_large_layer_that_autodiff_misreads_is_fitted(layer):
    """Units v² |a|² + tanh(a)^4 with a = u·x: |a|² has no derivative where a = 0, and autodiff says 0."""

    def forward(W, x):
        a = x @ W["u"]
        return (a.abs() ** 2 + torch.tanh(a) ** 4).sum(-1, keepdim=True) + 0 * W["v"].sum()

    report = nqf.verify(make(layer, "misread", {}, forward, claims=nqf.Claims()))
    assert report.passed and report.classification == "nqf", str(report)
    assert any("disagree" in note for note in report.notes)
    assert "by differences" in report["structure-matrix"].message


@pytest.mark.parametrize(
    ("zgz", "missing"),
    [
        (True, ("structure",)),
        (False, ("structure",)),
        (False, ("cross",)),
        (False, ("linear",)),
        (False, ("structure", "cross")),
        (False, ("structure", "linear", "cross")),
    ],
)
def test_the_expansion_without_matrices_is_the_one_with(layer, setting, normal, zgz, missing):
    """A small layer, measured both ways: values agree at every weight, not along the rays of the fit alone."""

    def forward(W, x):
        a = x @ W["u"]
        return torch.sin(a.sum(-1, keepdim=True)) * W["v"].sum(-1) + torch.exp(a) @ W["v"].mT + (a**2).sum(-1, keepdim=True)

    parts = {
        "structure": lambda self, x: nqf.dense(torch.ones(len(x["x"]), 2, 5, 5, dtype=torch.float64)),
        "linear": lambda self, x: {"v": torch.ones(len(x["x"]), 2, 2, dtype=torch.float64)},
        "cross": lambda self, x: nqf.dense(2 * torch.ones(len(x["x"]), 2, 5, 5, dtype=torch.float64)),
    }
    declared = {name: method for name, method in parts.items() if name not in missing}
    made = make(
        layer, "both", declared, forward, claims=nqf.Claims(zgz=zgz), blocks={"u": (3,), "v": (2,)}, sample=None, width=3
    )
    at = setting(made)
    dense = expansions.dense_expansion(at, measure(at))
    free = expansions.matrix_free_expansion(at, measure_along(at))
    W = torch.cat([normal(at, count=3), 1e-3 * normal(at, count=2, seed=1), torch.zeros(1, at.p, at.d, dtype=torch.float64)])
    torch.testing.assert_close(free.evaluate(W), dense.evaluate(W), rtol=1e-10, atol=1e-12)


def test_along_rays_the_form_is_the_same(units, setting):
    at = setting(units("tanh", torch.tanh))
    rays = random_rays(at, 0, 1)
    seen = measure_along(at)
    along = seen.along(rays)
    w = rays[:, :, 0]
    torch.testing.assert_close(along.curvature, torch.einsum("nkpq,rp,rq->rnk", measure(at).expansion.diagonal, w, w))
    assert seen.source == "autodiff" and float(along.slope.abs().max()) == 0


def test_norms_along_rays_are_those_of_the_matrices(layer, setting, monkeypatch):
    monkeypatch.setattr(matrix_free, "PAIRS", 20_000)
    forward = lambda W, x: torch.exp(x @ W["u"].sum(-1, keepdim=True)) + ((x @ W["u"]) ** 2).sum(-1, keepdim=True)  # noqa: E731
    at = setting(layer("norms", forward=forward, blocks={"u": (3,)}, claims=nqf.Claims(zgz=False)))
    e = measure(at).expansion
    found = measure_along(at).norms(0)
    for name, exact in {"g": e.linear, "Ā": e.diagonal, "B": e.cross, "A": e.structure}.items():
        assert found[name] == pytest.approx(float(exact.flatten(2).norm(dim=-1).max()), rel=0.05)


def test_gaps_are_those_of_the_declared_factor(layer, setting):
    at = setting(make(layer, "factor", PARTS | {"cross": lambda self, x: 1.25 * cross(self, x)}))
    gaps = gaps_along(at, measure_along(at), PARTS)
    assert gaps["cross"].residual == pytest.approx(0.25, rel=1e-6)
    assert max(gap.residual for part, gap in gaps.items() if part != "cross") < 1e-10
    fitted = MatrixFree(at, "differences", 1e-8, 1.0)
    assert gaps_along(at, fitted, PARTS)["structure"].residual < 1e-7
