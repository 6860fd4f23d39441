"""SCIP indexes, which other tools make of source trees, with exact references.

Reads documents, the symbols that they define with documentation, signature and relationships, and
occurrences of symbols. An occurrence belongs to the symbol whose enclosing range contains it;
without such ranges, to the last one that begins before it. The file is read document by document,
never whole.
"""

from bisect import bisect_right
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote, urlsplit

from blake3 import blake3

from satchel.code_graph.facts import (
    CALLED,
    LONGEST_DOC,
    LONGEST_NAME,
    LONGEST_SIGNATURE,
    MODULE,
    SCIP,
    TYPES,
    Facts,
    ScanReport,
    SourceFile,
    Symbol,
    Use,
)
from satchel.code_graph.folders import MOST_FILES, written_out
from satchel.code_graph.languages._grammar import MOST_SYMBOLS, MOST_USES, shown
from satchel.errors import LimitError, MalformedError, PathRefusedError
from satchel.runtime.contained_folder import parts_of
from satchel.runtime.files import OpenFile

_PACKAGE_PARTS = 4
_NAMESPACE, _TYPE, _TERM, _METHOD, _MACRO = "/", "#", ".", "().", "!"
_DEEPEST = 64

_TYPE_KINDS = {11: "enum", 21: "interface", 42: "interface", 49: "struct", 53: "trait"}
_ALIASES = frozenset({54, 55, 59})
_FUNCTIONS = frozenset({17, 25})
"""Numbers of ``SymbolInformation.Kind``."""


class ScipSymbol(NamedTuple):
    """A parsed symbol string."""

    parts: tuple[tuple[str, str], ...]
    """Names, each with its suffix sign."""

    @property
    def name(self) -> str:
        """The last name."""
        return self.parts[-1][0]

    @property
    def qualified(self) -> str:
        """The names without packages and modules, joined by dots."""
        return ".".join(name for name, sign in self.parts if sign != _NAMESPACE)

    @property
    def above(self) -> "ScipSymbol":
        """Its owner."""
        return ScipSymbol(self.parts[:-1])

    def kind(self, code: int) -> str:
        """Return the kind of a symbol; empty for symbols that are not in the graph.

        Args:
            code: ``SymbolInformation.kind``; 0 for none.
        """
        sign = self.parts[-1][1]
        if sign == _TYPE:
            return "type" if code in _ALIASES else _TYPE_KINDS.get(code, "class")
        inside = len(self.parts) > 1 and self.parts[-2][1] == _TYPE
        if sign == _METHOD:
            return "method" if inside else "function"
        return "function" if sign == _MACRO or code in _FUNCTIONS else ""

    @property
    def is_called(self) -> bool:
        """Whether an occurrence is a call."""
        return self.kind(0) in CALLED

    @property
    def is_known(self) -> bool:
        """Whether its string alone shows that it is in the graph."""
        return self.kind(0) in CALLED | TYPES


def parse_symbol(symbol: str) -> ScipSymbol | None:
    """Parse a symbol string; None for a local symbol, or an invalid string."""
    if symbol.startswith("local ") or len(symbol) > _LONGEST:
        return None
    at = 0
    for _ in range(_PACKAGE_PARTS):
        at = _behind_space(symbol, at)
        if at < 0:
            return None
    parts = list[tuple[str, str]]()
    while at < len(symbol) and len(parts) < _DEEPEST:
        part = _part(symbol, at)
        if part is None:
            return None
        name, sign, at = part
        if sign:
            parts.append((name, sign))
    return ScipSymbol(tuple(parts)) if parts and at == len(symbol) else None


_LONGEST = 2000


def _behind_space(symbol: str, at: int) -> int:
    """Return the offset after the next space that is not doubled; -1 if there is none."""
    while True:
        at = symbol.find(" ", at)
        if at < 0 or symbol[at + 1 : at + 2] != " ":
            return at + 1 if at >= 0 else -1
        at += 2


def _part(symbol: str, at: int) -> tuple[str, str, int] | None:
    """Return a name, its sign (empty for parameters), and the offset after both."""
    if symbol[at] in "[(":
        named = _name(symbol, at + 1)
        if named is None or symbol[named[1] : named[1] + 1] not in {"]", ")"}:
            return None
        return named[0], "", named[1] + 1
    named = _name(symbol, at)
    if named is None:
        return None
    name, at = named
    sign = symbol[at : at + 1]
    if sign == "(":
        end = symbol.find(").", at)
        return None if end < 0 else (name, _METHOD, end + 2)
    if sign == ":":
        return name, "", at + 1
    return (name, sign, at + 1) if sign in {_NAMESPACE, _TYPE, _TERM, _MACRO} else None


