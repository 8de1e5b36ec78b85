"""Each check fails for its own fault, and passes, or says nothing, where there is none."""

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.verify.report import STATUSES

NAMES = [
    "determinism",
    "finiteness",
    "permutation-symmetry",
    "zero-gradient-at-zero",
    "smoothness",
    "structure-matrix",
    "remainder-order",
    "sign-symmetry",
    "minimality",
]


def failed(report):
    return {check.name for check in report.checks if check.status == "fail"}


def test_a_good_layer_passes_every_check_it_can(units):
    report = nqf.verify(units("good", torch.tanh, slope=1.0, claims=nqf.Claims(sign_symmetric=True)))
    assert [check.name for check in report.checks] == NAMES
    assert report.passed and report.classification == "nqf" and report.leading_order is None
    assert {check.status for check in report.checks} <= {"pass", "not-applicable"}
    assert report["remainder-order"].residual >= 3.9
    assert report["structure-matrix"].residual <= 1e-10
    assert all(check.examples > 0 for check in report.checks if check.status == "pass")


@pytest.mark.parametrize(
    ("name", "phi"),
    [
        ("relu", torch.relu),
        ("maximum", lambda a: torch.maximum(a, torch.zeros_like(a))),
        ("clamp", lambda a: a.clamp(min=0)),
        ("where", lambda a: torch.where(a > 0, a, torch.zeros_like(a))),
        ("elu", torch.nn.functional.elu),
        ("leaky", lambda a: torch.nn.functional.leaky_relu(a, 0.999)),
        ("softsign", torch.nn.functional.softsign),
    ],
)
def test_kinks_are_not_smooth_however_they_are_written(units, name, phi):
    report = nqf.verify(units(name, phi))
    assert report.classification == "not-smooth" and "smoothness" in failed(report)
    assert not {"determinism", "finiteness", "permutation-symmetry", "zero-gradient-at-zero"} & failed(report)
    honest = nqf.verify(units(f"{name}-honest", phi, claims=nqf.Claims(smooth=False)))
    assert honest.passed and honest["smoothness"].status == "observed"


def test_the_maximum_over_units_is_not_smooth(layer):
    report = nqf.verify(layer("max", forward=lambda W, x: ((x @ W["u"]) ** 2).amax(-1, keepdim=True), blocks={"u": (3,)}))
    assert report.classification == "not-smooth"
    assert "no form" in report["smoothness"].message


@pytest.mark.parametrize("factor", [2.0, -1.0, 1.01, 1 + 1e-8])
def test_a_scaled_structure_is_seen(units, factor):
    report = nqf.verify(units("scaled", torch.tanh, slope=factor))
    assert failed(report) == {"structure-matrix", "remainder-order"}
    assert report.classification == "nqf"  # what it is rests on what was measured
    assert report["structure-matrix"].residual == pytest.approx(abs(factor - 1), rel=1e-3)


def test_the_message_names_the_ratio_and_the_entry(units):
    message = nqf.verify(units("twice", torch.tanh, slope=2.0))["structure-matrix"].message
    assert "twice the truth" in message and "twice:" in message and "v[" in message and "u[" in message


def one_output(self, x):
    ones = torch.ones(2, dtype=x.dtype)
    ones[1] = 1.001
    return nqf.quadratic("i,ni,o,o->no", "u", x, ones, "v")


def one_sample(self, x):
    factor = torch.ones(len(x), dtype=x.dtype)
    factor[-1] = 1.001
    return nqf.quadratic("i,ni,n,o->no", "u", x, factor, "v")


def one_width(self, x):
    return nqf.quadratic("i,ni,o->no", "u", x, "v", scale=1.001 if self.width == 3 else 1.0)


def half_of_it(self, x):
    A = x.new_zeros(len(x), 2, 5, 5)
    for o in range(2):
        A[:, o, :3, 3 + o] = x / 2
    return nqf.dense(A)


def skewed(self, x):
    A = x.new_zeros(len(x), 2, 5, 5)
    for o in range(2):
        A[:, o, :3, 3 + o] = x  # the symmetric part is right
    return nqf.dense(A)


