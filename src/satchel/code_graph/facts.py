"""Facts of one source file, as it states them, and where source files come from.

Nothing here refers to another file: a call keeps the words it was written with, and its target is
resolved when a query needs it (``resolution``). So a change to one file never makes the facts of
another one wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec

from satchel.runtime.files import Stamp

MODULE = -1
"""Stands for the file itself, where an owner is named by its number."""

TYPES = frozenset({"class", "struct", "interface", "trait", "enum", "type"})
"""Kinds of symbols that have methods, or that others inherit from."""

CALLED = frozenset({"function", "method"})
"""Kinds of symbols that are called."""

KINDS = TYPES | CALLED | {"module"}
"""All kinds; a ``module`` is a named part of a file, such as a Rust ``mod``."""

LONGEST_SIGNATURE, LONGEST_DOC, LONGEST_NAME = 300, 600, 200
"""Characters that are kept of each; what is longer is cut."""


class Symbol(msgspec.Struct, frozen=True, array_like=True):
    """Something that a file defines."""

    name: str
    qualified: str
    """With the names of what it stands in, joined by dots: ``Config.load``."""

    kind: str
    """One of ``KINDS``."""

    owner: int
    """Number of the symbol that it stands in; ``MODULE`` for none."""

    first: int
    """Its first line, from 1."""

    last: int
    signature: str
    doc: str
    complexity: int
    """1 and the number of places where it branches; 0 for what is not called."""

    bases: tuple[str, ...] = ()
    """What it inherits from, as written, joined by dots."""

    again: int = 1
    """2 for the second of the same qualified name and kind in the file, and so on."""

    key: str = ""
    """The name that a tool gave it, which is the same in every file; empty for none."""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A place where a file names something that may be defined elsewhere."""

    by: int
    """Number of the symbol that it stands in; ``MODULE`` for none."""

    text: str
    """As written, joined by dots: ``self.load``; ``?`` stands for what has no name."""

    line: int
    """Of the first such place in the symbol."""

    times: int
    type: str = ""
    """What all of the text but its last part is declared to be, where the file says so."""

    is_call: bool = True
    key: str = ""
    """As ``Symbol.key``, of what is meant."""


class ImportStatement(msgspec.Struct, frozen=True, array_like=True):
    """A name that a file takes from another module."""

    module: str
    """As written, joined by dots or slashes as the language does."""

    name: str
    """What is taken from it; empty for the module itself, ``*`` for everything."""

    binds: str
    """What it is called in the file; empty for nothing that can be named."""

    line: int


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """All that is known of one file."""

    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    uses: tuple[Use, ...]
    imports: tuple[ImportStatement, ...]
    finding: str = ""
    """What could not be read of it; empty when all was."""


class CodeNode(NamedTuple):
    """A symbol, and where it is."""

    tree: str
    """The source tree."""

    path: str
    facts: Facts
    number: int

    @property
    def symbol(self) -> Symbol:
        """The symbol itself."""
        return self.facts.symbols[self.number]

    @property
    def id(self) -> str:
        """A name that stays the same as long as its file, its qualified name and kind do."""
        symbol = self.symbol
        again = f"~{symbol.again}" if symbol.again > 1 else ""
        return f"{self.tree}/{self.path}#{symbol.qualified}:{symbol.kind}{again}"

    @property
    def parent(self) -> str:
        """The qualified name of what it stands in; empty for none."""
        return self.symbol.qualified.rpartition(".")[0]


def last_of(text: str) -> str:
    """Return the last part of a name with dots."""
    return text.rpartition(".")[2]


def stem_of(path: str) -> str:
    """Return the key under which a file is found by its name without ending."""
    return "/" + path.rpartition("/")[2].partition(".")[0]


def names_of(path: str, facts: Facts, stems: frozenset[str]) -> tuple[set[str], set[str]]:
    """Return the names that a file defines, and those that it uses.

    Its own name is among the first, with its ending (``config.py``) and by its stems; these
    begin with a slash, which no name in a program holds.

    Args:
        path: The file.
        facts: What it says.
        stems: What its language calls it in an import, each with a slash before it.
    """
    defined = {symbol.name for symbol in facts.symbols}
    defined |= {path.rpartition("/")[2], stem_of(path)} | stems
    used = {last_of(use.text) for use in facts.uses}
    for one in facts.imports:
        used |= {one.name, last_module(one.module)}
    for symbol in facts.symbols:
        used |= {last_of(base) for base in symbol.bases}
    return defined, used - {"", "?", "*"}


def last_module(module: str) -> str:
    """Return the last part of what an import names."""
    return module.replace("/", ".").rstrip(".").rpartition(".")[2]


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
