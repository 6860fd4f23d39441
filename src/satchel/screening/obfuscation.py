"""Reading through disguises: a text as a person sees it, and the way back to what is there.

Characters that show nothing are left out, full-width forms become the letters they show, and
spaces of every width become one. Letters of other scripts that only look alike are not undone.
"""

import re
from bisect import bisect_left
from typing import NamedTuple

_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e0fff"
)
_SPACES = "\u00a0\u2000-\u200a\u202f\u205f\u3000"
_invisible = re.compile(f"[{_INVISIBLE}]+")
_disguised = re.compile(f"[{_INVISIBLE}{_SPACES}\uff01-\uff5e]").search
_FULL_WIDTH_OFFSET = 0xFEE0
_SHOWN: dict[int, int | str] = {
    **{code: code - _FULL_WIDTH_OFFSET for code in range(0xFF01, 0xFF5F)},
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000], " "),
}

_STARTS = {  # of what is disguised, in UTF-8: by their first bytes
    b"\xc2": (b"\xc2\xa0", b"\xc2\xad"),
    b"\xcd": (b"\xcd\x8f",),
    b"\xd8": (b"\xd8\x9c",),
    b"\xe1": (b"\xe1\x85", b"\xe1\x9e", b"\xe1\xa0"),
    b"\xe2": (b"\xe2\x80", b"\xe2\x81"),
    b"\xe3": (b"\xe3\x80\x80",),
    b"\xef": (b"\xef\xb8", b"\xef\xbb", b"\xef\xbc", b"\xef\xbd"),
    b"\xf3": (b"\xf3\xa0",),
}


def may_be_disguised(data: bytes) -> bool:
    """Tell whether something in UTF-8 may not be what it looks like; False is certain."""
    if data.isascii():
        return False
    # A single byte is found in no time; ordinary text has none of most of them.
    there = [starts for first, starts in _STARTS.items() if first in data]
    return any(start in data for starts in there for start in starts)


class Seen(NamedTuple):
    """A text as it is seen."""

    text: str
    gaps: tuple[tuple[int, int], ...] = ()
    """Where something was left out: places in ``text``, and how much by then; both ascend."""

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return where a span of the seen text, at least one character, is in the original."""
        return self._place(start), self._place(end - 1) + 1

    def _place(self, at: int) -> int:
        after = bisect_left(self.gaps, (at + 1, 0))
        return at + (self.gaps[after - 1][1] if after else 0)


def seen(text: str) -> Seen:
    """Return a text without its disguises; in most cases as it is."""
    if text.isascii() or not _disguised(text):
        return Seen(text)
    gaps, gone = [], 0
    for found in _invisible.finditer(text):
        at = found.start() - gone
        gone += found.end() - found.start()
        gaps.append((at, gone))
    return Seen(_invisible.sub("", text).translate(_SHOWN), tuple(gaps))
