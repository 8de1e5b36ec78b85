"""``nqf list`` and ``nqf plugins``: what is there, and what is wrong with the rest."""

import json


def test_list_prints_key_title_and_where_it_comes_from(nqf, install, layer_source):
    install("outside", layer_source("outside-layer"), distribution="outside-dist")
    done = nqf("list")
    assert done.code == 0
    [line] = [line for line in done.out.splitlines() if line.startswith("outside-layer ")]
    assert line.split("  ", 1)[1].split() == ["A", "sample", "layer", "outside-dist"]


def test_list_as_json(nqf, install, layer_source):
    path = install("outside", layer_source("outside-layer"), distribution="outside-dist", version="3.1")
    entries = json.loads(nqf("list", "--json").out)
    assert entries == sorted(entries, key=lambda entry: entry["key"])
    assert {
        "key": "outside-layer",
        "title": "A sample layer",
        "plugin": "outside",
        "distribution": "outside-dist",
        "version": "3.1",
        "file": str(path),
    } in entries


def test_list_says_what_is_contested_and_what_failed(nqf, install, layer_source):
    install("first", layer_source("one-key"))
    install("second", layer_source("one-key"))
    install("broken", "1 / 0\n")
    done = nqf("list")
    assert done.code == 0
    assert "one-key" not in done.out
    assert "contested: one-key is claimed by first (first 1.0) and by second (second 1.0); neither has it" in done.err
    assert "failed: broken; `nqf plugins` says why" in done.err


def test_plugins_gives_every_plugin_a_status(nqf, install, layer_source):
    install("sound", layer_source("sound-layer"))
    install("first", layer_source("one-key"))
    install("second", layer_source("one-key"))
    install("broken", "1 / 0\n", distribution="broken-dist")
    done = nqf("plugins")
    assert done.code == 0
    lines = done.out.splitlines()
    assert "ok         sound  (sound 1.0)  layer sound-layer" in lines
    place = lines.index("failed     broken  (broken-dist 1.0)")
    assert lines[place + 1].split() == ["import:", "ZeroDivisionError:", "division", "by", "zero"]
    rows = {row["plugin"]: row for row in json.loads(nqf("plugins", "--json").out)}
    assert rows["sound"]["status"] == "ok"
    assert rows["first"]["status"] == rows["second"]["status"] == "contested"
    assert rows["broken"]["status"] == "failed"
    assert rows["broken"]["distribution"] == "broken-dist"
    assert rows["broken"]["failures"] == [
        {"stage": "import", "error": "ZeroDivisionError", "message": "ZeroDivisionError: division by zero"}
    ]


def test_plugins_finds_a_plugin_that_metadata_say_is_well(nqf, write, layer_source, tmp_path, fresh_cache, monkeypatch):
    import sys

    needed = tmp_path / "lib" / "needed_for_plugins.py"
    needed.parent.mkdir()
    needed.write_text("")
    monkeypatch.syspath_prepend(str(needed.parent))
    path = write("needy.py", "import needed_for_plugins\n" + layer_source("needy"))
    monkeypatch.setenv("NQF_PLUGINS", str(path))
    assert "needy" in nqf("list").out
    needed.unlink()
    for name in [name for name in sys.modules if name.startswith(("nqf_plugin_needy_", "needed_for_plugins"))]:
        del sys.modules[name]
    assert "needy" in nqf("list").out
    rows = {row["plugin"]: row for row in json.loads(nqf("plugins", "--json").out)}
    assert rows[str(path)]["status"] == "failed"
