"""A part of a text file between two marks, which is ours; what is around it stays as it is.

The second mark has a digest of what is between them, so that what somebody changed there is seen.
"""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from blake3 import blake3

from satchel.errors import MalformedError

_BEGIN = "<!-- satchel:begin{}; what you change up to satchel:end is replaced -->"
_OWN = " (line ends of its own above: {})"
_ANY_MARK = "<!-- satchel:"
_BEGINS = re.compile(r"<!-- satchel:begin(?: \(line ends of its own above: ([12])\))?;[^\n]*-->")
_ENDS = re.compile(r"<!-- satchel:end(?: ([0-9a-f]{16}))? -->")
_HINT = "Restore both markers, each on its own line, or delete both."


class Parted(NamedTuple):
    """A file, and the block in it."""

    before: str
    block: str | None
    """With its marks, and the line ends above it that were put there with it; None for none."""

    after: str

    @property
    def outside(self) -> str:
        """What is not in the block."""
        return self.before + self.after

    def lines(self) -> Iterator[str]:
        """Yield the lines between the marks, also where an editor gave them other ends."""
        return iter(_inside(self.block)[0]) if self.block is not None else iter(())

    def renewed(self, lines: Iterable[str]) -> str:
        """Return the block with other lines in it, where it is; a new one where there is none."""
        if self.block is None:
            return block_of(lines, self.before)
        above, _, rest = self.block.partition(_ANY_MARK)
        line_end = "\r\n" if rest.partition("\n")[0].endswith("\r") else "\n"
        return _made(lines, above.count("\n"), line_end)

    @property
    def is_as_written(self) -> bool:
        """Whether nobody changed what is between the marks."""
        if self.block is None:
            return True
        lines, said = _inside(self.block)
        return said == _digest(lines) or not any(lines)


def parted(text: str) -> Parted:
    """Find the block of a file.

    Raises:
        MalformedError: If a mark is missing, damaged, or there twice.
    """
    start = end = None
    at = first = 0
    for number, line in enumerate(text.split("\n"), 1):
        after, bare = min(at + len(line) + 1, len(text)), line.rstrip("\r \t")
        if bare.startswith(_ANY_MARK):
            if (begins := _BEGINS.fullmatch(bare)) and start is None:
                line_end = "\r\n" if line.endswith("\r") else "\n"
                start, first = at, number
                for _ in range(int(begins[1] or 0)):
                    start -= len(line_end) * text.endswith(line_end, 0, start)
            elif _ENDS.fullmatch(bare) and start is not None and end is None:
                end = after
            else:
                raise MalformedError("the memory block is damaged", line=number, hint=_HINT)
        at = after
    if start is None:
        return Parted(text, None, "")
    if end is None:
        raise MalformedError("the memory block has no end marker", line=first, hint=_HINT)
    return Parted(text[:start], text[start:end], text[end:])


def has_mark(head: str) -> bool:
    """Tell whether a block begins in the first characters of a file."""
    return any(_BEGINS.fullmatch(line.rstrip("\r \t")) for line in head.split("\n"))


def block_of(lines: Iterable[str], before: str) -> str:
    """Return a block of some lines, apart from what is before it, with the same line ends."""
    line_end = "\r\n" if before.partition("\n")[0].endswith("\r") else "\n"
    return _made(lines, _gap_after(before), line_end)


def _made(lines: Iterable[str], gap: int, line_end: str = "\n") -> str:
    """Return a block of some lines, with so many line ends above it."""
    kept = list(lines)
    begin = _BEGIN.format(_OWN.format(gap) if gap else "")
    whole = (begin, *kept, f"<!-- satchel:end {_digest(kept)} -->", "")
    return gap * line_end + line_end.join(whole)


def _gap_after(before: str) -> int:
    if not before or before.endswith(("\n\n", "\n\r\n")):
        return 0
    return 1 if before.endswith("\n") else 2


def _inside(block: str) -> tuple[list[str], str | None]:
    """Return the lines between the marks, and the digest that the second mark has."""
    lines = block.removesuffix("\n").split("\n")
    if all(line.endswith("\r") for line in lines):
        lines = [line.removesuffix("\r") for line in lines]
    start = next(n for n, line in enumerate(lines, 1) if line.startswith(_ANY_MARK))
    end = _ENDS.fullmatch(lines[-1].rstrip("\r \t"))
    return lines[start:-1], end[1] if end is not None else None


def _digest(lines: list[str]) -> str:
    return blake3("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest(8)
