"""An index in SCIP, which other tools make of a source tree: exact about who means whom.

What is read are documents, the symbols they define with their documentation, signature and
relationships, and the places where a symbol is named. Such a place belongs to the symbol whose
enclosing range holds it; where the tool gives no such ranges, to the one that begins last before
it. The file is read document by document, never whole.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from satchel.code_graph.facts import (
    LONGEST_DOC,
    LONGEST_NAME,
    LONGEST_SIGNATURE,
    MODULE,
    Facts,
    Symbol,
    Use,
)
from satchel.code_graph.languages._collecting import MOST_SYMBOLS, MOST_USES, shown
from satchel.code_graph.sources._scip_names import Named, named
from satchel.code_graph.sources._wire import Field, Piece, fields, numbers, pieces, texts
from satchel.code_graph.sources.folders import MOST_FILES, written_out
from satchel.code_graph.sources.offer import SCIP, Offer, Seen
from satchel.disk.contained import parts_of
from satchel.disk.reading import OpenFile
from satchel.errors import LimitError, MalformedError, PathRefusedError

LARGEST_DOCUMENT = 64 << 20
"""Bytes of one document of an index."""

MOST_OCCURRENCES = 2_000_000
"""Places in one document."""

_METADATA, _DOCUMENTS = 1, 2
_PROJECT_ROOT = 3
_PATH, _OCCURRENCES, _SYMBOLS, _LANGUAGE, _TEXT = 1, 2, 3, 4, 5
_RANGE, _SYMBOL, _ROLES, _ENCLOSING = 1, 2, 3, 7
_NAME, _DOCUMENTATION, _RELATIONSHIPS, _KIND, _DISPLAY, _SIGNATURE = 1, 3, 4, 5, 6, 7
_IS_IMPLEMENTATION = 3
_DEFINITION = 1
_FENCE = "```"
_DIGEST = 16


class _Place(NamedTuple):
    symbol: str
    line: int
    roles: int
    enclosing: tuple[int, int] | None
    """First and last line of what is defined here."""


class _Said(NamedTuple):
    doc: str
    signature: str
    kind: int
    display: str
    implements: tuple[str, ...]


_UNSAID = _Said("", "", 0, "", ())


class ScipIndex:
    """An index file.

    Args:
        file: It, held open.

    Raises:
        MalformedError: If it is no SCIP index.
        LimitError: If it has too many documents, or one that is too large.
    """

    kind = SCIP

    def __init__(self, file: OpenFile) -> None:
        self._stream = file.stream()
        self.root = written_out(file.path.absolute())
        self.seen = Seen()
        self.project = ""
        """The last part of the folder's name that it was made of; empty when it does not say."""

        self._documents: list[Piece] = []
        for piece in pieces(self._stream, LARGEST_DOCUMENT):
            if piece.number == _METADATA:
                self.project = self._project(piece)
            elif piece.number == _DOCUMENTS:
                self._documents.append(piece)
            if len(self._documents) > MOST_FILES:
                raise LimitError(f"more than {MOST_FILES:,} documents", file=self.root)
        if not self._documents:
            raise MalformedError("not a SCIP index: it contains no document", file=self.root)
        self._places: dict[str, list[Piece]] = {}

    def offers(self) -> Iterator[Offer]:
        """Yield the documents; parts of one document, which a tool may write apart, are one."""
        self._places, languages = {}, dict[str, str]()
        for piece in self._documents:
            path, language = self._headed(self._read(piece))
            try:
                parts_of(path)
            except PathRefusedError as error:
                self.seen.find(ascii(path[:LONGEST_NAME]), error.message)
                continue
            self._places.setdefault(path, []).append(piece)
            languages.setdefault(path, language)
        for path, some in self._places.items():
            hashed = blake3()
            for piece in some:
                hashed.update(self._read(piece))
            yield Offer(path, languages[path], None, hashed.digest(length=_DIGEST))

    def digest(self, offer: Offer) -> bytes:
        """Return the digest of a document."""
        return offer.digest or b""

    def facts(self, offer: Offer) -> Facts:
        """Return what a document says."""
        places, said = list[_Place](), dict[str, _Said]()
        for piece in self._places[offer.path]:
            for field in fields(memoryview(self._read(piece))):
                if field.number == _OCCURRENCES:
                    places.append(_place(field.data))
                elif field.number == _SYMBOLS:
                    symbol, what = _symbol(field.data)
                    said[symbol] = what
                if len(places) > MOST_OCCURRENCES:
                    raise LimitError(f"more than {MOST_OCCURRENCES:,} places", file=offer.path)
        return _Reading(places, said).facts(offer.language)

    def _read(self, piece: Piece) -> bytes:
        self._stream.seek(piece.start)
        data = self._stream.read(piece.size)
        if len(data) != piece.size:
            raise MalformedError("the index was truncated while it was being read", file=self.root)
        return data

    def _headed(self, data: bytes) -> tuple[str, str]:
        path = language = ""
        for field in fields(memoryview(data)):
            if field.number == _PATH:
                path = texts(field.data)
            elif field.number == _LANGUAGE:
                language = texts(field.data)[:40].lower()
        return path, language

    def _project(self, piece: Piece) -> str:
        for field in fields(memoryview(self._read(piece))):
            if field.number == _PROJECT_ROOT:
                try:
                    path = urlsplit(texts(field.data)).path
                except ValueError:
                    return ""
                return PurePosixPath(unquote(path)).name
        return ""


