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
"""The number of the file itself, as an owner."""

TYPES = frozenset({"class", "struct", "interface", "trait", "enum", "type"})
"""Kinds of symbols that have methods, or that others inherit from."""

CALLED = frozenset({"function", "method"})
"""Kinds of symbols that are called."""

KINDS = TYPES | CALLED | {"module"}
"""All kinds; a ``module`` is a named part of a file, such as a Rust ``mod``."""

LONGEST_SIGNATURE, LONGEST_DOC, LONGEST_NAME = 300, 600, 200
"""Maximum characters of each; longer ones are truncated."""


class Symbol(msgspec.Struct, frozen=True, array_like=True):
    """A symbol that a file defines."""

    name: str
    qualified: str
    """The name with those of its owners, joined by dots: ``Config.load``."""

    kind: str
    """One of ``KINDS``."""

    owner: int
    """Number of the symbol that contains it; ``MODULE`` for none."""

    first: int
    """Its first line, from 1."""

    last: int
    signature: str
    doc: str
    complexity: int
    """1 plus the number of branches; 0 for symbols that are not called."""

    bases: tuple[str, ...] = ()
    """Its base types, as written, joined by dots."""

    again: int = 1
    """2 for the second of the same qualified name and kind in the file, and so on."""

    key: str = ""
    """Its global name from another tool; empty for none."""


class Use(msgspec.Struct, frozen=True, array_like=True):
    """A reference to a name that may be defined elsewhere."""

    by: int
    """Number of the symbol that contains it; ``MODULE`` for none."""

    text: str
    """As written, joined by dots: ``self.load``; ``?`` for an expression without a name."""

    line: int
    """The first line of this reference in the symbol."""

    times: int
    type: str = ""
    """The declared type of the text before the last dot, if the file has it."""

    is_call: bool = True
    key: str = ""
    """``Symbol.key`` of the target."""


class ImportStatement(msgspec.Struct, frozen=True, array_like=True):
    """A name that a file imports from another module."""

    module: str
    """As written, joined by dots or slashes as in the language."""

    name: str
    """The imported name; empty for the module itself, ``*`` for everything."""

    binds: str
    """Its name in the file; empty for none."""

    line: int


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """All facts of one file."""

    language: str
    lines: int
    symbols: tuple[Symbol, ...]
    uses: tuple[Use, ...]
    imports: tuple[ImportStatement, ...]
    finding: str = ""
    """What could not be parsed; empty for nothing."""


class CodeNode(NamedTuple):
    """A symbol, with its tree and file."""

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
        """An ID that is stable while its file, qualified name and kind are."""
        symbol = self.symbol
        again = f"~{symbol.again}" if symbol.again > 1 else ""
        return f"{self.tree}/{self.path}#{symbol.qualified}:{symbol.kind}{again}"

    @property
    def parent(self) -> str:
        """The qualified name of its owner; empty for none."""
        return self.symbol.qualified.rpartition(".")[0]


def last_of(text: str) -> str:
    """Return the last part of a name with dots."""
    return text.rpartition(".")[2]


def stem_of(path: str) -> str:
    """Return the key of a file by its name without suffix."""
    return "/" + path.rpartition("/")[2].partition(".")[0]


def names_of(path: str, facts: Facts, stems: frozenset[str]) -> tuple[set[str], set[str]]:
    """Return the names that a file defines, and those that it uses.

    The defined names include the file's own name, with its suffix (``config.py``) and as stems,
    which begin with a slash, unlike names in a program.

    Args:
        path: The file.
        facts: Its facts.
        stems: Its names in imports, each with a slash before it.
    """
    defined = {symbol.name for symbol in facts.symbols}
    defined |= {path.rpartition("/")[2], stem_of(path)} | stems
    used = {last_of(use.text) for use in facts.uses}
    for imported in facts.imports:
        used |= {imported.name, last_module(imported.module)}
    for symbol in facts.symbols:
        used |= {last_of(base) for base in symbol.bases}
    return defined, used - {"", "?", "*"}


def last_module(module: str) -> str:
    """Return the last part of what an import names."""
    return module.replace("/", ".").rstrip(".").rpartition(".")[2]


SOURCE, SCIP = "source", "scip"
"""The kinds of sources: a folder with files, or an index of another tool."""


class SourceFile(NamedTuple):
    """A file of a source."""

    path: str
    """Path from the root of the tree, joined by slashes."""

    language: str
    stamp: Stamp | None
    """Identifies an unchanged file without reading it; None if unknown."""

    digest: bytes | None = None
    """Digest of its contents, if known without reading."""


@dataclass(slots=True)
class ScanReport:
    """What a scan found and skipped."""

    ignored: int = 0
    """Files and folders that ignore files name, or with third-party code."""

    links: int = 0
    others: int = 0
    """Files in unsupported languages."""

    needs: dict[str, int] | None = None
    """Files of languages whose package is not installed, by language."""

    findings: list[tuple[str, str]] | None = None
    """Paths of files that could not be read, and why."""

    def find(self, path: str, why: str) -> None:
        """Add a file that could not be read."""
        self.findings = [*(self.findings or []), (path, why)]


class CodeSource(Protocol):
    """A source of code."""

    kind: str
    root: str
    """Its absolute path."""

    seen: ScanReport

    def offers(self) -> Iterator[SourceFile]:
        """Yield its files, in any order; each path once."""
        ...

    def digest(self, offer: SourceFile) -> bytes:
        """Return the digest of a file's present contents.

        Raises:
            InputError: If it cannot be read.
        """
        ...

    def facts(self, offer: SourceFile) -> Facts:
        """Return the facts of the file whose digest was returned last.

        Raises:
            InputError: If it cannot be read.
            MissingExtraError: If the parser of its language is not installed.
        """
        ...
