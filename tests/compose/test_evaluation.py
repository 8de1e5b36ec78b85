"""Compositions against the same graph nested by hand, original and quadratic, values and gradients."""

import pytest
import torch

import nqf_registry as nqf

F64 = torch.float64


@pytest.fixture
def net(shelf):
    """Every kind of node: concat, sum, residual, identity, two ports, an integer port."""
    units = shelf.get("small-units", n_in=4, n_out=4, width=3)
    return (
        nqf.Graph("every-kind")
        .input("x", 4)
        .input("token", integer=True)
        .layer("looked-up", shelf.get("small-lookup"), "token")
        .sum("joined", "x", "looked-up", "x")
        .layer("first", units, "joined", residual=True)
        .concat("wide", "first", "x")
        .layer("second", shelf.get("small-pair", n_in=8, n_context=4, n_out=3), x="wide", c="joined")
        .identity("same", "second")
        .layer("readout", shelf.get("small-units", n_in=3, n_out=2, width=5), "same")
        .output("readout")
    )


def start(net, seed=0, n=6, scale=0.7):
    generator = torch.Generator().manual_seed(seed)
    x = {name: t.double() if t.is_floating_point() else t for name, t in net.sample(n, generator).items()}
    return net.random(generator, scale, F64), x


def by_hand(W, x, quadratic):
    """The graph of ``net`` written out."""
    phi = (lambda z: z) if quadratic else torch.tanh
    sine, gate = ((lambda z: z), torch.ones_like) if quadratic else (torch.sin, lambda z: torch.exp(-(z**2)))
    looked_up = W["looked-up.u"][x["token"]] @ W["looked-up.v"].T
    joined = 2 * x["x"] + looked_up
    first = phi(joined @ W["first.u"]) @ W["first.v"].T + joined
    wide = torch.cat([first, x["x"]], 1)
    second = (sine(wide @ W["second.u"]) * gate(joined @ W["second.g"])) @ W["second.v"].T
    return phi(second @ W["readout.u"]) @ W["readout.v"].T


def assert_close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def test_original_equals_the_nesting_by_hand(net):
    W, x = start(net)
    assert_close(net(W, x), by_hand(W, x, quadratic=False))


def test_quadratic_form_equals_the_nesting_by_hand(net):
    W, x = start(net)
    assert_close(nqf.quadratic_form(net, x).evaluate(W), by_hand(W, x, quadratic=True))
    assert (by_hand(W, x, True) - by_hand(W, x, False)).abs().max() > 1e-2  # the two are told apart here


def test_forms_are_chosen_by_node(net):
    W, x = start(net)
    mixed = net.with_forms("original", first="nqf")
    looked_up = W["looked-up.u"][x["token"]] @ W["looked-up.v"].T
    joined = 2 * x["x"] + looked_up
    first = joined @ W["first.u"] @ W["first.v"].T + joined
    wide = torch.cat([first, x["x"]], 1)
    second = (torch.sin(wide @ W["second.u"]) * torch.exp(-((joined @ W["second.g"]) ** 2))) @ W["second.v"].T
    expected = torch.tanh(second @ W["readout.u"]) @ W["readout.v"].T
    assert_close(mixed(W, x), expected)
    assert_close(nqf.quadratic_form(mixed, x).evaluate(W), expected)  # no node follows, so nothing changes
    assert_close(net.with_forms("nqf")(W, x), by_hand(W, x, quadratic=True))
    assert_close(nqf.quadratic_form(net.with_forms("original"), x).evaluate(W), by_hand(W, x, quadratic=False))
    assert mixed.with_forms("follow") == net and mixed != net


def test_weights_do_not_depend_on_forms_nor_on_the_order_of_writing(net, shelf):
    other = net.with_forms({"first": "nqf", "second": "original"})
    shuffled = nqf.Composition(net.key, net.inputs, dict(reversed(net.nodes.items())), net.output)
    W, _ = start(net)
    for same in (start(other)[0], start(shuffled)[0]):
        assert list(same) == list(W) == list(net.blocks())
        assert all(torch.equal(same[name], W[name]) for name in W)
    single = net.random(torch.Generator().manual_seed(3), 0.5)
    double = net.random(torch.Generator().manual_seed(3), 0.5, F64)
    assert all(torch.equal(single[name], double[name].float()) for name in single)
    assert {name: tuple(t.shape) for name, t in net.zeros().items()} == {name: tuple(t.shape) for name, t in single.items()}
    assert sum(t.numel() for t in single.values()) == net.n_weights


