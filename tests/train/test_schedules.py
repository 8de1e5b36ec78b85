"""Schedules: the closed forms against torch's schedulers, and exact for every model that follows a linear rule."""

import numpy as np
import pytest
import torch
from torch.optim import lr_scheduler

import nqf_registry as nqf
from nqf_registry.errors import Diverged, InvalidInput
from nqf_registry.train.schedules import SCHEDULES, find_schedule, source_of

TORCH = {
    "constant": ({}, lambda rule: lr_scheduler.ConstantLR(rule, factor=1.0)),
    "linear": (
        {"steps": 20, "start": 0.2, "end": 0.9},
        lambda rule: lr_scheduler.LinearLR(rule, start_factor=0.2, end_factor=0.9, total_iters=20),
    ),
    "cosine": (
        {"steps": 60, "floor": 0.1},
        lambda rule: lr_scheduler.CosineAnnealingLR(rule, T_max=60, eta_min=0.1 * 0.3),
    ),
    "cosine-restarts": (
        {"steps": 5, "longer": 2, "floor": 0.1},
        lambda rule: lr_scheduler.CosineAnnealingWarmRestarts(rule, T_0=5, T_mult=2, eta_min=0.1 * 0.3),
    ),
    "step": ({"every": 7, "factor": 0.5}, lambda rule: lr_scheduler.StepLR(rule, step_size=7, gamma=0.5)),
    "milestones": (
        {"at": [30, 3, 11], "factor": 0.5},
        lambda rule: lr_scheduler.MultiStepLR(rule, milestones=[3, 11, 30], gamma=0.5),
    ),
    "exponential": ({"factor": 0.9}, lambda rule: lr_scheduler.ExponentialLR(rule, gamma=0.9)),
    "polynomial": ({"steps": 25, "power": 2.0}, lambda rule: lr_scheduler.PolynomialLR(rule, total_iters=25, power=2.0)),
    "warmup": ({"steps": 9}, lambda rule: lr_scheduler.LambdaLR(rule, lambda t: min(1.0, (t + 1) / 9))),
}


def rates_of_torch(make, count):
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.3)
    scheduler, found = make(optimizer), []
    for _ in range(count):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return found


def test_every_closed_form_has_its_scheduler():
    assert set(TORCH) == set(SCHEDULES)


@pytest.mark.parametrize("name", list(TORCH))
def test_closed_forms_are_those_of_torch(name):
    options, make = TORCH[name]
    schedule, count = find_schedule(name, options, steps=60), 60
    factors = [1.0 if schedule is None else schedule(t) for t in range(count)]
    np.testing.assert_allclose(0.3 * np.array(factors), rates_of_torch(make, count), rtol=1e-11, atol=1e-15)


def test_restarts_stay_on_their_turns_far_out():
    for steps, longer in ((1, 3), (7, 2), (10, 10)):
        schedule = find_schedule("cosine-restarts", {"steps": steps, "longer": longer}, steps=10)
        begin = 0
        for turn in range(12):
            assert schedule(begin) == 1.0
            begin += steps * longer**turn
            assert schedule(begin - 1) < 1.0 or steps * longer**turn == 1


def test_warmup_multiplies_any_other():
    cosine = find_schedule("cosine", {"steps": 50}, steps=50)
    warm = find_schedule("cosine", {"steps": 50, "warmup": 10}, steps=50)
    assert [warm(t) for t in range(50)] == [min(1.0, (t + 1) / 10) * cosine(t) for t in range(50)]


@pytest.mark.parametrize("rule", ["gd", "momentum", "nesterov"])
@pytest.mark.parametrize("way", ["auto", "statistics", "closed-form"])
def test_linear_models_follow_any_schedule_exactly(rule, way):
    layer = nqf.default_registry().get("two-layer-mlp", n_in=4, n_out=1, width=9)
    data = nqf.teacher(layer, n=32)
    run = nqf.compare(
        layer, data, ["nqf", "order-parameters", "compressed"], optimizer=rule, steps=400, scale=0.1, dtype="float64",
        schedule="cosine-restarts", schedule_options={"steps": 40, "longer": 2, "floor": 0.05, "warmup": 20},
        weight_decay=1e-3, verify=False, way=way,
    )  # fmt: skip
    assert run.curves()[1][0, 0, -1] < 0.2 * run.curves()[1][0, 0, 0]
    assert run.deviation()[0] < 1e-10


@pytest.mark.parametrize("rule", ["gd", "momentum", "nesterov", "adam", "adamw"])
def test_a_scheduled_run_is_torchs_own(units, data, rule):
    make = {
        "gd": lambda p: torch.optim.SGD(p, lr=0.05),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
        "adam": lambda p: torch.optim.Adam(p, lr=0.05),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
    }[rule]
    run = nqf.compare(
        units, data, ["nqf"], optimizer=rule, lr=0.05, steps=30, scale=0.3, dtype="float64", verify=False,
        schedule="step", schedule_options={"every": 7, "factor": 0.3},
    )  # fmt: skip
    x = {"x": data.x["x"].double()}
    W = {name: block[0].clone().requires_grad_() for name, block in nqf.NQF(units).init([0], 0.3, torch.float64).items()}
    optimizer = make(list(W.values()))
    scheduler = lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.3)
    form = nqf.quadratic_form(units, x)
    for _ in range(30):
        optimizer.zero_grad()
        ((form.evaluate(W) - data.y) ** 2).sum().div(data.n).backward()
        optimizer.step()
        scheduler.step()
    for name, block in run.weights["nqf"].items():
        torch.testing.assert_close(block[0], W[name].detach(), rtol=1e-9, atol=1e-11)


