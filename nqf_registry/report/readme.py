"""The table's first columns inside a README, between two HTML comments."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nqf_registry.errors import InvalidInput
from nqf_registry.report.columns import Facts
from nqf_registry.report.markdown import table

START, END = "<!-- catalogue:start -->", "<!-- catalogue:end -->"


def block(entries: Sequence[Facts]) -> str:
    """The two comments with the table between them."""
    return f"{START}\n\n{table(entries)}\n\n{END}"


def has_markers(text: str) -> bool:
    """Whether a text has the two comments, once each and in order."""
    return text.count(START) == 1 and text.count(END) == 1 and text.index(START) < text.index(END)


def with_table(text: str, entries: Sequence[Facts]) -> str:
    """The text with the block between the comments written anew.

    Raises:
        InvalidInput: the comments are not there, once each and in order.
    """
    if not has_markers(text):
        raise InvalidInput(
            f"the README needs the lines {START} and {END}, once each and in this order; put them where the table belongs."
        )
    return text[: text.index(START)] + block(entries) + text[text.index(END) + len(END) :]


def read(path: Path) -> str:
    """The text of a README.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the README {path} cannot be read: {error}.") from error
