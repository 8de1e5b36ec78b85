"""What a structure is given: rows that are not there, numbers that are no numbers, tables without samples."""

import pytest
import torch

import nqf_registry as nqf

BLOCKS = {"u": (3,), "v": (2,)}
X = torch.tensor([[1.0, 2.0, 3.0]])


def mlp(x=X, **more):
    return nqf.quadratic("i,ni,o->no", "u", x, "v", **more).bind(BLOCKS)


def picked(index, sides):
    """Entries u_i v_j; by rows on the left, on the right or on both sides."""
    index = torch.tensor(index)
    left, right = (nqf.rows(name, index) if name in sides else name for name in ("u", "v"))
    spec = {"u": "n,o->no", "v": "i,n->ni", "uv": "n,n->n"}[sides]
    return nqf.quadratic(spec, left, right).bind(BLOCKS)


@pytest.mark.parametrize("sides", ["u", "v", "uv"])
@pytest.mark.parametrize("row", [-1, 3])
@pytest.mark.parametrize("operation", ["evaluate", "pullback", "apply", "contract", "dense", "weighted"])
def test_every_operation_refuses_a_row_that_is_not_there(sides, row, operation):
    structure = picked([0, row], sides)
    W, cotangent = {"u": torch.ones(3, 1), "v": torch.ones(2, 1)}, torch.ones(structure.shape)
    arguments = {"evaluate": (W,), "pullback": (W, cotangent), "apply": (W,), "contract": (torch.eye(5),)}
    arguments |= {"dense": (), "weighted": (cotangent,)}
    with pytest.raises(nqf.InvalidInput, match=f"rows {min(0, row)} to {max(0, row)} of block .*rows count from 0 to"):
        getattr(structure, operation)(*arguments[operation])


@pytest.mark.parametrize("row", [-1, 3])
def test_replicas_refuse_a_row_that_is_not_there(row):
    W = {"u": torch.ones(2, 3, 1), "v": torch.ones(2, 2, 1)}
    with pytest.raises(nqf.InvalidInput, match="rows count from 0 to"):
        picked([0, row], "u").evaluate(W)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16])
def test_rows_of_any_integer_dtype_pick_by_number(kind):
    index = torch.tensor([1, 0, 1])
    one, two = (
        nqf.quadratic("n,n->n", nqf.rows("u", index.to(dtype)), nqf.rows("v", index)).bind(BLOCKS)
        for dtype in (kind, torch.int64)
    )
    M = torch.arange(25.0).reshape(5, 5)
    assert one.dense().shape == (3, 1, 5, 5) and torch.equal(one.dense(), two.dense())
    assert torch.equal(one.contract(M), two.contract(M))


@pytest.mark.parametrize("kind", [torch.int64, torch.uint8, torch.bool])
def test_coefficients_that_are_no_floats_are_cast_to_the_weights(kind):
    x = torch.tensor([[1, 0, 1]]).to(kind)
    W = {"u": torch.randn(3, 4, dtype=torch.float64), "v": torch.randn(2, 4, dtype=torch.float64)}
    one, two = mlp(x), mlp(x.double())
    M = torch.eye(5, dtype=torch.float64) + 1
    cotangent = torch.ones(1, 2, dtype=torch.float64)
    assert torch.equal(one.evaluate(W), two.evaluate(W))
    assert torch.equal(one.pullback(W, cotangent)["u"], two.pullback(W, cotangent)["u"])
    assert torch.equal(one.apply(W)["v"], two.apply(W)["v"])
    assert torch.equal(one.contract(M), two.contract(M))
    assert torch.equal(one.weighted(cotangent), two.weighted(cotangent))
    assert torch.equal(one.dense(torch.float64), two.dense())


def test_an_explicit_matrix_of_truth_values_is_one_of_numbers():
    structure = nqf.dense(torch.tensor([[[True, True], [False, True]]]))
    assert structure.asymmetry() == 1


def test_complex_coefficients_are_refused():
    with pytest.raises(nqf.InvalidInput, match="holds real numbers"):
        mlp(X + 0j)


NO_NUMBERS = ["a", "1", None, float("nan"), float("inf"), torch.ones(2), 1j]


@pytest.mark.parametrize("scale", NO_NUMBERS, ids=str)
def test_a_scale_is_a_finite_number(scale):
    with pytest.raises(nqf.InvalidInput, match="must be a finite number, got"):
        mlp(scale=scale)
    with pytest.raises(nqf.InvalidInput, match="must be a finite number, got"):
        mlp() * scale


def test_a_scale_with_a_gradient_belongs_into_a_coefficient():
    scale = torch.tensor(2.0, requires_grad=True)
    for call in (lambda: mlp(scale=scale), lambda: mlp() * scale):
        with pytest.raises(nqf.InvalidInput, match="give a tensor with one as a coefficient"):
            call()
    assert torch.equal(mlp(scale=scale.detach()).dense(), 2 * mlp().dense())


@pytest.mark.parametrize("spec", [None, 3, X])
def test_a_spec_is_text(spec):
    with pytest.raises(nqf.InvalidInput, match="takes a spec such as"):
        nqf.quadratic(spec, "u", X, "v")


def test_structures_are_summed_by_sum():
    total = sum([mlp(), mlp(scale=2.0)])
    assert torch.equal(total.dense(), 3 * mlp().dense())
    with pytest.raises(TypeError):
        1 + mlp()


@pytest.mark.parametrize("operation", ["sparsity", "coupling_graph"])
def test_a_structure_without_samples_says_so(operation):
    empty = mlp(X[:0])
    assert empty.dense().shape == (0, 2, 5, 5) and empty.rank().shape == (0, 2)
    with pytest.raises(nqf.InvalidInput, match="at least one sample"):
        getattr(empty, operation)()


def test_an_index_of_two_axes_is_named_by_its_shape():
    with pytest.raises(nqf.InvalidInput, match=r"a tensor \(n,\), got torch.int64 of shape \(2, 1\)"):
        nqf.rows("u", torch.tensor([[0], [1]]))
