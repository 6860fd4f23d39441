"""What recall has to know of code, without loading the rest: a recall without code pays nothing."""

import msgspec

HEADS = "code/head/"
"""How the unlogged values begin that say which source trees a bank has (``keeping``)."""


class CodeContext(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A symbol or a file that a memory names, as the code is now."""

    id: str
    """As ``Code.id``; of a file, ``TREE/PATH``."""

    kind: str
    """As ``Code.kind``; ``file`` for a file."""

    name: str
    path: str
    how: str
    """How the memory names it: ``file``, ``qualified``, ``name``; ``word`` where it looks like any
    other word."""

    line: int = 1
    language: str = ""
    signature: str = ""
    doc: str = ""
    """What is said of it, the beginning."""

    complexity: int = 0
    callers: list[str] = []
    """Where it is called from, ``NAME (PATH:LINE)``; none that is not certain."""

    more_callers: int = 0
    may_call: int = 0
    """How many calls may be of it, where only the name fits."""

    inside: list[str] = []
    """Signatures of what a type or a file holds."""

    more_inside: int = 0

    def lines(self) -> list[str]:
        """Return it as lines for a person, or a model."""
        head = self.signature or self.name
        first = self.path if self.kind == "file" else f"{head}  ({self.path}:{self.line})"
        said = [first]
        if self.doc:
            said.append(f"  {self.doc}")
        said += [f"  {each}" for each in self.inside]
        if self.more_inside:
            said.append(f"  and {self.more_inside:,} more")
        if self.callers:
            more = f", and {self.more_callers:,} more" if self.more_callers else ""
            said.append(f"  called by {', '.join(self.callers)}{more}")
        if self.may_call:
            said.append(f"  {self.may_call:,} more calls of that name, target unknown")
        return said


class CodeAttachment(msgspec.Struct, frozen=True):
    """The code that goes along with recalled memories."""

    code: dict[str, list[CodeContext]] = {}
    """By id of the memory."""

    tokens: int = 0
    over_budget: int = 0
    """Symbols and files for which no tokens were left."""
