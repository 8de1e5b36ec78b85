"""Random acyclic graphs: evaluation equals a slow recursion with dense structure matrices, and YAML gives the graph back."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import nqf_registry as nqf
from nqf_registry.compose.nodes import LayerNode

F64 = torch.float64
FORMS = ("follow", "original", "nqf")


@st.composite
def graphs(draw, registry):
    """A graph of up to four levels and all kinds of node; whatever nobody reads is joined before the last layer."""
    graph = nqf.Graph("random").input("x", draw(st.integers(1, 4))).input("t", integer=True)
    given_shapes = {"x": graph._inputs["x"].shape[0]}
    unread = {"x", "t"}
    names = (f"n{i}" for i in itertools.count())

    def take(source):
        unread.discard(source)
        return source

    def pick():
        return take(draw(st.sampled_from(sorted(given_shapes))))

    def add(name, shape):
        given_shapes[name] = shape
        unread.add(name)

    for _ in range(draw(st.integers(1, 4))):
        level = {}
        for _ in range(draw(st.integers(1, 2))):
            name, form, n_out, width = (
                next(names),
                draw(st.sampled_from(FORMS)),
                draw(st.integers(1, 4)),
                draw(st.integers(1, 3)),
            )
            kind = draw(st.sampled_from(["units", "residual", "pair", "lookup", "biased", "sum", "concat", "identity"]))
            source = pick()
            size = given_shapes[source]
            if kind == "sum":
                alike = sorted(other for other, shape in given_shapes.items() if shape == size)
                graph = graph.sum(name, source, take(draw(st.sampled_from(alike))))
                level[name] = size
            elif kind == "concat":
                other = pick()
                graph = graph.concat(name, source, other)
                level[name] = size + given_shapes[other]
            elif kind == "identity":
                graph = graph.identity(name, source)
                level[name] = size
            elif kind == "lookup":
                layer = registry.get("small-lookup", n_out=n_out, width=width)
                unread.add(source)  # it reads the token instead
                graph = graph.layer(name, layer, take("t"), form=form)
                level[name] = n_out
            elif kind == "pair":
                context = pick()
                layer = registry.get("small-pair", n_in=size, n_context=given_shapes[context], n_out=n_out, width=width)
                graph = graph.layer(name, layer, x=source, c=context, form=form)
                level[name] = n_out
            else:
                n_out = size if kind == "residual" else n_out
                key = "small-biased" if kind == "biased" else "small-units"
                layer = registry.get(key, n_in=size, n_out=n_out, width=width)
                graph = graph.layer(name, layer, source, form=form, residual=kind == "residual")
                level[name] = n_out
        for name, shape in level.items():
            add(name, shape)
    if "t" in unread:
        graph = graph.layer("looked-up", registry.get("small-lookup", n_out=2), take("t"))
        add("looked-up", 2)
    rest = sorted(unread)
    graph = graph.concat("rest", *rest)
    last = registry.get("small-units", n_in=sum(given_shapes[name] for name in rest), n_out=2)
    return graph.layer("last", last, "rest", form=draw(st.sampled_from(FORMS))).output("last")


def slow(net, W, x, name, quadratic):
    """The value of one node by recursion, neuron by neuron, nothing remembered."""
    if name in net.inputs:
        return x[name]
    node = net.nodes[name]
    values = {port: slow(net, W, x, source, quadratic) for port, source in node.sources().items()}
    parts = list(values.values())
    if node.kind == "sum":
        return sum(parts[1:], parts[0])
    if node.kind == "concat":
        return torch.cat(parts, 1)
    if node.kind == "identity":
        return parts[0]
    assert isinstance(node, LayerNode)
    layer = node.layer
    neurons = [{block: W[f"{name}.{block}"][..., i] for block in layer.blocks()} for i in range(layer.width)]
    if node.form == "original" or (node.form == "follow" and not quadratic):
        out = sum(layer.unit(w, values) for w in neurons)
    elif layer.key == "small-biased":  # f(0) + g·mu + second order, of v (1 + u·x + …)
        out = sum((1 + values["x"] @ w["u"])[:, None] * w["v"] for w in neurons)
    else:
        A = layer.structure(values).dense(F64)
        flat = [torch.cat([w[block].flatten() for block in layer.blocks()]) for w in neurons]
        out = sum(torch.einsum("p,nkpq,q->nk", w, A, w) for w in flat)
    return out + values[node.added_port] if node.residual else out


@settings(max_examples=30)
@given(data=st.data())
def test_evaluation_equals_slow_recursion_and_yaml_gives_the_graph_back(shelf, data):
    net = data.draw(graphs(shelf))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))
    x = {name: t.double() if t.is_floating_point() else t for name, t in net.sample(3, generator).items()}
    W = net.random(generator, 0.5, F64)
    for quadratic in (False, True):
        expected = slow(net, W, x, net.output, quadratic)
        got = nqf.quadratic_form(net, x).evaluate(W) if quadratic else net(W, x)
        torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)
    text = net.to_yaml()
    again = nqf.Composition.from_yaml(text, shelf)
    assert again == net and again.order == net.order
    assert again.to_yaml() == text


@settings(max_examples=10)
@given(data=st.data())
def test_pullback_is_the_gradient_of_the_slow_recursion(shelf, data):
    net = data.draw(graphs(shelf))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**16)))
    x = {name: t.double() if t.is_floating_point() else t for name, t in net.sample(3, generator).items()}
    W = net.random(generator, 0.5, F64)
    cotangent = torch.randn(3, 2, generator=generator, dtype=F64)
    leaves = {name: block.clone().requires_grad_() for name, block in W.items()}
    expected = torch.autograd.grad(slow(net, leaves, x, net.output, True), list(leaves.values()), cotangent, allow_unused=True)
    pulled = nqf.quadratic_form(net, x).pullback(W, cotangent)
    for name, grad in zip(leaves, expected, strict=True):
        torch.testing.assert_close(pulled[name], torch.zeros_like(W[name]) if grad is None else grad, rtol=1e-10, atol=1e-10)
