"""Every operation of a structure against one dense, slow reference: the form itself at pairs of basis vectors."""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry.structure import Structure

SIZES = {"a": 2, "b": 2, "c": 2, "i": 3, "j": 3, "k": 3, "n": 4}
PICKED = {"r": 5, "s": 2}  # row axes of blocks that an index picks from


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-10)


def layout(blocks):
    start, where = 0, {}
    for name, shape in blocks.items():
        size = int(torch.tensor(shape).prod()) if shape else 1
        where[name] = slice(start, start + size)
        start += size
    return where, start


def reference(terms, blocks):
    """A (n, k, p, p) from the bilinear forms at pairs of basis vectors, symmetrised; one plain einsum a pair."""
    where, p = layout(blocks)
    basis = torch.eye(p, dtype=torch.float64)

    def side(operand, w):
        name = operand if isinstance(operand, str) else operand.block
        block = w[where[name]].reshape(blocks[name])
        return block if isinstance(operand, str) else block[operand.index]

    def form(w, z):
        total = 0.0
        for spec, operands, scale in terms:
            value = torch.einsum(spec, side(operands[0], w), *operands[1:-1], side(operands[-1], z))
            total = total + scale * value.reshape(SIZES["n"], -1)
        return total

    matrix = torch.stack([torch.stack([form(e, f) for f in basis], -1) for e in basis], -2)
    return (matrix + matrix.mT) / 2


@dataclass
class Case:
    blocks: dict
    terms: list
    structure: Structure
    seed: int

    def weights(self, d=3, replicas=None):
        g = torch.Generator().manual_seed(self.seed)
        lead = () if replicas is None else (replicas,)
        return {b: torch.randn(*lead, *s, d, generator=g, dtype=torch.float64) for b, s in self.blocks.items()}

    def cotangent(self, k, replicas=None):
        lead = () if replicas is None else (replicas,)
        return torch.randn(*lead, SIZES["n"], k, generator=torch.Generator().manual_seed(self.seed + 1), dtype=torch.float64)


