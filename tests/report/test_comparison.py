"""What --check finds."""

import copy
import json

import pytest

import nqf_registry as nqf
from nqf_registry.report.catalogue import tables
from nqf_registry.report.comparison import differences
from nqf_registry.report.json_files import FORMAT, facts_text, read_facts
from nqf_registry.report.readme import END, START, with_table


def test_the_same_facts_have_no_difference_after_a_round_through_json(facts, tmp_path):
    path = tmp_path / "catalogue.json"
    path.write_text(facts_text(facts), encoding="utf-8")
    assert differences(read_facts(path), facts) == []
    assert tables(read_facts(path)) == tables(facts)  # the order of blocks and checks is kept


def test_a_change_is_told_with_entry_field_and_both_values(facts):
    now = copy.deepcopy(facts)
    now[1]["structure"]["rank"] = [3, 3]
    now[1]["claims"]["exact"] = False
    found = differences(facts, now)
    assert [str(d) for d in found] == [
        "plain: claims.exact: committed True, measured False",
        "plain: structure.rank: committed [2, 2], measured [3, 3]",
    ]


def test_missing_extra_and_partial(facts):
    assert [(d.entry, d.committed, d.measured) for d in differences(facts, facts[:1])] == [
        ("plain", "in the catalogue", "(absent)")
    ]
    assert [(d.entry, d.committed, d.measured) for d in differences(facts[:1], facts)] == [("plain", "(absent)", "registered")]
    assert differences(facts, facts[:1], partial=True) == []


def test_a_field_that_went_or_came_is_a_change(facts):
    now = copy.deepcopy(facts)
    del now[0]["structure"]["inert"]
    now[0]["new"] = 1
    assert [(d.field, d.committed, d.measured) for d in differences(facts, now)] == [
        ("new", "(absent)", 1),
        ("structure.inert", [], "(absent)"),
    ]


@pytest.mark.parametrize("factor, count", [(1 + 1e-6, 0), (1 + 1e-3, 1), (-1, 1)])
def test_fingerprints_may_differ_in_their_last_digit_only(facts, factor, count):
    now = copy.deepcopy(facts)
    now[1]["fingerprint"] = [factor * v for v in now[1]["fingerprint"]]
    assert len(differences(facts, now)) == count


def test_one_is_not_true(facts):
    now = copy.deepcopy(facts)
    now[0]["outputs"] = True
    assert [d.field for d in differences(facts, now)] == ["outputs"]


@pytest.mark.parametrize("value", [10**400, -(10**400), "1", True, None])
def test_a_committed_fingerprint_that_holds_no_number_is_a_change(facts, value):
    committed = copy.deepcopy(facts)
    committed[0]["fingerprint"] = [value, *facts[0]["fingerprint"][1:]]
    assert [d.field for d in differences(committed, facts)] == ["fingerprint"]


def test_true_is_not_one_inside_lists_either(facts):
    committed = copy.deepcopy(facts)
    rank = facts[0]["structure"]["rank"]
    facts[0]["structure"]["rank"], committed[0]["structure"]["rank"] = [1, 1], [True, True]
    assert [d.field for d in differences(committed, facts)] == ["structure.rank"]
    facts[0]["structure"]["rank"] = rank


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"format": "other"}', json.dumps({"format": FORMAT}),
     json.dumps({"format": FORMAT, "entries": [{"a": 1}]}), "[" * 100_000, "\x00",
     json.dumps({"format": FORMAT, "entries": [{"key": "a"}, {"key": "a"}]}),
     json.dumps({"format": FORMAT, "entries": [{"key": "a", "fingerprint": [float("inf")]}]})],
)  # fmt: skip
def test_a_corrupt_file_is_refused_with_its_path(text, tmp_path):
    path = tmp_path / "catalogue.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(nqf.InvalidInput, match=r"catalogue\.json.*nqf catalogue"):
        read_facts(path)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(nqf.InvalidInput, match="found no file"):
        read_facts(tmp_path / "catalogue.json")
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(nqf.InvalidInput, match="no JSON"):
        read_facts(tmp_path / "binary.json")
    with pytest.raises(nqf.InvalidInput, match="is a folder"):
        read_facts(tmp_path)


def test_the_readme_block_is_rewritten_and_nothing_else(facts):
    text = f"# Title\n\n{START}\nold\n{END}\n\nEnd <b>.\n"
    once = with_table(text, facts)
    assert (
        once.startswith(f"# Title\n\n{START}\n")
        and once.endswith(f"{END}\n\nEnd <b>.\n")
        and "old" not in once
        and "`plain`" in once
    )
    assert with_table(once, facts) == once
    for bad in ("no markers", START, f"{END} {START}", text + START):
        with pytest.raises(nqf.InvalidInput, match="catalogue:start"):
            with_table(bad, facts)