def _name(symbol: str, at: int) -> tuple[str, int] | None:
    if symbol[at : at + 1] != "`":
        end = at
        while end < len(symbol) and (symbol[end].isalnum() or symbol[end] in "_+-$"):
            end += 1
        return (symbol[at:end], end) if end > at else None
    end = at + 1
    while True:
        end = symbol.find("`", end)
        if end < 0:
            return None
        if symbol[end + 1 : end + 2] != "`":
            return symbol[at + 1 : end].replace("``", "`"), end + 1
        end += 2


_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_FIXED = {_EIGHT: 8, _FOUR: 4}
_LONGEST_VARINT = 10
_BITS, _MORE = 7, 0x80


class WireField(NamedTuple):
    """A field of a message."""

    number: int
    value: int
    """The value of a number."""

    data: memoryview
    """The bytes of a text or a message; empty for a number."""

    is_data: bool


_NOTHING = memoryview(b"")


def fields(data: memoryview) -> Iterator[WireField]:
    """Yield the fields of a message.

    Raises:
        MalformedError: If it is truncated, or not a message.
    """
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield WireField(number, value, _NOTHING, is_data=False)
        elif kind == _BYTES:
            size, at = _varint(data, at)
            yield WireField(number, 0, _wire_part(data, at, size), is_data=True)
            at += size
        else:
            at = _behind(data, at, kind)
        if not number:
            raise MalformedError("not protobuf: a field has the number 0")


def texts(data: memoryview) -> str:
    """Return a text; invalid UTF-8 is replaced."""
    return bytes(data).decode("utf-8", "replace")


def numbers(field: WireField) -> Iterator[int]:
    """Yield the numbers of a repeated field, packed or not."""
    if not field.is_data:
        yield field.value
        return
    at = 0
    while at < len(field.data):
        value, at = _varint(field.data, at)
        yield value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for group in range(_LONGEST_VARINT):
        if at >= len(data):
            raise MalformedError("not protobuf: truncated in a number", byte=at)
        byte = data[at]
        at += 1
        value |= (byte & ~_MORE) << (_BITS * group)
        if not byte & _MORE:
            return value, at
    raise MalformedError("not protobuf: a number is too long", byte=at)


def _wire_part(data: memoryview, at: int, size: int) -> memoryview:
    if size > len(data) - at:
        raise MalformedError("not protobuf: truncated, or a length is wrong", byte=at)
    return data[at : at + size]


def _behind(data: memoryview, at: int, kind: int) -> int:
    size = _FIXED.get(kind)
    if size is None:
        raise MalformedError(f"not protobuf: a field of type {kind}", byte=at)
    _wire_part(data, at, size)
    return at + size


class FilePart(NamedTuple):
    """A field of the outermost message, and the range of its bytes in the file."""

    number: int
    start: int
    size: int