@st.composite
def cases(draw):
    """Random specs: Kronecker letters, one block on both sides, letters of one side alone, picked rows, several outputs."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**20)))
    words = {name: "".join(draw(st.lists(st.sampled_from("aijb"), max_size=2, unique=True))) for name in ("u", "v")}
    rows = {name: draw(st.sampled_from(["", "", "r", "s"])) for name in words}
    words = {name: word[:1] if rows[name] else word for name, word in words.items()}  # small p: the reference takes p² einsums
    sizes = {name: tuple((PICKED | SIZES)[x] for x in rows[name] + word) for name, word in words.items()}
    blocks = {**sizes, "inert": (2,)}
    outs = "".join(draw(st.lists(st.sampled_from("aikc"), max_size=2, unique=True)))
    terms = []
    for _ in range(draw(st.integers(1, 2))):
        names = draw(st.sampled_from([("u", "v"), ("v", "u"), ("u", "u")]))
        letters, operands = [], []
        for place, name in enumerate(names):
            word = words[name]
            if place and name == names[0] and draw(st.booleans()):  # the same block under other letters: no Kronecker identity
                word = word.translate(str.maketrans("aijb", "bjia"))
            if rows[name]:
                index = torch.randint(PICKED[rows[name]], (SIZES["n"],), generator=generator)
                letters.append("n" + word)
                operands.append(nqf.rows(name, index))
            else:
                letters.append(word)
                operands.append(name)
        known = set("".join(letters)) - {"n"}
        coefficients, wanted = [], set(outs) - known
        for _ in range(draw(st.integers(1, 2))):
            pool = sorted(known | set("ai"))
            word = "n" + "".join(draw(st.permutations(draw(st.lists(st.sampled_from(pool), max_size=2, unique=True)))))
            coefficients.append(word + "".join(sorted(wanted - set(word))))
            wanted = set()
        tensors = [torch.randn(*(SIZES[x] for x in word), generator=generator, dtype=torch.float64) for word in coefficients]
        spec = ",".join([letters[0], *coefficients, letters[1]]) + "->n" + outs
        scale = draw(st.sampled_from([1.0, -0.5]))
        terms.append((spec, [operands[0], *tensors, operands[1]], scale))
    total = nqf.quadratic(terms[0][0], *terms[0][1], scale=terms[0][2])
    for spec, operands, scale in terms[1:]:
        total = total + nqf.quadratic(spec, *operands, scale=scale)
    return Case(blocks, terms, total.bind(blocks), draw(st.integers(0, 2**20)))


@given(cases())
def test_every_operation_agrees_with_the_dense_reference(case):
    A = reference(case.terms, case.blocks)
    k, W = A.shape[1], case.weights()
    S = _stack(W, case.blocks)
    close(case.structure.dense(torch.float64), A)
    close(case.structure.evaluate(W), torch.einsum("pd,nkpq,qd->nk", S, A, S))
    cotangent = case.cotangent(k)
    close(_stack(case.structure.pullback(W, cotangent), case.blocks), 2 * torch.einsum("nk,nkpq,qd->pd", cotangent, A, S))
    applied = [part.reshape(SIZES["n"], k, -1, part.shape[-1]) for part in case.structure.apply(W).values()]
    close(torch.cat(applied, 2), torch.einsum("nkpq,qd->nkpd", A, S))
    M = torch.randn(A.shape[-2:], generator=torch.Generator().manual_seed(case.seed), dtype=torch.float64)
    close(case.structure.contract(M), torch.einsum("nkpq,pq->nk", A, M))
    close(case.structure.weighted(cotangent), torch.einsum("nk,nkpq->pq", cotangent, A))
    close(case.structure.spectrum(), torch.linalg.eigvalsh(A))


@given(cases())
def test_a_replica_axis_is_as_many_separate_evaluations(case):
    W = case.weights(replicas=2)
    values = case.structure.evaluate(W)
    cotangent = case.cotangent(values.shape[-1], replicas=2)
    grads = case.structure.pullback(W, cotangent)
    for r in range(2):
        one = {name: block[r] for name, block in W.items()}
        close(values[r], case.structure.evaluate(one))
        for name, grad in case.structure.pullback(one, cotangent[r]).items():
            close(grads[name][r], grad)


@given(cases())
def test_the_pullback_is_the_gradient_of_evaluate(case):
    W = {name: block.requires_grad_() for name, block in case.weights().items()}
    value = case.structure.evaluate(W)
    cotangent = case.cotangent(value.shape[-1])
    grads = torch.autograd.grad(value, list(W.values()), cotangent, allow_unused=True)
    with torch.no_grad():
        pulled = case.structure.pullback(W, cotangent)
    for block, grad in zip(W, grads, strict=True):
        close(pulled[block], torch.zeros_like(W[block]) if grad is None else grad)


def _stack(W, blocks):
    return torch.cat([W[name].reshape(-1, W[name].shape[-1]) for name in blocks])


BLOCKS = {"u": (2,), "v": (1,)}
X = torch.tensor([[1.0, 2.0]], dtype=torch.float64)


def mlp(scale=1.0):
    return nqf.quadratic("i,ni,o->no", "u", X, "v", scale=scale)


def test_the_mlp_by_hand():
    expected = torch.tensor([[0, 0, 0.5], [0, 0, 1.0], [0.5, 1.0, 0]], dtype=torch.float64)
    structure = mlp().bind(BLOCKS)
    assert structure.dense().dtype == torch.float64
    assert torch.equal(structure.dense()[0, 0], expected)
    close(structure.spectrum()[0, 0], torch.tensor([-(5**0.5) / 2, 0, 5**0.5 / 2], dtype=torch.float64))
    assert structure.rank().tolist() == [[2]]
    assert structure.sparsity() == pytest.approx(5 / 9)
    assert structure.n_params == 3


def test_structures_add_subtract_and_scale():
    other = nqf.dense(torch.ones(1, 3, 3, dtype=torch.float64))
    both = (2 * mlp() - other + -mlp(0.5)).bind(BLOCKS)
    close(both.dense(), 1.5 * mlp().bind(BLOCKS).dense() - 1)
    with pytest.raises(TypeError):
        mlp() + 1.0


def test_an_explicit_matrix_obeys_the_same_operations():
    g = torch.Generator().manual_seed(0)
    A = torch.randn(4, 2, 3, 3, generator=g, dtype=torch.float64)
    A = A + A.mT
    W = {"u": torch.randn(2, 5, generator=g, dtype=torch.float64), "v": torch.randn(1, 5, generator=g, dtype=torch.float64)}
    S, structure = _stack(W, BLOCKS), nqf.dense(A).bind(BLOCKS)
    c = torch.randn(4, 2, generator=g, dtype=torch.float64)
    M = torch.randn(3, 3, generator=g, dtype=torch.float64)
    close(structure.evaluate(W), torch.einsum("pd,nkpq,qd->nk", S, A, S))
    close(_stack(structure.pullback(W, c), BLOCKS), 2 * torch.einsum("nk,nkpq,qd->pd", c, A, S))
    close(torch.cat([structure.apply(W)[b].reshape(4, 2, -1, 5) for b in BLOCKS], 2), torch.einsum("nkpq,qd->nkpd", A, S))
    close(structure.contract(M), torch.einsum("nkpq,pq->nk", A, M))
    close(structure.weighted(c), torch.einsum("nk,nkpq->pq", c, A))
    two = {name: torch.stack([block, 2 * block]) for name, block in W.items()}
    close(structure.evaluate(two)[1], 4 * structure.evaluate(W))
    assert structure.asymmetry() == 0


def test_an_asymmetric_matrix_is_seen_and_not_symmetrised():
    A = torch.zeros(1, 3, 3)
    A[0, 0, 1] = 2.0
    structure = nqf.dense(A).bind(BLOCKS)
    assert structure.asymmetry() == 1
    assert torch.equal(structure.dense()[0, 0], A[0])


def test_couplings_are_symmetric_by_construction():
    assert mlp().asymmetry() == 0


def test_the_coupling_graph_shows_inert_blocks_and_couplings():
    x = torch.tensor([[1.0, 0.0]])
    structure = nqf.quadratic("i,ni,o->no", "u", x, "v").bind({"u": (2,), "v": (1,), "w": (1,)})
    graph = structure.coupling_graph()
    assert set(graph) == {"u", "v", "w"}
    assert [set(e) for e in graph.edges] == [{"u", "v"}]
    fine = structure.coupling_graph("parameter")
    assert fine.number_of_nodes() == 4
    assert [set(e) for e in fine.edges] == [{("u", 0), ("v", 0)}]
    with pytest.raises(nqf.InvalidInput, match="'block' or 'parameter'"):
        structure.coupling_graph("neuron")


def test_a_block_coupled_to_itself_is_a_loop():
    graph = nqf.quadratic("i,ni,nj,j->n", "u", X, X, "u").bind({"u": (2,)}).coupling_graph()
    assert list(graph.edges) == [("u", "u")]


def test_a_zero_structure_has_rank_zero_and_no_edges():
    structure = nqf.quadratic("i,ni,o->no", "u", torch.zeros(1, 2), "v").bind(BLOCKS)
    assert structure.rank().tolist() == [[0]]
    assert structure.sparsity() == 1
    assert structure.coupling_graph().number_of_edges() == 0


def test_weights_decide_the_dtype():
    W = {"u": torch.ones(2, 1), "v": torch.ones(1, 1)}
    structure = mlp().bind(BLOCKS)
    assert structure.evaluate(W).dtype == torch.float32
    assert structure.pullback(W, torch.ones(1, 1))["u"].dtype == torch.float32
    assert structure.dense(torch.float32).dtype == torch.float32


@pytest.mark.parametrize(
    "spec, operands, words",
    [
        ("i,ni,o", ("u", X, "v"), "output must be written"),
        ("i,ni,o->on", ("u", X, "v"), "start with the sample axis n"),
        ("i,o->no", ("u", X, "v"), "2 operands, 3 were given"),
        ("ni->n", (X,), "1 operands, 1 were given"),
        ("i,ni,o->no", (X, X, "v"), "first and the last operand are blocks"),
        ("i,ni,o->no", ("u", "x", "v"), "a coefficient is a tensor, got str"),
        ("i,nij,o->no", ("u", X, "v"), r"'nij' has shape \(1, 2\)"),
        ("i,ni,nj,o->no", ("u", X, torch.ones(3, 2), "v"), "letter 'n' has size 1 in one operand and 3"),
        ("i,ni,no->no", ("u", X, "v"), "a block has no sample axis"),
        ("i,ni,o->no", ("u", X, nqf.rows("v", torch.tensor([0]))), "letters start with n"),
        (
            "n,n->n",
            (nqf.rows("u", torch.tensor([0])), nqf.rows("v", torch.tensor([0, 0]))),
            "one side picks 1 rows, the other 2",
        ),
        ("n,nI,o->no", (nqf.rows("u", torch.tensor([0])), X, "v"), "only lower-case letters"),
        ("i,ni,o->noo", ("u", X, "v"), "twice in the output"),
        ("ii,ni,o->no", ("u", X, "v"), "each axis of a block has a letter of its own"),
        ("i,ni,o->nk", ("u", X, "v"), "output letter 'k' is in no operand"),
        ("i,i->n", ("u", "u"), "output letter 'n' is in no operand"),
    ],
)
def test_a_bad_spec_says_where(spec, operands, words):
    with pytest.raises(nqf.InvalidInput, match=words):
        nqf.quadratic(spec, *operands)


@pytest.mark.parametrize(
    "structure, words",
    [
        (nqf.quadratic("i,ni,o->no", "q", X, "v"), "couples a block 'q'; the blocks are u, v"),
        (nqf.quadratic("ij,ni,o->no", "u", X, "v"), "one letter an axis"),
        (nqf.quadratic("i,ni,o->no", "u", torch.ones(1, 3), "v"), r"letter 'i' size 3, block 'u' is \(2,\)"),
        (nqf.quadratic("i,n,i->n", "u", torch.ones(1), "v"), "letter 'i' size 2, block 'v'"),
        (nqf.dense(torch.ones(1, 4, 4)), "4 × 4 matrices, the blocks have p = 3"),
        (mlp() + nqf.dense(torch.ones(2, 3, 3)), r"differ in samples and outputs \(n, k\): \(1, 1\), \(2, 1\)"),
    ],
)
def test_a_structure_that_does_not_fit_its_blocks_is_refused_when_bound(structure, words):
    with pytest.raises(nqf.InvalidInput, match=words):
        structure.bind(BLOCKS)


def test_what_needs_the_shapes_asks_for_them():
    with pytest.raises(nqf.InvalidInput, match="take it from a layer"):
        mlp().dense()


@pytest.mark.parametrize("index", [torch.tensor([0.0]), torch.tensor([[0]]), torch.tensor([True]), [0]])
def test_rows_take_one_integer_a_sample(index):
    with pytest.raises(nqf.InvalidInput, match="one integer a sample"):
        nqf.rows("u", index)


def test_rows_take_a_block_by_name():
    with pytest.raises(nqf.InvalidInput, match="name of a block"):
        nqf.rows(0, torch.tensor([0]))


@pytest.mark.parametrize("index", [[2], [-1]])
def test_a_row_that_is_not_there_is_named(index):
    structure = nqf.quadratic("n,o->no", nqf.rows("u", torch.tensor(index)), "v").bind(BLOCKS)
    with pytest.raises(nqf.InvalidInput, match=f"rows {index[0]} to {index[0]} of block 'u', which has 2"):
        structure.evaluate({"u": torch.ones(2, 1), "v": torch.ones(1, 1)})


@pytest.mark.parametrize("tensor", [torch.ones(2, 2), torch.ones(1, 2, 3), "A"])
def test_dense_takes_square_matrices_by_sample(tensor):
    with pytest.raises(nqf.InvalidInput, match="square matrices by sample"):
        nqf.dense(tensor)


def test_a_wrong_order_parameter_is_refused():
    with pytest.raises(nqf.InvalidInput, match=r"M must be \(3, 3\)"):
        mlp().bind(BLOCKS).contract(torch.eye(2, dtype=torch.float64))


def test_apply_takes_no_replica_axis():
    with pytest.raises(nqf.InvalidInput, match="without a replica axis"):
        mlp().bind(BLOCKS).apply({"u": torch.ones(2, 2, 1), "v": torch.ones(2, 1, 1)})