def _place(data: memoryview) -> _Place:
    symbol, roles = "", 0
    spans: dict[int, list[int]] = {_RANGE: [], _ENCLOSING: []}
    for field in fields(data):
        if field.number == _SYMBOL:
            symbol = texts(field.data)
        elif field.number == _ROLES:
            roles = field.value
        elif field.number in spans:
            spans[field.number] += _some(field)
    line = spans[_RANGE][0] + 1 if spans[_RANGE] else 1
    around = spans[_ENCLOSING]
    lines = None
    if len(around) in _RANGES:
        last = around[2] if len(around) == max(_RANGES) else around[0]
        lines = (around[0] + 1, last + 1)
    return _Place(symbol, line, roles, lines)


_RANGES = (3, 4)
"""Numbers in a range: line, column, column; or line, column, line, column."""

_LAST_LINE = 1 << 31


def _some(field: Field) -> list[int]:
    found = list[int]()
    for value in numbers(field):
        if len(found) < max(_RANGES):
            found.append(min(value, _LAST_LINE))
    return found


def _symbol(data: memoryview) -> tuple[str, _Said]:
    symbol, docs, signature, kind, display = "", list[str](), "", 0, ""
    implements = list[str]()
    for field in fields(data):
        if field.number == _NAME:
            symbol = texts(field.data)
        elif field.number == _DOCUMENTATION:
            docs.append(texts(field.data[: 8 * LONGEST_DOC]))
        elif field.number == _RELATIONSHIPS:
            implements += _implemented(field.data)
        elif field.number == _KIND:
            kind = field.value
        elif field.number == _DISPLAY:
            display = texts(field.data[:LONGEST_NAME])
        elif field.number == _SIGNATURE:
            signature = _text_of(field.data)
    fenced, doc = _without_fences(docs)
    return symbol, _Said(doc, signature or fenced, kind, display, tuple(implements))


def _implemented(data: memoryview) -> list[str]:
    symbol, wanted = "", False
    for field in fields(data):
        if field.number == _NAME:
            symbol = texts(field.data)
        elif field.number == _IS_IMPLEMENTATION:
            wanted = bool(field.value)
    return [symbol] if wanted else []


def _text_of(data: memoryview) -> str:
    for field in fields(data):
        if field.number == _TEXT:
            return texts(field.data[: 8 * LONGEST_SIGNATURE])
    return ""


