"""What a source of code offers: files by their path, each read when it has changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from satchel.code_graph.facts import Facts
from satchel.runtime.files import Stamp

SOURCE, SCIP = "source", "scip"
"""The kinds of sources: a folder with files, and an index that another tool made of one."""


class SourceFile(NamedTuple):
    """A file that is there."""

    path: str
    """From the top of the tree, joined by slashes."""

    language: str
    stamp: Stamp | None
    """By which a file is known to be unchanged without reading it; None where nothing tells."""

    digest: bytes | None = None
    """Of what it says, where that is known without reading."""


@dataclass(slots=True)
class ScanReport:
    """What was met on the way and is no part of the graph."""

    ignored: int = 0
    """Files and folders that ignore files leave out, or that hold no code of one's own."""

    links: int = 0
    others: int = 0
    """Files in no language that is read here."""

    needs: dict[str, int] | None = None
    """Files of languages whose package is not installed, by language."""

    findings: list[tuple[str, str]] | None = None
    """Paths of what could not be read, and why."""

    def find(self, path: str, why: str) -> None:
        """Note something that could not be read."""
        self.findings = [*(self.findings or []), (path, why)]


class CodeSource(Protocol):
    """Where code comes from."""

    kind: str
    root: str
    """Its absolute path, for the next time."""

    seen: ScanReport

    def offers(self) -> Iterator[SourceFile]:
        """Yield what is there, in any order; each path once."""
        ...

    def digest(self, offer: SourceFile) -> bytes:
        """Return the digest of what a file says now.

        Raises:
            InputError: If it cannot be read.
        """
        ...

    def facts(self, offer: SourceFile) -> Facts:
        """Return what a file says: that of which the digest was asked for last.

        Raises:
            InputError: If it cannot be read.
            MissingExtraError: If what its language needs is not installed.
        """
        ...
