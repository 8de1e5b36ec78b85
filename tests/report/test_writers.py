"""Markdown, LaTeX, CSV and HTML of texts that try to be markup."""

import csv
import io
import re
from html.parser import HTMLParser

import pytest

from nqf_registry.report.csv_table import HEAD, csv_table
from nqf_registry.report.html_page import html_page
from nqf_registry.report.latex import latex
from nqf_registry.report.markdown import escaped, markdown, table

COMMANDS = r"\\(input|write|openin|include|def|csname)\b"


def test_a_markdown_row_keeps_its_cells_whatever_a_title_holds(facts):
    for line in table(facts).splitlines()[2:]:
        assert len(re.findall(r"(?<!\\)\|", line)) == 7
    page = markdown(facts)
    assert "<script" not in page and "<img" not in page
    assert escaped("a|b_*") == r"a&#124;b\_\*"


def test_markdown_keeps_bars_of_a_formula_out_of_the_cell():
    from nqf_registry.report.markdown import formula

    assert formula(r"\|x\| + |y|") == r"$`\Vert x\Vert  + \vert y\vert `$"
    assert formula("\\nope | `<b>") == r"<code>\\nope &#124; \`&lt;b&gt;</code>"
    assert formula("") == "–"


def test_latex_holds_no_command_of_a_plugin(facts):
    document = latex(facts)
    rows = document.split("\\endfoot\n")[1].split("\\end{longtable}")[0].splitlines()
    assert len(rows) == len(facts)
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", re.sub(r"\\begin\{.matrix\}.*?\\end\{.matrix\}", "", row))) == 6
        assert re.search(COMMANDS, row.replace(r"\textbackslash{}", "")) is None
        assert row.count("{") - row.count(r"\{") == row.count("}") - row.count(r"\}")
    assert document.count(r"\end{document}") == 1
    assert all(ord(c) < 256 for c in document)


def test_csv_reads_back_and_starts_no_spreadsheet_formula(facts):
    head, *rows = csv.reader(io.StringIO(csv_table(facts)))
    assert tuple(head) == HEAD and [len(row) for row in rows] == [len(HEAD)] * 2
    assert not any(cell[:1] in ("=", "+", "-", "@") for row in rows for cell in row)
    plain = dict(zip(head, rows[1], strict=True))
    assert (plain["key"], plain["classification"], plain["couplings"], plain["rank"], plain["p"]) == (
        "plain",
        "exact-nqf",
        "u-v",
        "2",
        "4",
    )


class Elements(HTMLParser):
    """Every element and attribute of a page."""

    def __init__(self):
        super().__init__()
        self.found, self.attributes, self.open = [], [], []

    def handle_starttag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in ("meta", "link", "br", "img", "hr"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page(facts, layers):
    from nqf_registry.report.picture import picture_of, svg

    return html_page(facts, {"plain": (svg(picture_of(layers.Plain()), "<b>"), "<b> & caption")})


def test_the_page_has_no_element_that_a_text_could_have_made(page):
    elements = Elements()
    elements.feed(page)
    assert not elements.open
    assert not {"script", "img", "iframe", "object", "link", "b" * 2} & set(elements.found)
    assert not [a for a in elements.attributes if a[1].startswith("on")]
    assert "&lt;script&gt;alert(1)" in page and "<b> & caption" not in page


def test_the_page_needs_no_network_and_no_script(page):
    elements = Elements()
    elements.feed(page)
    assert not [a for a in elements.attributes if a[1] in ("src", "srcset", "data")]
    assert "@import" not in page and "url(" not in page
    links = [value for _, name, value in elements.attributes if name == "href"]
    assert links and all(link.startswith(("#", "https://arxiv.org/", "https://doi.org/")) for link in links)
    assert "prefers-color-scheme: dark" in page


def test_an_entry_that_is_not_verified_says_so_everywhere(facts):
    broken = [{**facts[1], "passed": False, "error": "RuntimeError: <i>it</i> is broken", "classification": None, "checks": {}}]
    for text in (markdown(broken), latex(broken), html_page(broken, {})):
        assert "not verified" in text and "<i>it" not in text
    row = dict(zip(HEAD, list(csv.reader(io.StringIO(csv_table(broken))))[1], strict=True))
    assert (row["passed"], row["exact"], row["classification"]) == ("False", "?", "")
