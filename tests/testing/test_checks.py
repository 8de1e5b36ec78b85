"""The kit's checks: each a test, failures that are expected, examples that are pinned, and the suite that was asked for."""

import subprocess
import sys
from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf
from nqf_registry import testing
from nqf_registry.testing import SUITE, ExpectedFailure, KnownFailure, assert_passes, checks_of, parametrize_with_checks


@dataclass(frozen=True)
class Units(nqf.Layer):
    """v·φ(u·x), for an activation by name."""

    key = "kit-units"
    phi: str = "tanh"
    width: int = 3

    def blocks(self):
        return {"u": (3,), "v": (2,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 3, generator=generator)}

    def forward(self, W, x):
        return getattr(torch, self.phi)(x["x"] @ W["u"]) @ W["v"].mT


@dataclass(frozen=True)
class Kinked(Units):
    """The same with a kink."""

    key = "kit-kinked"
    phi: str = "relu"


KNOWN = {"kit-kinked": {"smoothness": "relu has a kink", "remainder-order": "and so no quadratic form"}}
PINNED = "smoothness:width=2,weights=17"


def known(**smoothness):
    return {"kit-kinked": KNOWN["kit-kinked"] | {"smoothness": ExpectedFailure("relu has a kink", **smoothness)}}


@parametrize_with_checks([Units(), Kinked()], KNOWN, profile="dev", suite=SUITE)
def test_every_check_is_a_test(layer, check):
    check(layer)


@parametrize_with_checks([Kinked()], known(example=PINNED), profile="dev")
def test_a_pinned_example_fails_again(layer, check):
    check(layer)


def check_of(layer, name, expected=None):
    return next(check for check in checks_of(layer, "dev", expected=expected) if check.name == name)


def test_one_layer_is_verified_once(monkeypatch):
    calls = []
    monkeypatch.setattr("nqf_registry.testing.checks.verify", lambda *args: calls.append(1) or nqf.verify(*args))
    layer = Units()
    for check in checks_of(layer, "dev"):
        check(layer)
    assert len(calls) == 1 and len(checks_of(layer)) == 9


def test_a_failure_raises_with_message_and_counterexample():
    with pytest.raises(AssertionError) as raised:
        check_of(Kinked(), "smoothness")(Kinked())
    lines = str(raised.value).splitlines()
    labels = [line.split(":")[0].strip() for line in lines[1:] if line[2] != " "]
    assert lines[0] == "kit-kinked: smoothness failed" and labels == [
        "expected",
        "measured",
        "counterexample",
        "next",
        "replay",
    ]


def test_what_is_shortened_is_whole_where_there_is_no_command_line():
    with pytest.raises(AssertionError, match=r"\(whole in the report's counterexample\)") as raised:
        assert_passes(Wide(), profile="dev")
    assert "--json" not in str(raised.value) and str(raised.value).count("W.u") + str(raised.value).count("R.u") == 1
    assert "--json" not in nqf.verify(Wide())["smoothness"].message


@dataclass(frozen=True)
class Wide(Units):
    """A kink behind four inputs, more than are shown."""

    key = "kit-wide"

    def blocks(self):
        return {"u": (4,), "v": (1,)}

    def sample(self, n, generator):
        return {"x": torch.randn(n, 4, generator=generator)}

    def forward(self, W, x):
        return torch.relu(x["x"] @ W["u"]) @ W["v"].mT


@dataclass(frozen=True)
class Noisy(Units):
    """With noise, so that nothing but determinism and finiteness is tried."""

    key = "kit-noisy"

    def forward(self, W, x):
        return super().forward(W, x) * (1 + 0.1 * torch.randn(1))


NOISE = {"kit-noisy": {"determinism": ExpectedFailure("there is noise", "determinism")}}


@parametrize_with_checks([Noisy()], NOISE, profile="dev")
def test_what_is_not_tried_is_known_with_determinism(layer, check):
    check(layer)


def test_determinism_covers_only_what_it_kept_from_being_tried():
    expected = NOISE["kit-noisy"]
    with pytest.raises(KnownFailure, match="there is noise: not tried"):
        check_of(Noisy(), "smoothness", expected)(Noisy())
    check_of(Noisy(), "finiteness", expected)(Noisy())
    with pytest.raises(AssertionError, match="smoothness was not tried"):
        check_of(Noisy(), "smoothness")(Noisy())
    with pytest.raises(AssertionError, match="smoothness failed") as raised:
        check_of(Kinked(), "smoothness", {"determinism": ExpectedFailure("no noise at all")})(Kinked())
    assert not isinstance(raised.value, KnownFailure)
    assert not assert_passes(Noisy(), NOISE, profile="dev").passed
    with pytest.raises(AssertionError, match=r"determinism was expected to fail .*Remove it"):
        assert_passes(Units(), {"kit-units": expected}, profile="dev")


@pytest.mark.parametrize(
    ("pin", "reason"),
    [
        ("minimality:width=1", "minimality of kit-units, 'minimality:width=1', cannot be measured: .* width of at least 2"),
        ("minimality", "width of at least 2, got width=1"),
        ("permutation-symmetry:width=1", "width of at least 2"),
        ("smoothness:instance=3", "kit-units has no variants, so instance must be 0; got 3"),
    ],
)
def test_a_pin_that_the_layer_cannot_have_is_refused_before_anything_is_measured(pin, reason):
    expected = {"kit-units": {pin.partition(":")[0]: ExpectedFailure("a reason", pin)}}
    for use in (lambda: assert_passes(Units(), expected), lambda: parametrize_with_checks([Units()], expected)):
        with pytest.raises(nqf.InvalidInput, match=f"(?s){reason}.*Pin the example that the failing check shows"):
            use()