def extra(self, x):
    return nqf.quadratic("i,ni,o->no", "u", x, "v") + nqf.quadratic("i,ni,o,i->no", "u", 1e-4 * x, x.new_ones(2), "u")


@pytest.mark.parametrize("structure", [one_output, one_sample, one_width, half_of_it, skewed, extra])
def test_a_structure_that_is_wrong_in_one_place_is_seen(units, structure):
    report = nqf.verify(units(structure.__name__.replace("_", "-"), torch.tanh, structure=structure))
    assert "structure-matrix" in failed(report)
    assert "permutation-symmetry" not in failed(report)


def test_a_wrong_linear_cross_or_offset_is_seen(layer):
    def make(**methods):
        return layer(
            "general",
            forward=lambda W, x: (1 + x @ W["u"]).prod(-1, keepdim=True),
            blocks={"u": (3,)},
            claims=nqf.Claims(zgz=False),
            structure=lambda self, x: nqf.dense(x.new_zeros(len(x), 1, 3, 3)),
            **{
                "linear": lambda self, x: {"u": x["x"][:, None]},
                "cross": lambda self, x: nqf.quadratic(
                    "i,ni,nj,o,j->no", "u", x["x"], x["x"], x["x"].new_ones(1), "u", scale=0.5
                ),
                "offset": lambda self, x: 1.0,
            }
            | methods,
        )

    right = nqf.verify(make())
    assert right.passed and right.classification == "general-nqf", str(right)
    for wrong in (
        {"linear": lambda self, x: {"u": 1.01 * x["x"][:, None]}},
        {"cross": lambda self, x: nqf.dense(x["x"].new_zeros(len(x["x"]), 1, 3, 3))},
        {"offset": lambda self, x: 0.0},
    ):
        assert "structure-matrix" in failed(nqf.verify(make(**wrong)))


def test_norm_and_modulus_squared_are_exact(layer):
    for name, unit, A in (
        ("norm", lambda w, x: (x * w["u"]).norm(dim=-1, keepdim=True) ** 2, lambda x: x**2),
        ("modulus", lambda w, x: (w["u"].abs() ** 2 * x).sum(-1, keepdim=True), lambda x: x),
    ):
        declared = layer(
            name,
            unit=unit,
            blocks={"u": (3,)},
            claims=nqf.Claims(exact=True, sign_symmetric=True),
            structure=lambda self, x, A=A: nqf.quadratic("i,nio,i->no", "u", A(x)[..., None], "u"),
        )
        report = nqf.verify(declared)
        assert report.passed and report.classification == "exact-nqf", report
        assert any("autodiff and finite differences disagree" in note for note in report.notes)
        derived = nqf.verify(layer(f"{name}-derived", unit=unit, blocks={"u": (3,)}))
        assert derived.passed and derived.classification == "exact-nqf"
        assert "derived by differences" in derived["structure-matrix"].message


def test_neurons_weighted_by_index_are_not_symmetric(layer):
    def forward(W, x):
        return ((x @ W["u"]) ** 2 * (1 + 1e-3 * torch.arange(W["u"].shape[-1]))).sum(-1, keepdim=True)

    report = nqf.verify(layer("weighted", forward=forward, blocks={"u": (3,)}))
    assert report.classification == "not-symmetric" and "permutation-symmetry" in failed(report)
    example = report["permutation-symmetry"].counterexample
    assert example["sizes"]["width"] == 2 and example["permutation"] == [1, 0]  # shrunk
    assert example["f(W)"] != example["f(Wσ)"]
    W = torch.tensor(example["W"]["u"])
    assert (W != 0).sum() <= 2  # and simplified


def test_a_layer_wrong_at_one_width_only_is_seen(layer):
    def forward(W, x):
        d = W["u"].shape[-1]
        tilt = 0.01 * torch.arange(d) if d == 5 else torch.zeros(d)
        return ((x @ W["u"]) ** 2 * (1 + tilt)).sum(-1, keepdim=True)

    report = nqf.verify(layer("tilted", forward=forward, blocks={"u": (3,)}))
    assert report["permutation-symmetry"].status == "fail"
    assert report["permutation-symmetry"].counterexample["sizes"]["width"] == 5