def pieces(stream: BinaryIO, most: int) -> Iterator[FilePart]:
    """Yield the ranges of the fields of a message in a file, without reading their contents.

    Args:
        stream: The file, at its start.
        most: The maximum bytes of a field.

    Raises:
        MalformedError: If it is truncated, or not a message.
        LimitError: If one is larger.
    """
    total = stream.seek(0, 2)
    at = stream.seek(0)
    while at < total:
        tag, at = _streamed(stream, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            _, at = _streamed(stream, at)
            continue
        size = _FIXED.get(kind, 0)
        if kind == _BYTES:
            size, at = _streamed(stream, at)
        elif not size:
            raise MalformedError(f"not protobuf: a field of type {kind}", byte=at)
        if not number or size > total - at:
            raise MalformedError("not protobuf: truncated, or a length is wrong", byte=at)
        if size > most:
            raise LimitError(f"a part has more than {most:,} bytes", byte=at)
        yield FilePart(number, at, size)
        at = stream.seek(at + size)


def _streamed(stream: BinaryIO, at: int) -> tuple[int, int]:
    """Return the number at an offset of a file, and the offset after it."""
    stream.seek(at)
    head = memoryview(stream.read(_LONGEST_VARINT))
    try:
        value, length = _varint(head, 0)
    except MalformedError as error:
        raise MalformedError(error.message, byte=at) from None
    return value, at + length


LARGEST_DOCUMENT = 64 << 20
"""Maximum bytes of a document."""

MOST_OCCURRENCES = 2_000_000
"""Maximum occurrences in a document."""

_METADATA, _DOCUMENTS = 1, 2
_PROJECT_ROOT = 3
_PATH, _OCCURRENCES, _SYMBOLS, _LANGUAGE, _TEXT = 1, 2, 3, 4, 5
_RANGE, _SYMBOL, _ROLES, _ENCLOSING = 1, 2, 3, 7
_NAME, _DOCUMENTATION, _RELATIONSHIPS, _KIND, _DISPLAY, _SIGNATURE = 1, 3, 4, 5, 6, 7
_IS_IMPLEMENTATION = 3
_DEFINITION = 1
_FENCE = "```"
_DIGEST = 16


class _Occurrence(NamedTuple):
    symbol: str
    line: int
    roles: int
    enclosing: tuple[int, int] | None
    """First and last line of the definition."""


class _SymbolInformation(NamedTuple):
    doc: str
    signature: str
    kind: int
    display: str
    implements: tuple[str, ...]


_NO_INFORMATION = _SymbolInformation("", "", 0, "", ())


class ScipIndex:
    """An index file.

    Args:
        file: The open file.

    Raises:
        MalformedError: If it is not a SCIP index.
        LimitError: If it has too many documents, or one that is too large.
    """

    kind = SCIP

    def __init__(self, file: OpenFile) -> None:
        self._stream = file.stream()
        self.root = written_out(file.path.absolute())
        self.seen = ScanReport()
        self.project = ""
        """The name of the indexed folder; empty if unknown."""

        self._documents: list[FilePart] = []
        for piece in pieces(self._stream, LARGEST_DOCUMENT):
            if piece.number == _METADATA:
                self.project = self._project(piece)
            elif piece.number == _DOCUMENTS:
                self._documents.append(piece)
            if len(self._documents) > MOST_FILES:
                raise LimitError(f"more than {MOST_FILES:,} documents", file=self.root)
        if not self._documents:
            raise MalformedError("not a SCIP index: it contains no document", file=self.root)
        self._parts: dict[str, list[FilePart]] = {}

    def offers(self) -> Iterator[SourceFile]:
        """Yield the documents; parts of a document are joined."""
        self._parts, languages = {}, dict[str, str]()
        for piece in self._documents:
            path, language = self._header(self._read(piece))
            try:
                parts_of(path)
            except PathRefusedError as error:
                self.seen.find(ascii(path[:LONGEST_NAME]), error.message)
                continue
            self._parts.setdefault(path, []).append(piece)
            languages.setdefault(path, language)
        for path, some in self._parts.items():
            hashed = blake3()
            for piece in some:
                hashed.update(self._read(piece))
            yield SourceFile(path, languages[path], None, hashed.digest(length=_DIGEST))

    def digest(self, offer: SourceFile) -> bytes:
        """Return the digest of a document."""
        return offer.digest or b""

    def facts(self, offer: SourceFile) -> Facts:
        """Return the facts of a document."""
        occurrences, information = list[_Occurrence](), dict[str, _SymbolInformation]()
        for piece in self._parts[offer.path]:
            for field in fields(memoryview(self._read(piece))):
                if field.number == _OCCURRENCES:
                    occurrences.append(_occurrence(field.data))
                elif field.number == _SYMBOLS:
                    symbol, described = _symbol(field.data)
                    information[symbol] = described
                if len(occurrences) > MOST_OCCURRENCES:
                    raise LimitError(f"more than {MOST_OCCURRENCES:,} places", file=offer.path)
        return _FactsBuilder(occurrences, information).facts(offer.language)

    def _read(self, piece: FilePart) -> bytes:
        self._stream.seek(piece.start)
        data = self._stream.read(piece.size)
        if len(data) != piece.size:
            raise MalformedError("the index was truncated while it was being read", file=self.root)
        return data

    def _header(self, data: bytes) -> tuple[str, str]:
        path = language = ""
        for field in fields(memoryview(data)):
            if field.number == _PATH:
                path = texts(field.data)
            elif field.number == _LANGUAGE:
                language = texts(field.data)[:40].lower()
        return path, language

    def _project(self, piece: FilePart) -> str:
        for field in fields(memoryview(self._read(piece))):
            if field.number == _PROJECT_ROOT:
                try:
                    path = urlsplit(texts(field.data)).path
                except ValueError:
                    return ""
                return PurePosixPath(unquote(path)).name
        return ""


def _occurrence(data: memoryview) -> _Occurrence:
    symbol, roles = "", 0
    spans: dict[int, list[int]] = {_RANGE: [], _ENCLOSING: []}
    for field in fields(data):
        if field.number == _SYMBOL:
            symbol = texts(field.data)
        elif field.number == _ROLES:
            roles = field.value
        elif field.number in spans:
            spans[field.number] += _range_values(field)
    line = spans[_RANGE][0] + 1 if spans[_RANGE] else 1
    around = spans[_ENCLOSING]
    lines = None
    if len(around) in _RANGES:
        last = around[2] if len(around) == max(_RANGES) else around[0]
        lines = (around[0] + 1, last + 1)
    return _Occurrence(symbol, line, roles, lines)


_RANGES = (3, 4)
"""Numbers in a range: line, column, column; or line, column, line, column."""

_LAST_LINE = 1 << 31


def _range_values(field: WireField) -> list[int]:
    values = list[int]()
    for value in numbers(field):
        if len(values) < max(_RANGES):
            values.append(min(value, _LAST_LINE))
    return values


def _symbol(data: memoryview) -> tuple[str, _SymbolInformation]:
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
    return symbol, _SymbolInformation(doc, signature or fenced, kind, display, tuple(implements))


def _implemented(data: memoryview) -> list[str]:
    symbol, is_implementation = "", False
    for field in fields(data):
        if field.number == _NAME:
            symbol = texts(field.data)
        elif field.number == _IS_IMPLEMENTATION:
            is_implementation = bool(field.value)
    return [symbol] if is_implementation else []


def _text_of(data: memoryview) -> str:
    for field in fields(data):
        if field.number == _TEXT:
            return texts(field.data[: 8 * LONGEST_SIGNATURE])
    return ""


def _without_fences(docs: list[str]) -> tuple[str, str]:
    """Return the code in documentation, where tools put signatures, and the other text."""
    signature, prose = "", list[str]()
    for doc in docs:
        if not doc.lstrip().startswith(_FENCE):
            prose.append(doc)
            continue
        code, _, rest = doc.lstrip()[len(_FENCE) :].partition(_FENCE)
        signature = signature or code.partition("\n")[2]
        prose.append(rest)
    return signature, "\n".join(part.strip() for part in prose if part.strip())


class _FactsBuilder:
    """Builds facts of the occurrences and symbols of a document."""

    def __init__(
        self, occurrences: list[_Occurrence], information: dict[str, _SymbolInformation]
    ) -> None:
        self._information = information
        self._occurrences = occurrences
        defined = dict[str, tuple[_Occurrence, ScipSymbol, str]]()
        for occurrence in sorted(occurrences, key=lambda each: (each.line, each.symbol)):
            parsed = parse_symbol(occurrence.symbol) if occurrence.roles & _DEFINITION else None
            if parsed is None or occurrence.symbol in defined or len(defined) >= MOST_SYMBOLS:
                continue
            kind = parsed.kind(information.get(occurrence.symbol, _NO_INFORMATION).kind)
            if kind:
                defined[occurrence.symbol] = (occurrence, parsed, kind)
        self._defined = defined
        self._numbers = {symbol: number for number, symbol in enumerate(defined)}

    def facts(self, language: str) -> Facts:
        symbols = tuple(self._symbols())
        uses = dict[tuple[int, str], list[int]]()
        exact = any(occurrence.enclosing for occurrence, _, _ in self._defined.values())
        around = _EnclosingSymbols(symbols, exact=exact)
        last, finding = 0, ""
        for occurrence in self._occurrences:
            last = max(last, occurrence.line)
            parsed = None if occurrence.roles & _DEFINITION else parse_symbol(occurrence.symbol)
            if parsed is None or not parsed.is_known:
                continue
            key = (around.line(occurrence.line), occurrence.symbol)
            if key in uses:
                uses[key][0] = min(uses[key][0], occurrence.line)
                uses[key][1] += 1
            elif len(uses) < MOST_USES:
                uses[key] = [occurrence.line, 1]
            else:
                finding = "limit per document exceeded"
        return Facts(language, last, symbols, tuple(_uses(uses)), (), finding)

    def _symbols(self) -> Iterator[Symbol]:
        by_parts = {parsed.parts: self._numbers[s] for s, (_, parsed, _) in self._defined.items()}
        times = dict[tuple[str, str], int]()
        for symbol, (occurrence, parsed, kind) in self._defined.items():
            information = self._information.get(symbol, _NO_INFORMATION)
            qualified = parsed.qualified[-4 * LONGEST_NAME :]
            again = times[qualified, kind] = times.get((qualified, kind), 0) + 1
            first, end = occurrence.enclosing or (occurrence.line, occurrence.line)
            bases = [parse_symbol(base) for base in information.implements]
            yield Symbol(
                (information.display or parsed.name)[:LONGEST_NAME],
                qualified,
                kind,
                by_parts.get(parsed.above.parts, MODULE),
                first,
                max(first, end),
                shown(information.signature, LONGEST_SIGNATURE),
                shown(information.doc, LONGEST_DOC, lines=True),
                0,
                tuple(base.qualified[-LONGEST_NAME:] for base in bases if base is not None),
                again,
                symbol,
            )


def _uses(counts: dict[tuple[int, str], list[int]]) -> Iterator[Use]:
    for (owner, symbol), (line, times) in counts.items():
        parsed = parse_symbol(symbol)
        if parsed is not None:
            yield Use(owner, parsed.qualified, line, times, "", parsed.is_called, symbol)


class _EnclosingSymbols:
    """Finds the innermost symbol around a line."""

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