def test_a_known_failure_is_told_from_any_other():
    layer = Kinked()
    with pytest.raises(KnownFailure, match="a kink"):
        check_of(layer, "smoothness", {"smoothness": ExpectedFailure("a kink")})(layer)
    with pytest.raises(AssertionError, match=r"expected to fail \(a kink\), but its status is pass. Remove it") as raised:
        check_of(Units(), "smoothness", {"smoothness": ExpectedFailure("a kink")})(Units())
    assert not isinstance(raised.value, KnownFailure)


def test_a_pinned_example_that_no_longer_fails_is_named():
    with pytest.raises(AssertionError, match=f"'{PINNED}' no longer fails .*pass.*\n.*Remove it"):
        check_of(Units(), "smoothness", {"smoothness": ExpectedFailure("a kink", PINNED)})(Units())


@dataclass(frozen=True)
class WideKink(Units):
    """Smooth up to two neurons."""

    key = "kit-wide-kink"

    def forward(self, W, x):
        return (torch.tanh if self.width < 3 else torch.relu)(x["x"] @ W["u"]) @ W["v"].mT


def test_where_another_example_fails_it_is_shown_to_be_pinned():
    layer, failure = WideKink(), ExpectedFailure("relu has a kink", PINNED)
    with pytest.raises(AssertionError, match=f"'{PINNED}' no longer fails .*still does; pin example='smoothness:width=3"):
        check_of(layer, "smoothness", {"smoothness": failure})(layer)


def test_the_plain_runner():
    assert assert_passes(Units(), profile="dev").passed
    assert not assert_passes(Kinked(), KNOWN, profile="dev", suite=SUITE).passed
    assert_passes(Kinked(), known(example=PINNED), profile="dev")
    with pytest.raises(AssertionError, match=r"(?s)smoothness failed.*remainder-order failed"):
        assert_passes(Kinked(), profile="dev")
    with pytest.raises(AssertionError, match="Remove it from expected_failures"):
        assert_passes(Units(), {"kit-units": {"smoothness": "no reason"}}, profile="dev")
    with pytest.raises(nqf.InvalidInput, match=r"nqf\.Layer"):
        assert_passes(Units)


@pytest.mark.parametrize(
    "entry", [lambda **options: assert_passes(Units(), **options), lambda **o: parametrize_with_checks([Units()], **o)]
)
@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"no-such-layer": {}}, "no-such-layer"),
        ({"kit-units": {"no-such-check": "?"}}, "no-such-check.*smoothness"),
        ({"smoothness": "a reason"}, "key of a layer"),
        ({"kit-units": {"smoothness": ""}}, "needs a reason"),
        ({"kit-units": {"smoothness": ExpectedFailure(" ")}}, "needs a reason"),
        ({"kit-units": {"smoothness": None}}, "needs a reason"),
        ({"kit-units": {"smoothness": ExpectedFailure("a reason", "minimality:width=2")}}, "one of minimality"),
        ({"kit-units": {"smoothness": ExpectedFailure("a reason", "smoothness:height=2")}}, "no field 'height'"),
    ],
)
def test_wrong_expectations_are_refused(entry, expected, message):
    with pytest.raises(nqf.InvalidInput, match=message):
        entry(expected_failures=expected)


def test_wrong_use_is_told():
    with pytest.raises(nqf.InvalidInput, match="at least one"):
        parametrize_with_checks([])
    with pytest.raises(nqf.InvalidInput, match="instances"):
        parametrize_with_checks([Units])
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        testing.no_such_name


@pytest.mark.parametrize("use", [checks_of, assert_passes, lambda layer, suite: parametrize_with_checks([layer], suite=suite)])
def test_an_unknown_suite_is_refused_naming_the_one_there_is(use):
    with pytest.raises(nqf.InvalidInput, match=f"has the suite '{SUITE}' of checks, '0' was asked for"):
        use(Units(), suite="0")


def test_two_of_one_key_have_names_of_their_own():
    mark = parametrize_with_checks([Units(), Units(phi="sin")]).mark
    names = [parameter.id for parameter in mark.args[1]]
    assert len(set(names)) == 18 and "kit-units(phi=sin,width=3)-smoothness" in names


def test_without_pytest():
    code = "import sys; sys.modules['pytest'] = None; from nqf_registry.testing import assert_passes, checks_of, SUITE"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_in_pytest_a_stale_expectation_fails_and_says_so(tmp_path):
    (tmp_path / "test_stale.py").write_text(
        "import nqf_registry as nqf\n"
        "from nqf_registry.testing import parametrize_with_checks\n"
        "layer = nqf.default_registry().get('quadratic-network')\n"
        "@parametrize_with_checks([layer], {layer.key: {'smoothness': 'was so once'}}, profile='dev')\n"
        "def test_it(layer, check):\n"
        "    check(layer)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_stale.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert "1 failed, 8 passed" in done.stdout, done.stdout
    assert "smoothness was expected to fail (was so once), but its status is pass. Remove it" in done.stdout