@pytest.mark.parametrize("forms", [{}, {"form": "nqf"}, {"first": "nqf", "readout": "original"}])
def test_gradients_agree_with_differences(net, forms):
    net = net.with_forms(**forms)
    W, x = start(net)
    generator = torch.Generator().manual_seed(5)
    cotangent = torch.randn(6, 2, generator=generator, dtype=F64)
    for model in (net.bind(x), nqf.quadratic_form(net, x)):
        gradient = model.pullback(W, cotangent)
        assert set(gradient) == set(W)
        for name in W:
            direction = torch.randn(W[name].shape, generator=generator, dtype=F64)

            def at(step, name=name, direction=direction, model=model):
                return (cotangent * model.evaluate({**W, name: W[name] + step * direction})).sum()

            h = 1e-3
            coarse, fine = (at(h) - at(-h)) / (2 * h), (at(h / 2) - at(-h / 2)) / h
            difference = (4 * fine - coarse) / 3
            assert_close((gradient[name] * direction).sum(), difference, 1e-8)


def test_quadratic_gradient_equals_autograd_of_the_formula_by_hand(net):
    W, x = start(net)
    cotangent = torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    grads = torch.autograd.grad(by_hand(leaves, x, True), list(leaves.values()), cotangent, allow_unused=True)
    pulled = nqf.quadratic_form(net, x).pullback(W, cotangent)
    for name, grad in zip(leaves, grads, strict=True):
        assert_close(pulled[name], torch.zeros_like(W[name]) if grad is None else grad)
    assert pulled["second.g"].abs().max() == 0  # inert at quadratic order
    assert not any(block.requires_grad for block in W.values())


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("quadratic", [False, True])
def test_replicas_are_a_leading_axis(net, quadratic, count):
    _, x = start(net)
    replicas = [start(net, seed)[0] for seed in range(count)]
    W = {name: torch.stack([r[name] for r in replicas]) for name in replicas[0]}
    model = net.bind(x, quadratic)
    assert_close(model.evaluate(W), torch.stack([model.evaluate(r) for r in replicas]))
    cotangent = torch.randn(count, 6, 2, generator=torch.Generator().manual_seed(1), dtype=F64)
    pulled = model.pullback(W, cotangent)
    for name in W:
        assert_close(pulled[name], torch.stack([model.pullback(r, c)[name] for r, c in zip(replicas, cotangent, strict=True)]))


def test_replicas_are_looped_over_where_vmap_refuses(shelf):
    from nqf_registry.compose import graph

    stubborn, units = (shelf.get(key, n_in=4, n_out=4) for key in ("small-stubborn", "small-units"))
    net = nqf.Graph().input("x", 4).layer("a", stubborn, "x").layer("b", units, "a").output("b")
    x = net.sample(5, torch.Generator().manual_seed(0))
    replicas = [net.random(torch.Generator().manual_seed(seed)) for seed in range(3)]
    W = {name: torch.stack([r[name] for r in replicas]) for name in replicas[0]}
    for _ in range(2):  # refused, then remembered
        assert_close(net(W, x), torch.stack([net(r, x) for r in replicas]), 1e-6)
        assert frozenset({type(stubborn), type(units)}) in graph._looped


def test_a_derived_form_goes_through_the_graph(shelf):
    """Without ZGZ nor declared parts: h = V·1 + x U V^T of the node's own input, also below another node and by replica."""
    net = (
        nqf.Graph()
        .input("x", 4)
        .layer("a", shelf.get("small-units", n_in=4, n_out=4), "x")
        .layer("b", shelf.get("small-biased"), "a")
        .output("b")
    )
    _, x = start(net)
    replicas = [start(net, seed)[0] for seed in range(2)]

    def expected(W):
        h = x["x"] @ W["a.u"] @ W["a.v"].T
        return W["b.v"].sum(-1) + h @ W["b.u"] @ W["b.v"].T

    form = nqf.quadratic_form(net, x)
    W = {name: torch.stack([r[name] for r in replicas]) for name in replicas[0]}
    assert_close(form.evaluate(W), torch.stack([expected(r) for r in replicas]))
    leaves = {name: block.clone().requires_grad_() for name, block in replicas[0].items()}
    grads = torch.autograd.grad(expected(leaves).sum(), list(leaves.values()))
    pulled = form.pullback(replicas[0], torch.ones(6, 2, dtype=F64))
    for name, grad in zip(leaves, grads, strict=True):
        assert_close(pulled[name], grad)


def test_one_layer_is_its_own_composition(shelf):
    layer = shelf.get("small-pair")
    net = nqf.Graph().input("x", 4).input("c", 3).layer("only", layer, x="x", c="c").output("only")
    W, x = start(net)
    own = {name.removeprefix("only."): block for name, block in W.items()}
    assert_close(net(W, x), layer(own, x), 0)
    assert_close(nqf.quadratic_form(net, x).evaluate(W), nqf.quadratic_form(layer, x).evaluate(own), 0)
    torch.testing.assert_close(
        net.sample(4, torch.Generator().manual_seed(2)), layer.sample(4, torch.Generator().manual_seed(2))
    )


