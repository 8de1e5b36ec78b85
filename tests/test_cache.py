"""The cache folder: where it lies, and that nothing about it can break a command."""

from pathlib import Path

import pytest

from nqf_registry.cache import cache_dir, read_json, write_json


def test_where_the_folder_lies(monkeypatch):
    monkeypatch.setenv("NQF_CACHE_DIR", "/somewhere/chosen")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/xdg")
    assert cache_dir() == Path("/somewhere/chosen")
    monkeypatch.delenv("NQF_CACHE_DIR")
    assert cache_dir() == Path("/somewhere/xdg/nqf_registry")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somewhere/home")
    assert cache_dir() == Path("/somewhere/home/.cache/nqf_registry")


def test_what_is_written_is_read(fresh_cache):
    assert read_json("a/b.json") is None
    assert write_json("a/b.json", {"x": [1, None, "é"]})
    assert read_json("a/b.json") == {"x": [1, None, "é"]}
    assert write_json("a/b.json", 2)
    assert read_json("a/b.json") == 2
    assert [path.name for path in (fresh_cache / "a").iterdir()] == ["b.json"]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_damaged_file_reads_as_none(fresh_cache, damage):
    fresh_cache.mkdir()
    (fresh_cache / "x.json").write_bytes(damage)
    assert read_json("x.json") is None


def test_a_folder_that_cannot_be_made_is_no_error(fresh_cache):
    fresh_cache.write_text("in the way")
    assert not write_json("a/b.json", 1)
    assert read_json("a/b.json") is None


def test_an_object_that_json_does_not_have_is_the_callers_mistake(fresh_cache):
    with pytest.raises(TypeError):
        write_json("x.json", object())
    assert not fresh_cache.exists()
