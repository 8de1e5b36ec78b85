"""What the catalogue says of all layers is true of those it shows, and nothing is said of an A that is not there."""

import importlib
from dataclasses import dataclass

import pytest
import torch

import nqf_registry as nqf
from nqf_registry.registry import Entry
from nqf_registry.report.catalogue import Catalogue, row_of
from nqf_registry.report.columns import verdict
from nqf_registry.report.csv_table import csv_table
from nqf_registry.report.summary import summary
from nqf_registry.report.verification import verify_layers


def row(layer):
    entry = Entry(layer.key, layer.title, f"/somewhere/{layer.key}.py", "", "", "")
    return row_of(entry, layer, verify_layers([layer], "dev")[layer.key])


@pytest.fixture(scope="module")
def rows(layers):
    @dataclass(frozen=True)
    class Sigmoid(nqf.Layer):
        key = "sigmoid"
        title = "Sigmoid"
        claims = nqf.Claims(zgz=False)
        n_in: int = 3
        width: int = 4
        blocks, sample = layers.Plain.blocks, layers.Plain.sample

        def forward(self, W, x):
            return torch.sigmoid(x["x"] @ W["u"]) @ W["v"].mT + ((x["x"] @ W["u"]).sum(-1, keepdim=True)) ** 2

    @dataclass(frozen=True)
    class Kinked(layers.Plain):
        key = "kinked"
        title = "Kinked"
        claims = nqf.Claims(smooth=False)

        def unit(self, w, x):
            return torch.relu(x["x"] @ w["u"])[:, None] * w["v"]

    found = {layer.key: row(layer) for layer in (Kinked(), layers.Plain(), layers.Raising(), Sigmoid())}
    return found


def test_the_sentence_counts_what_is_shown(rows):
    facts = {key: row.facts for key, row in rows.items()}
    assert facts["sigmoid"]["classification"] == "general-nqf" and facts["sigmoid"]["passed"]
    assert summary([facts["plain"]]) == "Near small weights the layer below is a quadratic form."
    assert "each of the 2 layers" in summary([facts["plain"], facts["plain"]])
    text = summary(list(facts.values()))
    assert text.startswith("Near small weights 1 of the 4 layers below is a quadratic form;")
    assert "1 is a general one" in text and "marked" in text and "every layer" not in text


def test_a_general_form_shows_its_linear_and_cross_parts(rows):
    structure = rows["sigmoid"].facts["structure"]
    assert structure["linear"] == ["v"] and structure["cross"] == ["u-u"]
    files = Catalogue(tuple(rows.values()), {}).files()
    assert "g is not zero in v; B couples u–u" in files["catalogue.md"] and r"\mu" in files["catalogue.md"]
    assert "<dt>g is not zero in</dt><dd>v</dd>" in files["catalogue.html"].replace("\n", "")
    assert "linear,cross" in csv_table([]).splitlines()[0]
    assert "linear" not in rows["plain"].facts["structure"]


def test_a_layer_that_is_not_smooth_has_no_a(rows):
    facts = rows["kinked"].facts
    assert facts["classification"] == "not-smooth" and rows["kinked"].picture is None
    assert not facts["structure_lines"] and not {"rank", "couplings", "fingerprint"} & set(facts["structure"])
    files = Catalogue((rows["kinked"],), {}).files()
    assert "not smooth at W = 0" in files["catalogue.md"] and "not smooth at W = 0" in files["catalogue.html"]
    assert "<svg" not in files["catalogue.html"] and "<dt>rank" not in files["catalogue.html"]


def test_formulas_that_are_not_there_leave_no_dash(rows):
    files = Catalogue((rows["sigmoid"],), {}).files()
    assert '<div class="formula">–</div>' not in files["catalogue.html"]
    assert "- f: –" not in files["catalogue.md"] and "- A: –" not in files["catalogue.md"]


def test_time_that_ran_out_is_marked(layers, monkeypatch):
    from nqf_registry.verify import profiles

    assert "time ran out" not in verdict(row(layers.Plain()).facts)
    monkeypatch.setitem(profiles.PROFILES, "dev", profiles.Profile("dev", 8, 2, -1.0))
    monkeypatch.setattr(importlib.import_module("nqf_registry.verify.suite"), "timed", lambda context: None)  # or not begun
    found = row(layers.Plain()).facts
    assert found["checks"]["determinism"]["stopped"] and "time ran out in determinism" in verdict(found) + str(found)
    assert "time ran out" in Catalogue((row(layers.Plain()),), {}).files()["catalogue.md"]