def test_a_bias_inside_breaks_zgz(units):
    report = nqf.verify(units("biased", lambda a: torch.tanh(a + 1e-4)))
    assert "zero-gradient-at-zero" in failed(report) and report.classification == "general-nqf"
    assert report["zero-gradient-at-zero"].counterexample["parameter"].startswith("v")


def test_a_sum_squared_breaks_zgz_though_flat_at_zero(layer):
    report = nqf.verify(layer("sum", forward=lambda W, x: (x @ W["u"]).sum(-1, keepdim=True) ** 2, blocks={"u": (3,)}))
    assert report.classification == "general-nqf" and "zero-gradient-at-zero" in failed(report)


@pytest.mark.parametrize(
    ("claims", "check"),
    [(nqf.Claims(exact=True), "remainder-order"), (nqf.Claims(sign_symmetric=True), "sign-symmetry")],
)
def test_false_claims_fail(units, claims, check):
    report = nqf.verify(units("claiming", torch.nn.functional.gelu, slope=0.5, claims=claims))
    assert check in failed(report) and report.classification == "nqf"


def test_an_even_claim_needs_slope_four(units):
    report = nqf.verify(units("uneven", torch.nn.functional.gelu, slope=0.5, claims=nqf.Claims(sign_symmetric=True)))
    assert {"remainder-order", "sign-symmetry"} <= failed(report)
    assert report["remainder-order"].residual == pytest.approx(3, abs=0.05)


def test_stacked_heads_are_not_minimal(layer):
    def heads(W, x):
        return torch.einsum("nhd,hd->n", torch.tanh(torch.einsum("ni,hid->nhd", x, W["u"])), W["v"])[:, None]

    report = nqf.verify(layer("heads", forward=heads, blocks={"u": (2, 3), "v": (2,)}))
    assert failed(report) == {"minimality"}
    assert "u along axis 0" in report["minimality"].message and "width" in report["minimality"].message


@pytest.mark.parametrize(("power", "order"), [(2, 3), (3, 4), (5, 6)])
def test_higher_orders_are_named(units, power, order):
    report = nqf.verify(units("power", lambda a: a**power))
    assert report.passed and report.classification == "higher-order" and report.leading_order == order


def test_a_tiny_leading_term_is_still_the_leading_term(units):
    assert nqf.verify(units("tiny", lambda a: 1e-6 * a + a**3, slope=1e-6)).classification == "nqf"


def test_exact_and_nearly_exact_differ(units):
    assert nqf.verify(units("bilinear", lambda a: a, slope=1.0)).classification == "exact-nqf"
    assert nqf.verify(units("nearly", lambda a: a + 1e-6 * a**3, slope=1.0)).classification == "nqf"
    assert nqf.verify(units("hard", torch.nn.functional.hardtanh, slope=1.0)).classification == "nqf"


def noise(W, x):
    return ((x @ W["u"]) ** 2).sum(-1, keepdim=True) * (1 + 1e-6 * torch.rand(()))


def reseeding(W, x):
    torch.manual_seed(0)
    return ((x @ W["u"]) ** 2).sum(-1, keepdim=True) * (1 + torch.rand(()))


def writing(W, x):
    W["u"].mul_(1.0001)
    return ((x @ W["u"]) ** 2).sum(-1, keepdim=True)


_calls = []


def state(W, x):
    _calls.append(1)
    return ((x @ W["u"]) ** 2).sum(-1, keepdim=True) * (1 + 1e-9 * len(_calls))


@pytest.mark.parametrize("forward", [noise, reseeding, writing, state])
def test_what_is_no_function_is_undecided(layer, forward):
    report = nqf.verify(layer(forward.__name__, forward=forward, blocks={"u": (3,)}))
    assert failed(report) == {"determinism"} and report.classification == "undecided" and not report.passed
    assert report["finiteness"].status == "pass"
    assert report.count == "2 of 9 checks ran"


def test_nan_at_zero_is_not_finite_and_a_kink(layer):
    def unit(w, x):
        return torch.tanh(x @ w["u"] / w["u"].norm())[:, None] * w["v"]

    report = nqf.verify(layer("normalised", unit=unit))
    assert {"finiteness", "smoothness"} <= failed(report)
    assert "permutation-symmetry" not in failed(report) and report.classification == "not-smooth"


