"""Times the quadratic form of multi-head attention beside the dense Hessian block that it replaces.

    OMP_NUM_THREADS=1 python benchmarks/attention_nqf.py [--threads 1] [--json]

Prints milliseconds: binding the form to its inputs, evaluating it, its pullback, the layer's own forward, and one dense Hessian
block of one sample by autodiff, (p, p), which a form that is not contracted would need for every sample.
"""

import argparse
import json
import time

import torch

import nqf_registry as nqf

SIZES = {"dim": 64, "tokens": 16, "d_k": 32, "d_v": 32, "n_out": 1, "width": 4}
SAMPLES = 64


def milliseconds(function, rounds=200, warm=20):
    """Median time of one call."""
    for _ in range(warm):
        function()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return 1e3 * sorted(times)[rounds // 2]


def hessian_block(layer, x):
    """½ ∂²f/∂w_1∂w_1 at W = 0 of one sample, (p, p), column by column."""
    one = {name: t[:1] for name, t in x.items()}

    def f(column):
        head = column[:, None]
        return layer(layer.unstack(torch.cat([head, head.new_zeros(len(head), layer.width - 1)], -1)), one).sum()

    zero = torch.zeros(layer.n_params)
    gradient = torch.func.grad(f)

    def column(direction):
        return torch.func.jvp(gradient, (zero,), (direction,))[1]

    return torch.cat([torch.func.vmap(column)(part) for part in torch.eye(layer.n_params).split(256)]) / 2


def measure():
    """The figures, by name."""
    layer = nqf.default_registry().get("multi-head-attention", **SIZES)
    generator = torch.Generator().manual_seed(0)
    x, W = layer.sample(SAMPLES, generator), layer.random(generator, 0.1)  # at 1 the softmax is full of denormal numbers
    form, cotangent = nqf.quadratic_form(layer, x), torch.ones(SAMPLES, SIZES["n_out"])
    figures = {
        "bind": milliseconds(lambda: nqf.quadratic_form(layer, x)),
        "evaluate": milliseconds(lambda: form.evaluate(W)),
        "pullback": milliseconds(lambda: form.pullback(W, cotangent)),
        "forward": milliseconds(lambda: layer(W, x)),
    }
    start = time.perf_counter()
    block = hessian_block(layer, x)
    figures["hessian_block"] = 1e3 * (time.perf_counter() - start)
    dense = torch.einsum("pd,pq,qd->", layer.stack(W), block, layer.stack(W))
    torch.testing.assert_close(dense, form.evaluate(W)[0, 0], rtol=1e-3, atol=1e-4)
    return {"p": layer.n_params, "samples": SAMPLES, "threads": torch.get_num_threads(), "milliseconds": figures}


def main():
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = measure()
    if options.json:
        print(json.dumps(result))
        return
    print(f"multi-head-attention, p = {result['p']}, {result['samples']} samples, threads = {result['threads']}")
    for name, value in result["milliseconds"].items():
        print(f"  {name:15s}{value:12.3f} ms")


if __name__ == "__main__":
    main()
