"""The verdict at first use: measured once, cached, and stale as soon as what it rests on changes."""

import json

import pytest

import nqf_registry as nqf
from nqf_registry.verify.source import source_files, source_hash
from nqf_registry.verify.verdict import fingerprint, verdict


@pytest.fixture
def counted(monkeypatch):
    """Counts the verifications that verdict makes."""
    import importlib

    module = importlib.import_module("nqf_registry.verify.verdict")
    calls = []
    real = module.verify
    monkeypatch.setattr(module, "verify", lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs))
    return calls


def test_the_second_use_reads_the_cache(fresh_cache, counted):
    layer = nqf.default_registry().get("quadratic-network")
    first, second = verdict(layer), verdict(layer)
    assert len(counted) == 1
    assert not first.cached and second.cached and "cached" in second.line()
    assert second.to_dict() == {**first.to_dict(), "cached": True}
    assert list(fresh_cache.glob("verdicts/quadratic-network-*.json"))


def test_other_sizes_are_another_verdict(fresh_cache, counted):
    registry = nqf.default_registry()
    verdict(registry.get("quadratic-network"))
    verdict(registry.get("quadratic-network", width=3))
    assert len(counted) == 2


def test_an_edited_source_is_another_verdict(fresh_cache, counted, write, layer_source):
    source = layer_source("edited")
    path = write("edited.py", source)
    assert verdict(nqf.Registry.load(plugins=[path]).get("edited")).classification == "exact-nqf"
    path.write_text(source.replace("** 2", "** 3"))
    assert verdict(nqf.Registry.load(plugins=[path]).get("edited")).leading_order == 3
    assert len(counted) == 2


def test_a_damaged_cache_is_measured_again(fresh_cache, counted):
    layer = nqf.default_registry().get("quadratic-network")
    verdict(layer)
    for text in ("{", "[]", '{"checks": 3}'):
        next(fresh_cache.glob("verdicts/*.json")).write_text(text)
        assert verdict(layer).passed
    assert len(counted) == 4


def test_the_hash_covers_the_file_of_the_class():
    layer = nqf.default_registry().get("quadratic-network")
    assert [path.name for path in source_files(layer)] == ["quadratic_network.py"]
    source = source_hash(layer)
    assert fingerprint(layer, source) != fingerprint(layer, source + "x")
    assert fingerprint(layer, source) != fingerprint(layer.resized(3), source)


def test_what_ran_out_of_time_is_not_kept(fresh_cache, counted, no_time, monkeypatch):
    layer = nqf.default_registry().get("quadratic-network")
    assert verdict(layer).stopped
    assert not list(fresh_cache.glob("verdicts/*.json"))
    monkeypatch.undo()
    assert not verdict(layer).stopped and not verdict(layer).stopped


@pytest.mark.parametrize(
    "place, value",
    [(("checks", 0, "name"), None), (("checks", 1, "residual"), "x"), (("checks", 2, "tolerance"), []),
     (("checks", 0, "status"), "fine"), (("versions",), [1]), (("seconds",), "x"), (("notes",), [5]), (("passed",), 1)],
)  # fmt: skip
def test_a_cache_with_a_value_of_the_wrong_type_is_measured_again(fresh_cache, counted, place, value):
    layer = nqf.default_registry().get("quadratic-network")
    verdict(layer)
    (file,) = fresh_cache.glob("verdicts/quadratic-network-*.json")
    data = json.loads(file.read_text())
    target = data
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    file.write_text(json.dumps(data))
    assert not verdict(layer).cached and len(counted) == 2