def _without_fences(docs: list[str]) -> tuple[str, str]:
    """Return the code in documentation, where tools put signatures, and what is said besides."""
    signature, said = "", list[str]()
    for doc in docs:
        if not doc.lstrip().startswith(_FENCE):
            said.append(doc)
            continue
        code, _, rest = doc.lstrip()[len(_FENCE) :].partition(_FENCE)
        signature = signature or code.partition("\n")[2]
        said.append(rest)
    return signature, "\n".join(part.strip() for part in said if part.strip())


class _Reading:
    """Making facts of the places and symbols of a document."""

    def __init__(self, places: list[_Place], said: dict[str, _Said]) -> None:
        self._said = said
        self._places = places
        defined = dict[str, tuple[_Place, Named, str]]()
        for place in sorted(places, key=lambda one: (one.line, one.symbol)):
            what = named(place.symbol) if place.roles & _DEFINITION else None
            if what is None or place.symbol in defined or len(defined) >= MOST_SYMBOLS:
                continue
            kind = what.kind(said.get(place.symbol, _UNSAID).kind)
            if kind:
                defined[place.symbol] = (place, what, kind)
        self._defined = defined
        self._numbers = {symbol: number for number, symbol in enumerate(defined)}

    def facts(self, language: str) -> Facts:
        symbols = tuple(self._symbols())
        uses = dict[tuple[int, str], list[int]]()
        exact = any(place.enclosing for place, _, _ in self._defined.values())
        around = _Around(symbols, exact=exact)
        last, finding = 0, ""
        for place in self._places:
            last = max(last, place.line)
            what = None if place.roles & _DEFINITION else named(place.symbol)
            if what is None or not what.is_known:
                continue
            key = (around.line(place.line), place.symbol)
            if key in uses:
                uses[key][0] = min(uses[key][0], place.line)
                uses[key][1] += 1
            elif len(uses) < MOST_USES:
                uses[key] = [place.line, 1]
            else:
                finding = "limit per document exceeded"
        return Facts(language, last, symbols, tuple(_uses(uses)), (), finding)

    def _symbols(self) -> Iterator[Symbol]:
        by_parts = {what.parts: self._numbers[s] for s, (_, what, _) in self._defined.items()}
        times = dict[tuple[str, str], int]()
        for symbol, (place, what, kind) in self._defined.items():
            said = self._said.get(symbol, _UNSAID)
            qualified = what.qualified[-4 * LONGEST_NAME :]
            again = times[qualified, kind] = times.get((qualified, kind), 0) + 1
            first, end = place.enclosing or (place.line, place.line)
            bases = [(named(one), one) for one in said.implements]
            yield Symbol(
                (said.display or what.name)[:LONGEST_NAME],
                qualified,
                kind,
                by_parts.get(what.above.parts, MODULE),
                first,
                max(first, end),
                shown(said.signature, LONGEST_SIGNATURE),
                shown(said.doc, LONGEST_DOC, lines=True),
                0,
                tuple(one.qualified[-LONGEST_NAME:] for one, _ in bases if one is not None),
                again,
                symbol,
            )


def _uses(found: dict[tuple[int, str], list[int]]) -> Iterator[Use]:
    for (owner, symbol), (line, times) in found.items():
        what = named(symbol)
        if what is not None:
            yield Use(owner, what.qualified, line, times, "", what.is_called, symbol)


class _Around:
    """Which symbol a line belongs to."""

    def __init__(self, symbols: tuple[Symbol, ...], *, exact: bool) -> None:
        self._symbols = symbols
        self._exact = exact
        self._order = sorted(range(len(symbols)), key=lambda number: symbols[number].first)
        self._firsts = [symbols[number].first for number in self._order]

    def line(self, line: int) -> int:
        """Return the number of the innermost symbol around a line, or ``MODULE``."""
        at = bisect_right(self._firsts, line) - 1
        if at < 0:
            return MODULE
        number = self._order[at]
        steps = 0
        while self._exact and number != MODULE and steps < _DEEPEST:
            if self._symbols[number].last >= line:
                return number
            number, steps = self._symbols[number].owner, steps + 1
        return MODULE if self._exact else number


_DEEPEST = 64
