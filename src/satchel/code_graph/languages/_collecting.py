"""Gathering what a file says while its syntax is walked through."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from satchel.code_graph.facts import (
    CALLED,
    LONGEST_DOC,
    LONGEST_NAME,
    LONGEST_SIGNATURE,
    MODULE,
    TYPES,
    Facts,
    Import,
    Symbol,
    Use,
)
from satchel.screen.secrets import scrub

MOST_SYMBOLS, MOST_USES = 20_000, 100_000
"""Of one file; what is beyond is left out, and said."""

_AMBIGUOUS = "?"
_OWN = frozenset({"self", "this"})


@dataclass(slots=True)
class _Draft:
    name: str
    qualified: str
    kind: str
    owner: int
    lines: tuple[int, int]
    signature: str
    doc: str
    bases: tuple[str, ...]
    complexity: int


@dataclass(slots=True)
class Collected:
    """What was seen of a file so far."""

    language: str
    lines: int
    _symbols: list[_Draft] = field(default_factory=list)
    _uses: dict[tuple[int, str], list[int]] = field(default_factory=dict)
    _types: dict[tuple[int, str], str] = field(default_factory=dict)
    _fields: dict[tuple[str, str], str] = field(default_factory=dict)
    _bases: dict[str, list[str]] = field(default_factory=dict)
    _imports: list[Import] = field(default_factory=list)
    _left_out: bool = False

    def define(  # noqa: PLR0913 - what is known of a symbol
        self,
        name: str,
        kind: str,
        owner: int,
        lines: tuple[int, int],
        *,
        signature: str = "",
        doc: str = "",
        bases: Iterable[str] = (),
        within: str | None = None,
    ) -> int:
        """Add a symbol and return its number; that of its owner when there are too many.

        Args:
            name: Its name.
            kind: As ``Symbol.kind``.
            owner: Number of the symbol that it stands in.
            lines: Its first and last line.
            signature: As written; cut, on one line, without secrets.
            doc: What is said of it; likewise.
            bases: What it inherits from.
            within: The qualified name that it belongs to, where that is not its owner's.
        """
        if len(self._symbols) >= MOST_SYMBOLS:
            self._left_out = True
            return owner
        name = name[:LONGEST_NAME]
        above = within
        if above is None:
            above = "" if owner == MODULE else self._symbols[owner].qualified
        qualified = f"{above}.{name}" if above else name
        self._symbols.append(
            _Draft(
                name=name,
                qualified=qualified[-4 * LONGEST_NAME :],
                kind=kind,
                owner=owner,
                lines=lines,
                signature=shown(signature, LONGEST_SIGNATURE),
                doc=shown(doc, LONGEST_DOC, lines=True),
                bases=tuple(base[:LONGEST_NAME] for base in bases if base),
                complexity=1 if kind in CALLED else 0,
            )
        )
        return len(self._symbols) - 1

    def kind_of(self, number: int) -> str:
        """Return the kind of a symbol; empty for the file itself."""
        return "" if number == MODULE else self._symbols[number].kind

    def qualified(self, number: int) -> str:
        """Return the qualified name of a symbol."""
        return self._symbols[number].qualified

    def type_around(self, owner: int) -> int:
        """Return the number of the nearest type that a symbol stands in, or ``MODULE``."""
        while owner != MODULE and self._symbols[owner].kind not in TYPES:
            owner = self._symbols[owner].owner
        return owner

    def add_bases(self, qualified: str, bases: Iterable[str]) -> None:
        """Say of a type in the file what it inherits from, where that is said apart from it."""
        self._bases.setdefault(qualified, []).extend(base[:LONGEST_NAME] for base in bases if base)

    def branch(self, owner: int, ways: int = 1) -> None:
        """Count branches in what is called and holds them."""
        while owner != MODULE and self._symbols[owner].kind not in CALLED:
            owner = self._symbols[owner].owner
        if owner != MODULE:
            self._symbols[owner].complexity += ways

    def call(self, owner: int, text: str, line: int) -> None:
        """Add a call; of what has no name at all, nothing is kept."""
        if not text or text.endswith("?") or len(text) > LONGEST_NAME:
            return
        seen = self._uses.get((owner, text))
        if seen is not None:
            seen[1] += 1
        elif len(self._uses) < MOST_USES:
            self._uses[owner, text] = [line, 1]
        else:
            self._left_out = True

    def typed(self, owner: int, name: str, type_: str) -> None:
        """Say what a name in a function is declared to be; said twice otherwise, it is unknown."""
        if not name or not type_ or len(type_) > LONGEST_NAME:
            return
        was = self._types.setdefault((owner, name), type_)
        if was != type_:
            self._types[owner, name] = _AMBIGUOUS
        first, _, field_ = name.partition(".")
        if field_ and first in _OWN and self.kind_of(owner) in TYPES:
            self._fields[self._symbols[owner].name, field_] = self._types[owner, name]

    def take(self, module: str, name: str, binds: str, line: int) -> None:
        """Add an import."""
        if len(self._imports) >= MOST_SYMBOLS:
            self._left_out = True
            return
        module, name, binds = (part[:LONGEST_NAME] for part in (module, name, binds))
        self._imports.append(Import(module, name, binds, line))

    def facts(self, finding: str = "") -> Facts:
        """Return everything, in the order of the file."""
        if self._left_out and not finding:
            finding = "limit per file exceeded; the rest is skipped"
        return Facts(
            self.language,
            self.lines,
            tuple(self._numbered()),
            tuple(self._used()),
            tuple(self._imports),
            finding,
        )

    def _numbered(self) -> Iterable[Symbol]:
        times = dict[tuple[str, str], int]()
        for one in self._symbols:
            again = times[one.qualified, one.kind] = times.get((one.qualified, one.kind), 0) + 1
            yield Symbol(
                one.name,
                one.qualified,
                one.kind,
                one.owner,
                *one.lines,
                one.signature,
                one.doc,
                one.complexity,
                (*one.bases, *(self._bases.get(one.qualified, ()) if one.kind in TYPES else ())),
                again,
            )

    def _used(self) -> Iterable[Use]:
        for (owner, text), (line, times) in self._uses.items():
            yield Use(owner, text, line, times, self.type_of(owner, text.rpartition(".")[0]))

    def type_of(self, owner: int, name: str) -> str:
        """Return what a name is declared to be where it is used; empty when that is not known."""
        before, _, last = name.rpartition(".")
        found = self._declared(owner, name)
        if not found and before and "." not in before:
            found = self._fields.get((self._declared(owner, before), last), "")
        return "" if found == _AMBIGUOUS else found

    def _declared(self, owner: int, name: str) -> str:
        while name:
            found = self._types.get((owner, name))
            if found is not None or owner == MODULE:
                return found or ""
            owner = self._symbols[owner].owner
        return ""


def shown(text: str, most: int, *, lines: bool = False) -> str:
    """Return the beginning of a text, without what looks like a secret.

    Args:
        text: The text.
        most: How many characters.
        lines: Whether it stays on the lines it is on; otherwise it becomes one.
    """
    part = text[: 8 * most]
    if lines:
        part = "\n".join(line.strip() for line in part.strip().splitlines())
    else:
        part = " ".join(part.split())
    if len(part) > most:
        part = part[: most - 1].rstrip() + "…"
    return scrub(part)[0] if part else ""
