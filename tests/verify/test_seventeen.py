"""The known models: what each is, by measurement."""

import pytest

import nqf_registry as nqf

EXACT = [
    "psd-matrix-sensing",
    "rectangular-matrix-sensing",
    "matrix-completion",
    "word-context-embedding",
    "quadratic-network",
    "phase-retrieval",
    "diagonal-linear-square",
    "diagonal-linear-two-factor",
    "tied-query-key-attention",
    "bilinear-sequence-regression",
    "linear-ssl",
]
SMOOTH = [
    "two-layer-mlp",
    "single-layer-cnn",
    "mixture-of-experts",
    "multi-head-attention",
    "query-key-attention",
    "single-head-attention",
]


def test_these_are_all():
    assert sorted([*EXACT, *SMOOTH]) == nqf.Registry.load().keys()


@pytest.mark.parametrize("key", [*EXACT, *SMOOTH])
def test_each_passes_and_is_what_the_table_says(key):
    layer = nqf.default_registry().get(key)
    report = nqf.verify(layer)
    assert report.passed, str(report)
    assert report.classification == ("exact-nqf" if key in EXACT else "nqf")
    assert report["structure-matrix"].status == "pass" and report["structure-matrix"].residual <= 1e-10
    fixed = layer.resized(layer.width + 1).width == layer.width
    assert report["permutation-symmetry"].status == ("vacuous" if fixed else "pass")
    if key in SMOOTH:
        assert report["remainder-order"].residual >= (3.9 if layer.claims.sign_symmetric else 2.95)
    else:
        assert report["remainder-order"].residual <= 1e-11


@pytest.mark.parametrize("key", SMOOTH)
@pytest.mark.parametrize("size", [1e-4, 1e4])
def test_the_size_of_the_inputs_makes_no_difference(key, size):
    layer = nqf.default_registry().get(key)
    cls = type(layer)

    def sample(self, n, generator):
        return {name: t.double() * size if t.is_floating_point() else t for name, t in cls.sample(self, n, generator).items()}

    report = nqf.verify(type(cls.__name__, (cls,), {"sample": sample})(), seed=1)
    assert report.passed and report.classification == "nqf", str(report)


@pytest.mark.parametrize(
    ("key", "choices", "classification"),
    [
        ("two-layer-mlp", {"activation": "gelu"}, "nqf"),
        ("two-layer-mlp", {"activation": "sigmoid"}, "general-nqf"),
        ("two-layer-mlp", {"activation": "identity"}, "exact-nqf"),
        ("mixture-of-experts", {"gate": "sigmoid"}, "general-nqf"),
        ("mixture-of-experts", {"gate": "silu", "expert": "quadratic", "expert_activation": "gelu"}, "nqf"),
        ("mixture-of-experts", {"gate": "sigmoid", "expert_activation": "sigmoid"}, "general-nqf"),
    ],
)
def test_choices_say_what_they_are(key, choices, classification):
    report = nqf.verify(nqf.default_registry().get(key, **choices))
    assert report.passed and report.classification == classification, str(report)