def test_time_is_the_sum_of_the_rates(units, data, tmp_path):
    options = {"steps": 50, "lr": [0.1, 0.2], "verify": False, "records": [3, 10, 29], "directory": tmp_path / "run"}
    nqf.compare(units, data, ["nqf"], schedule="exponential", schedule_options={"factor": 0.9}, **options)
    run = nqf.Run.open(tmp_path / "run")
    expected = [sum(0.9**t for t in range(step)) for step in (0, 3, 10, 29, 50)]
    np.testing.assert_allclose(run.data["time"].values, np.outer([0.1, 0.2], expected), rtol=1e-12)
    assert run.manifest["settings"]["schedule"] == {"name": "exponential", "options": {"factor": 0.9, "warmup": 0}}
    plain = nqf.compare(units, data, ["nqf"], steps=50, lr=0.1, verify=False, records=[10])
    assert plain.data["time"].values.tolist() == [[0.0, 1.0, 5.0]] and "elapsed" not in plain.manifest


def half_way(t):
    return 1.0 if t < 10 else 0.5


def test_a_function_is_named_by_its_source(units, data):
    options = {"optimizer": "momentum", "lr": 0.1, "steps": 20, "verify": False, "dtype": "float64", "scale": 0.2}
    mine = nqf.compare(units, data, ["nqf"], schedule=half_way, **options)
    named = nqf.compare(units, data, ["nqf"], schedule="milestones", schedule_options={"at": [10], "factor": 0.5}, **options)
    assert all(torch.equal(mine.weights["nqf"][n], named.weights["nqf"][n]) for n in mine.weights["nqf"])
    assert mine.manifest["settings"]["schedule"] == {"name": "half_way", "options": {}, "source": source_of(half_way)}
    assert len(source_of(half_way)) == 64 and source_of(half_way) != source_of(rates_of_torch)
    assert source_of(eval("lambda t: 1.0")) != source_of(eval("lambda t: 2.0 * t"))


def test_the_factor_depends_on_the_step_alone(units, data):
    """Minibatches make a new stepper at every step, full batches one in a block: both see the same factors."""
    seen = []

    def watched(t):
        seen.append(t)
        return 1.0 / (1 + t)

    runs = [
        nqf.compare(units, data, ["nqf"], lr=0.1, steps=12, schedule=watched, batch=batch, verify=False, dtype="float64")
        for batch in (None, 40)
    ]
    torch.testing.assert_close(runs[0].weights["nqf"]["u"], runs[1].weights["nqf"]["u"], rtol=1e-12, atol=1e-15)
    assert set(seen) == set(range(12))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "cosin"}, "schedule must be one of constant, .*got 'cosin'. Did you mean 'cosine'"),
        ({"schedule": 3}, "schedule must be one of .* or a function of the step"),
        ({"schedule": "step"}, "schedule 'step' needs the option 'every'"),
        ({"schedule": "step", "schedule_options": {"evry": 3}}, "has no option 'evry'. Did you mean 'every'"),
        (
            {"schedule": "step", "schedule_options": {"every": 0}},
            "every of schedule 'step' must be a whole number of at least 1",
        ),
        ({"schedule": "cosine", "schedule_options": {"floor": -1}}, "floor of schedule 'cosine' must be at least 0"),
        ({"schedule": "cosine", "schedule_options": 3}, "schedule_options must be a dict"),
        ({"schedule": "milestones", "schedule_options": {"at": 3}}, "must be a list of steps, got 3"),
        ({"schedule_options": {"every": 3}}, "schedule 'constant' has no option 'every'. It has none"),
        ({"schedule": half_way, "schedule_options": {"every": 3}}, "schedule_options belong to a schedule by name"),
        ({"schedule": lambda t: t - 5}, "must give factors from 0 to 1e.06; at step 0 it gives -5"),
        ({"schedule": lambda t: "a"}, "the factor of schedule .* at step 0 must be a finite number, got 'a'"),
        ({"schedule": lambda t: 1 / (t - 3)}, "breaks at step 3: ZeroDivisionError|at step 0 it gives"),
        ({"schedule": lambda t: 0.0}, "is 0 at every step"),
        ({"schedule": "exponential", "schedule_options": {"factor": 1e200}}, "at step 1 it gives 1e.200"),
    ],
)
def test_what_is_no_schedule_is_told(units, data, tmp_path, options, message):
    with pytest.raises(InvalidInput, match=message):
        nqf.compare(units, data, lr=0.1, steps=6, directory=tmp_path / "run", verify=False, **options)
    assert not (tmp_path / "run").exists()


def test_the_largest_factor_counts_for_the_largest_stable_rate(units, data):
    options = {"steps": 400, "verify": False, "dtype": "float64", "models": "nqf"}
    plain = nqf.compare(units, data, **options).manifest["rate"]
    high = nqf.compare(units, data, schedule=lambda t: 40.0 if t > 300 else 1.0, **options)
    assert high.status == "finished" and "largest factor 40" in high.manifest["rate"]["rule"]
    assert high.manifest["rate"]["value"] == pytest.approx(plain["stable"] / 80, rel=1e-9)
    with pytest.raises(Diverged, match=r"at rate .*largest factor 40.*The estimated largest stable rate of gd is") as caught:
        nqf.compare(units, data, lr=plain["stable"] / 10, schedule=lambda t: 40.0 if t > 300 else 1.0, **options)
    assert caught.value.run.manifest["failure"]["step"] > 300
