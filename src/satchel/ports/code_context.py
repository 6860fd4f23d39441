"""Code that recall shows with memories; a recall without code loads no more than this."""

import msgspec

HEADS = "code/head/"
"""Prefix of the unlogged values that hold the heads of a bank's source trees."""


class CodeContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol or a file that a memory mentions, in its current form."""

    id: str
    """As ``CodeSymbol.id``; ``TREE/PATH`` for a file."""

    kind: str
    """As ``CodeSymbol.kind``; ``file`` for a file."""

    name: str
    path: str
    how: str
    """How the memory mentions it: ``file``, ``qualified``, ``name``; ``word`` for an ordinary word.
    """

    line: int = 1
    language: str = ""
    signature: str = ""
    doc: str = ""
    """The beginning of its documentation."""

    complexity: int = 0
    callers: list[str] = []
    """Its certain callers, as ``NAME (PATH:LINE)``."""

    more_callers: int = 0
    may_call: int = 0
    """Number of uncertain calls: only the name matches."""

    inside: list[str] = []
    """Signatures of the members of a type or a file."""

    more_inside: int = 0

    def lines(self) -> list[str]:
        """Return it as lines of text."""
        head = self.signature or self.name
        first = self.path if self.kind == "file" else f"{head}  ({self.path}:{self.line})"
        lines = [first]
        if self.doc:
            lines.append(f"  {self.doc}")
        lines += [f"  {each}" for each in self.inside]
        if self.more_inside:
            lines.append(f"  and {self.more_inside:,} more")
        if self.callers:
            more = f", and {self.more_callers:,} more" if self.more_callers else ""
            lines.append(f"  called by {', '.join(self.callers)}{more}")
        if self.may_call:
            lines.append(f"  {self.may_call:,} more calls of that name, target unknown")
        return lines


class CodeAttachment(msgspec.Struct, frozen=True):
    """The code that recalled memories mention."""

    code: dict[str, list[CodeContext]] = {}
    """By ID of the memory."""

    tokens: int = 0
    over_budget: int = 0
    """Symbols and files that did not fit the token budget."""
