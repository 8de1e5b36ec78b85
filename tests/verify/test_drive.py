"""Hypothesis draws and shrinks; what was seen is kept, whatever happens."""

import functools
import os
import random
import subprocess
import sys

import numpy
import pytest

from nqf_registry.verify.drive import Measurement, drive
from nqf_registry.verify.setting import Undecided
from nqf_registry.verify.strategies import Draw, draws, gaussian_weights, permutations, simpler, simplify


def run(measure, first=(), examples=30, seed=0, seconds=60.0):
    return drive(measure, draws(1, (1, 2, 3, 5), 4), list(first), examples, seconds, seed)


def test_the_worst_of_all_examples_is_kept():
    seen = []

    def measure(draw):
        seen.append(draw.weights)
        return Measurement(draw.weights * 1e-9, 1.0)

    outcome = run(measure)
    assert not outcome.failed and outcome.examples == len(seen) == 30
    assert outcome.worst.residual == pytest.approx(max(seen) * 1e-9)


def test_a_failure_shrinks_to_the_smallest_width_and_seed():
    outcome = run(lambda draw: Measurement(float(draw.width >= 3 and draw.weights >= 10), 0.0, details={"draw": draw}))
    assert outcome.failed
    shrunk = outcome.worst.details["draw"]
    assert (shrunk.width, shrunk.weights, shrunk.inputs, shrunk.samples) == (3, 10, 0, 4)


def test_first_examples_are_measured_and_their_failures_kept():
    only = Draw(width=5, weights=123456789)  # weights that hypothesis never draws
    outcome = run(lambda draw: Measurement(float(draw == only), 0.0, details={"draw": draw}), first=[only])
    assert outcome.failed and outcome.worst.details["draw"] == only


def test_what_hypothesis_does_not_find_again_is_simplified_field_by_field():
    def measure(draw):
        failed = draw.width >= 3 and draw.weights == 123456789  # weights that hypothesis never draws
        return Measurement(float(failed), 0.0)

    first = Draw(instance=1, width=5, samples=1, inputs=3, weights=123456789, factor=2.0, neuron=4)
    easier = functools.partial(simpler, widths=(1, 2, 3, 5), factors=(1.0, 2.0), samples=(4, 1))
    outcome = drive(measure, draws(2, (1, 2, 3, 5), 4), [first], 10, 60.0, 0, simpler=easier)
    assert outcome.failed and outcome.draw == Draw(width=3, weights=123456789)


def test_an_example_that_cannot_be_measured_does_not_end_shrinking():
    def measure(draw):
        if draw.width < 3:
            raise Undecided("too narrow")
        return Measurement(1.0, 0.0)

    easier = functools.partial(simpler, widths=(1, 2, 3, 5), factors=(1.0,), samples=(4,))
    outcome = drive(measure, draws(1, (1, 2, 3, 5), 4), [Draw(width=5, inputs=2)], 10, 60.0, 0, simpler=easier)
    assert outcome.failed and outcome.reason is None and outcome.draw == Draw(width=3)


def test_the_draw_of_what_is_reported_is_kept():
    outcome = run(lambda draw: Measurement(draw.weights * 1e-9, 1.0))
    assert outcome.draw.weights * 1e-9 == outcome.worst.residual
    outcome = run(lambda draw: Measurement(float(draw.weights), 9.0, details={"draw": draw}))
    assert outcome.failed and outcome.draw == outcome.worst.details["draw"] and outcome.draw.weights == 10


def test_nan_fails_whatever_the_bound():
    for at_least in (False, True):
        assert Measurement(float("nan"), 1.0, at_least).failed
        assert run(lambda draw, a=at_least: Measurement(float("nan"), 1.0, a)).failed


def test_the_same_seed_draws_the_same():
    def trace(seed):
        seen = []
        run(lambda draw: seen.append(draw) or Measurement(0.0, 1.0), seed=seed)
        return seen

    assert trace(1) == trace(1) != trace(2)


def test_a_draw_that_does_not_apply_is_not_counted():
    outcome = run(lambda draw: None)
    assert outcome.examples == 0 and outcome.worst is None and outcome.reason is None


def test_an_exception_is_a_reason():
    def broken(draw):
        raise ValueError("what the layer\nsaid")

    outcome = run(broken)
    assert outcome.reason == "ValueError: what the layer said" and outcome.raised and outcome.examples == 0

    def refusing(draw):
        raise Undecided("too large")

    outcome = run(refusing)
    assert outcome.reason == "too large" and not outcome.raised


