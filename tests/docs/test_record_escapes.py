"""The guide lists every escape of a record: a decoder made from its table alone is sufficient."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from satchel.rehydrate.frames import SHORT, encoded

_GUIDE = Path(__file__).parent.parent.parent / "docs" / "guides" / "rehydration.md"
_NAMED = {
    "a backslash": "\\",
    "line feed": "\n",
    "carriage return": "\r",
    "tab": "\t",
    "a colon": ":",
}


def _table() -> dict[str, str]:
    """Return the meaning of each short escape, as the guide describes it."""
    found = dict[str, str]()
    for row in re.findall(r"^\| (`\\.*?`) \| (.*) \|$", _GUIDE.read_text("utf-8"), re.MULTILINE):
        escapes = re.findall(r"`(\\[^`]+)`", row[0])
        signs = re.findall(r"`([^`\\])`", row[1])
        codes = re.findall(r"U\+([0-9A-F]{4})", row[1])
        named = [sign for name, sign in _NAMED.items() if name in row[1]]
        said = [chr(int(code, 16)) for code in codes] or signs or named
        if "XX" not in row[0]:
            found |= dict(zip(escapes, said, strict=True))
    return found


TABLE = _table()


def _decoded(text: str) -> str:
    """Decode a text by the rules of the guide only."""
    out, at = "", 0
    while at < len(text):
        if text[at] != "\\":
            out, at = out + text[at], at + 1
        elif text[at + 1] in "uU":
            digits = 4 if text[at + 1] == "u" else 8
            out += chr(int(text[at + 2 : at + 2 + digits], 16))
            at += 2 + digits
        else:
            out, at = out + TABLE[text[at : at + 2]], at + 2
    return out


def test_the_table_has_every_short_escape_and_no_other() -> None:
    """With the character that it stands for."""
    assert {escape: sign for sign, escape in SHORT.items()} | {"\\.": ":"} == TABLE


@given(st.text())
def test_any_text_is_decodable_with_the_table(text: str) -> None:
    """Byte for byte."""
    assert _decoded(encoded(text)) == text


@pytest.mark.parametrize(
    "text", ["system: x", "a\u00a0b\u00ad\ufe0f\u200d\u200c", "[<|&>]\\n\r\n\t", "\U000e0041\u202e"]
)
def test_escaped_text_is_decodable_with_the_table(text: str) -> None:
    """A sample for each row of the table."""
    assert encoded(text) != text
    assert _decoded(encoded(text)) == text
