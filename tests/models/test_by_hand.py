"""A(x) of every model at tiny sizes, written out by hand from its formula: p × p lists, blocks in the order of ``blocks()``."""

import math

import pytest
import torch

import nqf_registry as nqf

REGISTRY = nqf.Registry.load()


def t(values):
    return torch.tensor([values], dtype=torch.float64)


ROOT2, ROOT3 = math.sqrt(2), math.sqrt(3)

# key, sizes, one input, A for each output
CASES = [
    ("psd-matrix-sensing", {"size": 2}, {"S": t([[1.0, 2.0], [4.0, 5.0]])}, [[[1, 3], [3, 5]]]),
    (
        "rectangular-matrix-sensing",
        {"rows": 1, "columns": 2},
        {"S": t([[2.0, 6.0]])},
        [[[0, 1, 3], [1, 0, 0], [3, 0, 0]]],
    ),
    (
        "matrix-completion",
        {"rows": 2, "columns": 2},
        {"i": torch.tensor([1]), "j": torch.tensor([0])},
        [[[0, 0, 0, 0], [0, 0, 0.5, 0], [0, 0.5, 0, 0], [0, 0, 0, 0]]],
    ),
    (
        "word-context-embedding",
        {"words": 2, "contexts": 2},
        {"word": torch.tensor([0]), "context": torch.tensor([1])},
        [[[0, 0, 0, 0.5], [0, 0, 0, 0], [0, 0, 0, 0], [0.5, 0, 0, 0]]],
    ),
    ("quadratic-network", {"n_in": 2}, {"x": t([3.0, -1.0])}, [[[9, -3], [-3, 1]]]),
    ("phase-retrieval", {"size": 2}, {"a": t([2.0, 5.0])}, [[[4, 10], [10, 25]]]),
    ("diagonal-linear-square", {"n_in": 2}, {"x": t([4.0, -8.0])}, [[[1, 0], [0, -2]]]),
    (
        "diagonal-linear-two-factor",
        {"n_in": 2},
        {"x": t([2.0, -6.0])},
        [[[0, 0, 1, 0], [0, 0, 0, -3], [1, 0, 0, 0], [0, -3, 0, 0]]],
    ),
    (
        "two-layer-mlp",
        {"n_in": 2, "n_out": 2},
        {"x": t([2.0, 4.0])},
        [
            [[0, 0, 1, 0], [0, 0, 2, 0], [1, 2, 0, 0], [0, 0, 0, 0]],
            [[0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 0], [1, 2, 0, 0]],
        ],
    ),
    ("two-layer-mlp", {"n_in": 1, "n_out": 1, "activation": "gelu"}, {"x": t([8.0])}, [[[0, 2], [2, 0]]]),
    (  # a 1 × 2 filter over a 2 × 3 image meets four patches: (1 2), (2 3), (4 5), (5 6), which add up to (12 16)
        "single-layer-cnn",
        {"channels": 1, "rows": 2, "columns": 3, "kernel_rows": 1, "kernel_columns": 2, "n_out": 1},
        {"x": t([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])},
        [[[0, 0, 6], [0, 0, 8], [6, 8, 0]]],
    ),
    (  # with stride 2 it meets (1 2) only, the second row being skipped
        "single-layer-cnn",
        {"channels": 1, "rows": 2, "columns": 3, "kernel_rows": 1, "kernel_columns": 2, "n_out": 1, "stride": 2},
        {"x": t([[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]])},
        [[[0, 0, 0.5], [0, 0, 1], [0.5, 1, 0]]],
    ),
    (  # r (2), then Theta (2, 1); x Gᵀ = x xᵀ
        "mixture-of-experts",
        {"n_in": 2, "n_out": 1},
        {"x": t([2.0, 4.0])},
        [[[0, 0, 2, 4], [0, 0, 4, 8], [2, 4, 0, 0], [4, 8, 0, 0]]],
    ),
    (  # a bias is a feature of value one: G = (x, 1)
        "mixture-of-experts",
        {"n_in": 1, "n_out": 1, "expert": "affine", "gate": "silu"},
        {"x": t([4.0])},
        [[[0, 4, 1], [4, 0, 0], [1, 0, 0]]],
    ),
    (  # K (1, 1), Q (1, 1), V (2, 1), v (2, 1); tokens 1 and 5 have the mean 3
        "multi-head-attention",
        {"dim": 1, "tokens": 2, "d_k": 1, "d_v": 2, "n_out": 1},
        {"X": t([[1.0], [5.0]]), "x": t([7.0])},
        [
            [
                [0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 1.5, 0],
                [0, 0, 0, 0, 0, 1.5],
                [0, 0, 1.5, 0, 0, 0],
                [0, 0, 0, 1.5, 0, 0],
            ]
        ],
    ),
    (
        "tied-query-key-attention",
        {"dim": 2, "width": 4},
        {"u": t([1.0, 2.0]), "x": t([3.0, 5.0])},
        [[[1.5, 2.75], [2.75, 5]]],  # (x uᵀ + u xᵀ) / (2 √4)
    ),
    (
        "bilinear-sequence-regression",
        {"dim": 2},
        {"x_s": t([2.0, 4.0]), "x_t": t([1.0, 3.0])},
        [[[0, 0, 1, 3], [0, 0, 2, 6], [1, 2, 0, 0], [3, 6, 0, 0]]],
    ),
    ("linear-ssl", {"dim": 2}, {"x": t([5.0, 1.0]), "chi": t([3.0, 2.0])}, [[[4, -2], [-2, 1]]]),
]


@pytest.mark.parametrize("key, sizes, x, expected", CASES, ids=[f"{key} {sizes}" for key, sizes, _, _ in CASES])
def test_the_structure_matrix_is_the_one_written_by_hand(key, sizes, x, expected):
    A = REGISTRY.get(key, **sizes).structure(x).dense(torch.float64)
    torch.testing.assert_close(A, torch.tensor([expected], dtype=torch.float64), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("key, width, root", [("query-key-attention", 4, ROOT3), ("single-head-attention", 2, ROOT2)])
def test_attention_with_a_fixed_readout_by_hand(key, width, root):
    """Tokens 1 and 5: mean 3, variance 4, so u = 4 c. A couples query to key by x u / (2 √d_k), d_k being 3 and the width."""
    sizes = {"dim": 1, "tokens": 2, "n_out": 1, "width": width} | ({"d_k": 3} if key == "query-key-attention" else {})
    layer, x = REGISTRY.get(key, **sizes), {"X": t([[1.0], [5.0]]), "x": t([7.0])}
    c = float(layer.readout(x["X"]))
    A = layer.structure(x).dense()[0, 0]
    half = A.shape[0] // 2
    expected = torch.eye(half, dtype=torch.float64) * 7 * 4 * c / (2 * root)
    torch.testing.assert_close(A[:half, half:], expected)
    assert not A[:half, :half].any() and not A[half:, half:].any()
    heads = width if key == "query-key-attention" else 1
    assert float(layer.offset(x)) == pytest.approx(heads * c * 3)


def test_every_model_has_a_case():
    known = {entry.key for entry in REGISTRY.entries() if entry.distribution.replace("_", "-") == "nqf-registry"}
    assert {case[0] for case in CASES} | {"query-key-attention", "single-head-attention"} == known