def test_time_runs_out_after_the_first_examples():
    outcome = run(lambda draw: Measurement(0.0, 1.0), seconds=-1.0)
    assert outcome.stopped and outcome.examples == 0 and "fewer than 4 decide nothing" in outcome.reason
    first = [Draw(width=width) for width in (1, 2, 3)]
    outcome = run(lambda draw: Measurement(0.0, 1.0), first, seconds=-1.0)
    assert outcome.stopped and outcome.examples == 3 and outcome.reason is not None
    outcome = run(lambda draw: Measurement(0.0, 1.0), [*first, Draw(width=5)], seconds=-1.0)
    assert outcome.stopped and outcome.examples == 4 and outcome.reason is None
    assert run(lambda draw: Measurement(1.0, 0.0), first[:1], seconds=-1.0).failed  # a failure needs no second example


def test_waiting_is_not_the_time_that_runs_out(monkeypatch):
    """A machine that is busy with something else changes no report: only the CPU time of this process counts."""
    import time

    late = iter(range(0, 10**9, 10**4))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(late)))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(late)))
    outcome = run(lambda draw: Measurement(0.0, 1.0), seconds=60.0)
    assert outcome.examples == 30 and not outcome.stopped


DRAWN = """
import sys
for name in sys.argv[1:]:
    sys.path.insert(0, name)
    import some_constants
import nqf_registry as nqf
from nqf_registry.verify.drive import Measurement, drive
from nqf_registry.verify.strategies import draws

def measure(draw):
    print(draw)
    return Measurement(0.0, 1.0)

drive(measure, draws(3, (1, 2, 3, 5, 200), 24, (1.0, 0.1)), [], 200, 60.0, 0)
layer = nqf.default_registry().get("two-layer-mlp", activation="relu")
report = nqf.verify(layer, "ci").to_dict()
report.pop("seconds")
print(report)
"""


def test_a_report_is_a_function_of_layer_profile_and_seed(tmp_path):
    """Not of the process, its hashes, or what else it imported; and nothing is left in the folder."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "some_constants.py").write_text(f"HERE = {list(range(100, 65_000, 700))}", encoding="utf-8")
    here = tmp_path / "here"
    here.mkdir()

    def drawn(hashes, *arguments):
        done = subprocess.run(
            [sys.executable, "-c", DRAWN, *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=here,
            env={**os.environ, "PYTHONHASHSEED": hashes},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    first = drawn("1")
    assert first.count("Draw(") == 200 and "'profile': 'ci'" in first
    assert drawn("2", other) == first
    assert list(here.iterdir()) == []


def test_hypothesis_is_left_as_it_was():
    from hypothesis.internal.conjecture import providers

    before = providers._get_local_constants
    run(lambda draw: Measurement(1.0, 0.0))
    assert providers._get_local_constants is before


def test_other_generators_are_left_alone():
    random.seed(3)
    numpy.random.seed(3)
    before = random.getstate(), numpy.random.get_state()[1].copy()
    run(lambda draw: Measurement(random.random() * 0, 1.0))
    assert (numpy.random.get_state()[1] == before[1]).all()


def test_exchanges_of_neighbours_are_all_there_and_several_random_permutations():
    import torch

    orders = permutations(4, torch.Generator().manual_seed(0))
    assert orders[:4] == [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2], [1, 2, 3, 0]]
    assert len(orders) == 7 and all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert permutations(1, torch.Generator()) == [] and permutations(2, torch.Generator()) == [[1, 0]]
    wide = permutations(50, torch.Generator().manual_seed(0))
    assert len(wide) == 53 and len({tuple(order) for order in wide}) == 53


def test_weights_are_short_numbers_and_never_zero():
    import torch

    W = gaussian_weights(50, 50, 0.25, torch.Generator().manual_seed(0))
    assert (W != 0).all() and ((W * 64).round() == (W * 64)).all()
    assert W.std() == pytest.approx(0.25, rel=0.1)


def test_simplify_keeps_only_what_fails():
    import torch

    W = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    small = simplify(W, 1.0, lambda w: bool(w[2, 3] != 0))
    assert (small != 0).sum() == 1 and small[2, 3] != 0
