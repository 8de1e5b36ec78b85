"""Structured references of a catalogue entry."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reference:
    """One work that a layer comes from.

    Attributes:
        authors: "A. Author, B. Author" or "A. Author et al.".
        title: the work's title.
        year: year of publication.
        venue: journal, proceedings or publisher; empty for a preprint.
        arxiv: identifier without prefix, "1312.6120"; empty where there is none.
        doi: identifier without prefix; empty where there is none.
    """

    authors: str
    title: str
    year: int
    venue: str = ""
    arxiv: str = ""
    doi: str = ""

    def __str__(self) -> str:
        where = ", ".join(
            part
            for part in (self.venue, f"arXiv {self.arxiv}" if self.arxiv else "", f"doi {self.doi}" if self.doi else "")
            if part
        )
        return f"{self.authors} ({self.year}). {self.title}." + (f" {where}." if where else "")