def test_a_removable_hole_is_undecided(units):
    report = nqf.verify(units("hole", lambda a: torch.sin(a) ** 2 / a))
    assert failed(report) == {"finiteness"} and report.classification == "undecided"


def test_single_precision_inside_forbids_a_decision(layer):
    def coarse(W, x):
        return (torch.tanh(x.float() @ W["u"].float()) @ W["v"].float().mT).double()

    report = nqf.verify(layer("coarse", forward=coarse))
    assert not failed(report) and report.classification == "undecided" and not report.passed
    assert "float32" in report["permutation-symmetry"].message


def test_an_exception_is_a_message_and_no_traceback(layer):
    def forward(W, x):
        raise ZeroDivisionError("the layer's own words")

    report = nqf.verify(layer("raising", forward=forward))
    assert not report.passed and report.classification == "undecided"
    assert report["finiteness"].status == "fail" and "the layer's own words" in report["finiteness"].message
    assert report["determinism"].status == "undecided"


def test_a_structure_that_raises_is_undecided(units):
    def structure(self, x):
        raise RuntimeError("not today")

    report = nqf.verify(units("raising", torch.tanh, structure=structure))
    assert report["structure-matrix"].status == "undecided" and "not today" in report["structure-matrix"].message
    assert not report.passed


def test_a_width_of_one_is_vacuous(layer):
    report = nqf.verify(layer("one", unit=lambda w, x: (x @ w["u"])[:, None] ** 2, blocks={"u": (3,)}, width=1, fixed=True))
    assert report["permutation-symmetry"].status == report["minimality"].status == "vacuous"
    assert report.passed and report.classification == "exact-nqf" and report.count == "7 of 9 checks ran"


def test_a_constant_layer_is_exact(layer):
    report = nqf.verify(layer("constant", forward=lambda W, x: x[:, :1] + 0 * W["u"].sum(), blocks={"u": (4,)}))
    assert report.passed and report.classification == "exact-nqf" and report["minimality"].status == "vacuous"


def test_a_layer_that_vmap_refuses_is_looped_and_says_so(layer):
    def unit(w, x):
        total = torch.zeros(len(x), dtype=x.dtype)
        for k in range(3):
            total += x[:, k] * w["u"][k]
        return torch.tanh(total)[:, None] * w["v"]

    report = nqf.verify(layer("accumulating", unit=unit, claims=nqf.Claims(sign_symmetric=True)))
    assert report.passed and any("vmap refused" in note for note in report.notes)


def test_no_example_is_no_pass(units, no_time):
    """A check whose time runs out before four examples decides nothing, and says so."""
    report = nqf.verify(units("hurried", torch.tanh, slope=1.0, fixed=True))
    assert not report.passed and report.count == "0 of 9 checks ran" and report.stopped
    assert {check.status for check in report.checks} <= {"undecided", "not-applicable"}
    assert "time ran out" in str(report) and "time ran out" in report.line()


def test_variants_are_verified_too(layer):
    from dataclasses import dataclass

    @dataclass(frozen=True)
    class Switched(nqf.Layer):
        key = "switched"
        scale: float = 1.0
        width: int = 3

        def blocks(self):
            return {"u": (3,), "v": (2,)}

        def sample(self, n, generator):
            return {"x": torch.randn(n, 3, generator=generator)}

        def forward(self, W, x):
            return self.scale * torch.tanh(x["x"] @ W["u"]) @ W["v"].mT

        def structure(self, x):
            return nqf.quadratic("i,ni,o->no", "u", x["x"], "v")  # forgets the scale

        def variants(self):
            return [Switched(scale=2.0)]

    report = nqf.verify(Switched())
    assert report["structure-matrix"].status == "fail"
    assert report["structure-matrix"].counterexample["sizes"]["scale"] == 2.0


def test_every_status_is_a_known_one(units):
    for phi in (torch.tanh, torch.relu, torch.sigmoid):
        assert {check.status for check in nqf.verify(units("any", phi)).checks} <= set(STATUSES)