def test_dtype_is_that_of_the_weights(net):
    W, x = start(net)
    single = {name: block.float() for name, block in W.items()}
    for model in (net.bind(x), nqf.quadratic_form(net, x), nqf.quadratic_form(net, x, torch.float32)):
        assert model.evaluate(single).dtype == torch.float32
        assert_close(model.evaluate(single).double(), model.evaluate(W), 1e-4)


def test_what_depends_on_x_alone_is_computed_once(net, monkeypatch):
    W, x = start(net)
    counts = {}
    for name, layer in net.layers().items():
        cls = type(layer)

        def counted(self, x, original=cls.structure, cls=cls):
            counts[cls.key] = counts.get(cls.key, 0) + 1
            return original(self, x)

        if name in ("looked-up", "second"):
            monkeypatch.setattr(cls, "structure", counted)
    form = nqf.quadratic_form(net, x)
    for _ in range(3):
        form.evaluate(W)
    assert counts == {"small-lookup": 1, "small-pair": 3}


def test_encode_fills_the_only_input(shelf, net):
    one = nqf.Graph().input("x", 4).layer("a", shelf.get("small-units"), "x").output("a")
    features = torch.arange(12.0).reshape(3, 4)
    assert torch.equal(one.encode(features)["x"], features)
    with pytest.raises(nqf.InvalidInput, match="has 5 features"):
        one.encode(torch.zeros(3, 5))
    with pytest.raises(nqf.InvalidInput, match=r"token \(n\) integer"):
        net.encode(features)
    units = shelf.get("small-units", n_in=8)
    with pytest.raises(nqf.InvalidInput, match="Give it one input"):
        nqf.Graph().input("x", 4).input("y", 4).concat("c", "x", "y").layer("a", units, "c").output("a").encode(features)
    behind = nqf.Graph().input("x", 4).concat("c", "x", "x").layer("a", units, "c").output("a")
    assert torch.equal(behind.encode(features)["x"], features)


def test_encode_asks_the_layer_that_reads_all_inputs():
    """Attention cuts the features into tokens and a query; the graph names its inputs otherwise."""
    layer = nqf.default_registry().get("multi-head-attention", dim=4, tokens=3)
    net = nqf.Graph().input("context", 3, 4).input("query", 4).layer("a", layer, X="context", x="query").output("a")
    features = torch.arange(24.0).reshape(2, 12)
    own = layer.encode(features)
    assert torch.equal(net.encode(features)["context"], own["X"]) and torch.equal(net.encode(features)["query"], own["x"])


def test_integer_inputs_of_two_layers_stay_in_both_ranges(shelf):
    wide, narrow = shelf.get("small-lookup", n_tokens=50), shelf.get("small-lookup", n_tokens=3)
    net = nqf.Graph().input("t", integer=True).layer("a", wide, "t").layer("b", narrow, "t").sum("s", "a", "b").output("s")
    x = net.sample(100, torch.Generator().manual_seed(0))
    assert int(x["t"].max()) == 2
    assert net(net.random(torch.Generator().manual_seed(0)), x).shape == (100, 4)


def test_wrong_weights_and_inputs_are_told(net):
    W, x = start(net)
    cases = [
        ({**W, "ghost.u": W["first.u"]}, x, "must be a dict of the blocks"),
        ({**W, "first.u": W["first.u"][:2]}, x, "node first: block 'u' must be"),
        ({**W, "first.u": W["first.u"][None], "first.v": W["first.v"][None]}, x, "share one replica axis"),
        (W, {"x": x["x"]}, "inputs x, token; got x"),
        (W, {**x, "x": x["x"][:, :3]}, r"the input 'x' takes \(n, 4\), got \(n, 3\)"),
        (W, {**x, "token": x["token"].double()}, "the input 'token' takes integers, got torch.float64"),
        (W, {**x, "token": x["token"][:2]}, "different numbers of samples"),
    ]
    for weights, inputs, message in cases:
        with pytest.raises(nqf.InvalidInput, match=message):
            net(weights, inputs)
    with pytest.raises(nqf.InvalidInput, match="Did you mean 'first'"):
        net.with_forms(frist="nqf")
    with pytest.raises(nqf.InvalidInput, match="one of follow, original, nqf"):
        net.with_forms("quadratic")
    with pytest.raises(nqf.InvalidInput, match="takes a layer or a composition, got str"):
        nqf.quadratic_form("first", x)


def test_the_graph_as_networkx(net):
    graph = net.edges()
    assert graph.edges["x", "joined"]["ports"] == ("0", "2")
    assert graph.nodes["wide"] == {"kind": "concat", "port": nqf.Port((8,))}
    assert net.ports() == {"x": nqf.Port((4,)), "token": nqf.Port((), True)}
    assert net.n_outputs() == 2
