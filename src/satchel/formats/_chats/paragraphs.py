"""A memory that is one long text, as the memories in it: its paragraphs, each with its heading."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_BLANK = re.compile(r"\n[ \t]*(?:\n[ \t]*)*\n")
_BOLD = re.compile(r"\*\*[^*\n]+\*\*:?")
_HASHES = re.compile(r"#{1,6}[ \t]+\S[^\n]*")


class Paragraph(NamedTuple):
    """A stretch of text between blank lines."""

    heading: str | None
    """The line above it, as it was written."""

    number: int
    """From 1, below that heading."""

    text: str


def paragraphs(text: str) -> Iterator[Paragraph]:
    """Yield the paragraphs of a text; joined again, nothing but blank lines is missing.

    A heading with nothing below it is a paragraph.
    """
    heading, waiting, number = None, False, 0
    for part in _BLANK.split(text.replace("\r\n", "\n").strip("\n")):
        first, _, below = part.partition("\n")
        if _is_heading(first):
            if waiting and heading is not None:
                yield Paragraph(None, 1, heading)
            heading, waiting, number = first, True, 0
            words = below
        else:
            words = part
        if words.strip():
            waiting, number = False, number + 1
            yield Paragraph(heading, number, words)
    if waiting and heading is not None:
        yield Paragraph(None, 1, heading)


def words_of(heading: str) -> str:
    """Return a heading without its marks."""
    return heading.strip("#*: \t")


def _is_heading(line: str) -> bool:
    return bool(_BOLD.fullmatch(line) or _HASHES.fullmatch(line))
