"""A line of an AMA file as an entry, and back.

``world`` is a fact, ``experience`` an episode of interaction, ``observation`` one of reflection
(derived by Astrocyte). Members that Astrocyte does not know are in ``_satchel``.
"""

import base64
from collections.abc import Sequence
from typing import Any, BinaryIO

import msgspec
from blake3 import blake3
from msgspec.structs import replace

from satchel.crypto.canonical import Limits, decode_foreign, encode_foreign, encode_sorted, plain
from satchel.crypto.sealed_records import Sealed, as_model, known_members
from satchel.errors import EmptyInputError, InputError, LimitError, MalformedError
from satchel.formats._json import Decompressor, LineReader, differences, json_object, reproduce
from satchel.formats._own_vectors import minus_zeros, signed
from satchel.model.records import Entry, Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import Entity, Evidence, Origin, TrustClass, is_hex, read_time, resolved
from satchel.ports.vectors import Maker

VERSION = "_ama_version"
"""The member that identifies a header."""

HEADER = (VERSION, "bank_id", "exported_at", "provider", "memory_count")
"""The members of a header that Astrocyte knows."""

MOST_HEADER_TEXT = 1024
"""Largest number of characters of a text in the header, since each memory has a copy."""

Row = dict[str, Any]
"""A line as JSON; values that the domain cannot hold are in their reversible form."""


class AmaHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of an archive."""

    bank_id: str
    exported_at: str
    provider: str
    memory_count: int
    """Number of memories that the file declares."""

    version: int = 1
    extra: dict[str, Any] = {}
    """Members that Astrocyte does not know."""


class AmaArchive:
    """An archive that is read line by line.

    Args:
        stream: The file; read once, never closed.
        name: Its name in errors.
        limits: The limits.

    Raises:
        MalformedError: If the first line is not a header.
        EmptyInputError: If it is empty.
        LimitError: If a limit is exceeded.
    """

    def __init__(self, stream: BinaryIO, name: str, limits: Limits) -> None:
        self._lines = LineReader(Decompressor(stream, limits))
        self._name = name
        self._bound = limits.line_bytes
        self.count = 0
        """Number of lines after the header so far, including bad ones."""

        # One record stores the header.
        first = self._read(min(limits.line_bytes, limits.entry_bytes // 2))
        if first is None:
            raise EmptyInputError("the file is empty", file=name)
        self.header_row = first
        try:
            self.header = _header(first)
        except InputError as error:
            raise error.located(file=name, line=self.line) from None

    @property
    def line(self) -> int:
        """Number of the last line that was read, from 1."""
        return self._lines.number

    def read(self) -> Row | None:
        """Return the next line; None at the end. After an error, the next call continues after it.

        Raises:
            MalformedError: If the line is not a JSON object, or the file is damaged.
            LimitError: If it is too long, or the file expands too far.
        """
        try:
            row = self._read(self._bound)
        except InputError:
            self.count += not self._lines.broken
            raise
        self.count += row is not None
        return row

    def count_problem(self) -> MalformedError | None:
        """Return the problem with the header's count, after all lines were read; None for none."""
        declared, count = self.header.memory_count, self.count
        if declared == count:
            return None
        cause = "cut" if count < declared else "appended to, or two files in one"
        return MalformedError(
            f"the header counts {declared} memories, and the file contains {count}",
            file=self._name,
            line=1,
            field="memory_count",
            hint=f"The file may have been {cause}; to import its memories: --skip-bad.",
        )

    def _read(self, bound: int) -> Row | None:
        try:
            line = self._lines.next(bound)
            return None if line is None else json_object(line, bound)
        except InputError as error:
            error.file, error.line, error.byte = self._name, self.line, None
            raise


def _header(row: Row) -> AmaHeader:
    if VERSION not in row:
        raise MalformedError(f"the first line has no `{VERSION}`", field=VERSION)
    if type(row[VERSION]) is not int or row[VERSION] != 1:
        raise MalformedError("only version 1 of this format is supported", field=VERSION)
    for name in ("bank_id", "exported_at", "provider"):
        if type(row.get(name)) is not str:
            raise MalformedError(f"`{name}` is not text", field=name)
        if len(row[name]) > MOST_HEADER_TEXT:
            problem = f"more than {MOST_HEADER_TEXT} characters in a text of the header"
            raise LimitError(problem, field=name)
    count = row.get("memory_count")
    if type(count) is not int or count < 0:
        raise MalformedError("`memory_count` is not a number of memories", field="memory_count")
    return AmaHeader(
        bank_id=row["bank_id"],
        exported_at=row["exported_at"],
        provider=row["provider"],
        memory_count=count,
        extra={name: part for name, part in decode_foreign(row).items() if name not in HEADER},
    )


NAME = "ama"
"""The format, and the provider in the origin of its entries."""

SATCHEL = "_satchel"
"""The member of a line for data that Astrocyte cannot hold."""

SOURCE = "source"
"""The kind of evidence of the member ``source``: the system that a memory came from."""

WORLD, EXPERIENCE, OBSERVATION = "world", "experience", "observation"
_EVENTS = {EXPERIENCE: "interaction", OBSERVATION: "reflection"}

EMBEDDING = "embedding"
_EMBEDDED_TEXT = "$embedding_of"
"""The mark of the embedding's text. No member of a file has this name: ``$`` is escaped."""

_TIMES = ("occurred_at", "created_at")
_TEXTS = ("fact_type", "source", "bank_id", *_TIMES)
_ZERO_FRACTION = ".000000"
_MOST_WORDS = 4096


def entry_of(row: Row, bank: str, **seal: str | None) -> Entry:
    """Return a memory as an entry, without its ``_satchel``.

    Args:
        row: The line.
        bank: The ``bank_id`` of the header.
        seal: ID and nonce, if it is sealed.

    Raises:
        MalformedError: If a member has the wrong type, naming it.
    """
    fields = _fields_of_row(row, bank)
    members = {name: part for name, part in row.items() if name != SATCHEL}
    as_written = differences(members, _row_of_fields(fields, bank))
    if as_written.get(EMBEDDING) is not None:
        as_written[_EMBEDDED_TEXT] = _mark(fields["text"])
    origin = Origin(
        provider=NAME,
        source=fields["bank_id"],
        id=fields["id"],
        trust=TrustClass.IMPORTED,
        as_written=as_written,
    )
    content: Row = {
        "text": fields["text"],
        "tags": fields["tags"],
        "metadata": fields["metadata"],
        "occurred_at": fields["occurred_at"],
        "created_at": fields["created_at"],
        "entities": fields["entities"],
        "sources": () if fields[SOURCE] is None else (Evidence(kind=SOURCE, id=fields[SOURCE]),),
        "origin": origin,
        **seal,
    }
    event: Any = _EVENTS.get(fields["fact_type"])
    return Semantic(**content) if event is None else Episodic(event_type=event, **content)


def row_of(entry: Entry, identity: str, bank: str) -> Row:
    """Return a memory as a line, as in its source if that was an AMA file.

    Args:
        entry: The memory.
        identity: Its ID, if it did not come from such a file.
        bank: The ``bank_id`` of the header.
    """
    fields = _fields_of_entry(entry, identity)
    written = _row_of_fields(fields, bank)
    origin = entry.origin
    if origin is None or origin.provider != NAME or not origin.as_written:
        return written
    as_written = _as_written_in(origin)
    if has_embedding(entry) and origin.as_written.get(_EMBEDDED_TEXT) != _mark(fields["text"]):
        del as_written[EMBEDDING]  # it is of another or an unknown text
    restored = _restored_fields(written, as_written, bank)
    stale = {name for name, part in fields.items() if part != restored[name]}
    return reproduce(written, {k: v for k, v in as_written.items() if k not in stale})


def _restored_fields(written: Row, as_written: Row, bank: str) -> Row:
    """Return the members of a line with the stored ones; those of the wrong type are removed."""
    while True:
        try:
            return _fields_of_row(reproduce(written, as_written), bank)
        except MalformedError as error:
            del as_written[str(error.field).partition("/")[0]]


def likely_row_of(entry: Entry, bank: str) -> Row | None:
    """Return the likely result of ``row_of`` for an entry from an AMA file: the stored members."""
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return None
    return reproduce(_row_of_fields(_fields_of_entry(entry, ""), bank), _as_written_in(origin))


def _as_written_in(origin: Origin) -> Row:
    return {k: v for k, v in origin.as_written.items() if k not in (SATCHEL, _EMBEDDED_TEXT)}


def without_embedding(entry: Entry) -> Entry:
    """Return an entry without the embedding that an AMA file had for it."""
    return _without_members(entry, EMBEDDING, _EMBEDDED_TEXT)


def without_entities(entry: Entry) -> Entry:
    """Return an entry without entities, including those in the AMA file's own form."""
    return replace(_without_members(entry, "entities"), entities=())


def _without_members(entry: Entry, *names: str) -> Entry:
    origin = entry.origin
    if origin is None or origin.provider != NAME:
        return entry
    as_written = {name: part for name, part in origin.as_written.items() if name not in names}
    return replace(entry, origin=replace(origin, as_written=as_written))


def has_embedding(entry: Entry) -> bool:
    """Return whether an entry has the embedding of its AMA file."""
    origin = entry.origin
    return (
        origin is not None
        and origin.provider == NAME
        and origin.as_written.get(EMBEDDING) is not None
    )


def _mark(text: str) -> str:
    return blake3(text.encode()).hexdigest(length=8)


# -- reading -------------------------------------------------------------------------------


def _fields_of_row(row: Row, bank: str) -> Row:
    """Return the members of a line that an entry can hold, by the line's names."""
    for name in ("id", "text"):
        if type(row.get(name)) is not str:
            problem = "is not text" if name in row else "is missing"
            raise MalformedError(f"`{name}` {problem}", field=name)
    for name in _TEXTS:
        if type(row.get(name)) not in (str, type(None)):
            raise MalformedError(f"`{name}` is not text", field=name)
    _check_embedding(row.get(EMBEDDING))
    fact = row.get("fact_type")
    owner = row.get("bank_id")
    times = {name: row[name] and read_time(row[name]) if row.get(name) else None for name in _TIMES}
    return {
        "id": row["id"] or None,
        "text": row["text"],
        "fact_type": fact if fact in _EVENTS else WORLD,
        "tags": _texts(row.get("tags"), "tags"),
        "metadata": _object(row.get("metadata"), "metadata"),
        **times,
        SOURCE: row.get(SOURCE),
        "bank_id": bank if owner is None else owner,
        "entities": _entities(row.get("entities")),
    }


def _texts(value: Any, field: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if type(value) is not list or not all(type(part) is str for part in value):
        raise MalformedError(f"`{field}` is not a list of texts", field=field)
    return tuple(value)


def _object(value: Any, field: str) -> Row:
    if value is None:
        return {}
    if type(value) is not dict:
        raise MalformedError(f"`{field}` is not an object", field=field)
    return value


def _entities(value: Any) -> tuple[Entity, ...]:
    if value is None:
        return ()
    if type(value) is not list:
        raise MalformedError("`entities` is not a list", field="entities")
    return tuple(_entity(one, f"entities/{index}") for index, one in enumerate(value))


def _entity(value: Any, field: str) -> Entity:
    if type(value) is not dict or type(value.get("name")) is not str:
        raise MalformedError("an entity is not an object with a `name`", field=field)
    sort = value.get("entity_type")
    if type(sort) not in (str, type(None)):
        raise MalformedError("`entity_type` is not text", field=f"{field}/entity_type")
    aliases = _texts(value.get("aliases"), f"{field}/aliases")
    return Entity(name=value["name"], entity_type=sort, aliases=aliases)


def _check_embedding(value: Any) -> None:
    if value is None:
        return
    if type(value) is not list or not all(map(_is_number, value)):
        raise MalformedError("`embedding` is not a list of numbers", field=EMBEDDING)


def _is_number(part: Any) -> bool:
    if type(part) is dict:
        return len(part) == 1 and next(iter(part)) in ("$int", "$float")
    # Strict writers use null for NaN.
    return type(part) is float or type(part) is int or part is None


# -- writing -------------------------------------------------------------------------------


def _fields_of_entry(entry: Entry, identity: str) -> Row:
    """Return the members of an entry that a line can hold, by the line's names."""
    origin = entry.origin
    ours = origin if origin is not None and origin.provider == NAME else None
    return {
        "id": identity if ours is None else ours.id,
        "text": _text_of(entry) if entry.text is None else entry.text,
        "fact_type": _fact(entry),
        "tags": entry.tags,
        "metadata": entry.metadata,
        "occurred_at": entry.occurred_at,
        "created_at": entry.created_at,
        SOURCE: _system(entry.sources),
        "bank_id": None if ours is None else ours.source,
        "entities": entry.entities,
    }


def _row_of_fields(fields: Row, bank: str) -> Row:
    """Return a line as written for an entry of other origin."""
    owner = fields["bank_id"]
    row = {
        "id": fields["id"],
        "text": fields["text"],
        "fact_type": fields["fact_type"],
        "tags": list(fields["tags"]) or None,
        "metadata": fields["metadata"] or None,
        "occurred_at": _iso(fields["occurred_at"]),
        "created_at": _iso(fields["created_at"]),
        SOURCE: fields[SOURCE],
        "bank_id": None if owner == bank else owner,
        "entities": [_entity_row(one) for one in fields["entities"]] or None,
    }
    return {name: part for name, part in row.items() if part is not None}


def _fact(entry: Entry) -> str:
    if not isinstance(entry, Episodic):
        return WORLD
    return OBSERVATION if entry.event_type == _EVENTS[OBSERVATION] else EXPERIENCE


def _system(sources: tuple[Evidence, ...]) -> str | None:
    if len(sources) == 1 and sources[0].kind == SOURCE:
        return sources[0].id
    return None


def _entity_row(entity: Entity) -> Row:
    """Return an entity with its three members, if known."""
    if entity.entity_type is None:
        return {"name": entity.name, "aliases": [*entity.aliases]}
    return {
        "name": entity.name,
        "entity_type": entity.entity_type,
        "aliases": [*entity.aliases],
    }


def _iso(text: str | None) -> str | None:
    """Return a time in the form of the format's example: without a zero fraction."""
    return None if text is None else text.replace(_ZERO_FRACTION, "")


def _text_of(entry: Entry) -> str:
    """Return a text for an entry without one, since a line must have one."""
    texts = [_joined(entry, " ", "subject", "predicate", "object")]
    texts.append(_joined(entry, "\n", "observation", "name", "description", "body"))
    if any(texts):
        return "\n".join(filter(None, texts))
    value = entry.data
    if value is None:
        value = {name: getattr(entry, name) for name in entry.__struct_fields__[_COMMON_FIELDS:]}
        value = {name: part for name, part in value.items() if part}
    return encode_sorted(value).decode()[:_MOST_WORDS]


def _joined(entry: Entry, by: str, *names: str) -> str:
    parts = [getattr(entry, name, None) for name in names]
    return by.join(part for part in parts if part)


_COMMON_FIELDS = len(Entry.__struct_fields__)


_ENTRY, _NONCE = "entry", "nonce"
_VECTOR_OF, _MINUS_ZEROS = "vector_of", "minus_zeros"
_VECTOR_MEMBERS = frozenset({_VECTOR_OF, _MINUS_ZEROS})
_DIGITS = 32
_DOLLAR = b'"$'
"""Only a line with this can contain a reversible form."""

_decode = msgspec.json.Decoder(
    resolved(Episodic | Identity | Procedural | Semantic | Working)
).decode
_SEAL_MEMBERS = frozenset({"id", "nonce"})


def exact_line_of(record: Sealed, bank: str) -> Row | None:
    """Return the result of ``line_of`` quickly, if the line alone determines the record.

    That is true of unchanged memories from an archive.
    """
    if _DOLLAR in record.body:
        return None
    entry = _decode(record.body)
    row = likely_row_of(entry, bank)
    if row is None:
        return None
    try:
        again = entry_of(row, bank, id=record.id, nonce=entry.nonce)
    except MalformedError:
        return None
    return row if encode_sorted(again) == record.body else None


def line_of(record: Sealed, entry: Entry, bank: str, *, nonce: bool, bare: bool = False) -> Row:
    """Return a line as JSON that every reader accepts.

    Args:
        record: The memory, for its ID and nonce.
        entry: Its contents, without omitted members.
        bank: The ``bank_id`` of the header.
        nonce: Whether to preserve the ID even if the line alone determines the record.
        bare: Whether to leave the embedding free for one of the bank's own.
    """
    row = row_of(without_embedding(entry) if bare else entry, record.id, bank)
    has_foreign = _DOLLAR in record.body
    line = holdable(decode_foreign(row)) if has_foreign else row
    base = entry_of(encode_foreign(line) if has_foreign else line, bank)
    rest = differences(plain(entry), plain(base))
    rest = {name: part for name, part in rest.items() if name not in _SEAL_MEMBERS}
    if rest or nonce:
        line = {**line, SATCHEL: {_ENTRY: rest}}
        if (own := record.value.get(_NONCE)) is not None:  # redaction makes it another record
            line[SATCHEL][_NONCE] = own
    return line


def with_vector(line: Row, mark: str, vector: Sequence[float]) -> Row:
    """Return a line with a vector of the bank, of the text with this mark."""
    ours = {**line.get(SATCHEL, {}), _VECTOR_OF: mark}
    zeros = minus_zeros(vector)
    ours |= {_MINUS_ZEROS: zeros} if zeros else {}
    return {**line, EMBEDDING: vector, SATCHEL: ours}


def holdable(value: Any) -> Any:
    """Return a value with null for numbers without JSON, and base64 for bytes."""
    kind = type(value)
    if kind is dict:
        return {key: holdable(part) for key, part in value.items()}
    if kind is list:
        return [holdable(part) for part in value]
    if kind is bytes:
        return base64.b64encode(value).decode()
    if kind is float and (value != value or value in (float("inf"), float("-inf"))):  # noqa: PLR0124
        return None
    return value


class Members:
    """Reads ``_satchel`` in the lines of a file.

    Args:
        bank: The ``bank_id`` of the header.
        own: Whether the header names the maker of a bank's vectors in the file.
    """

    def __init__(self, bank: str, *, own: bool = False) -> None:
        self.unbelieved = 0
        """Number of ``_satchel`` members that contradicted their line."""

        self.vector: tuple[str, Any] | None = None
        """The bank's vector in the last line, with the mark of its text."""

        self._own = own

        self._bank = bank
        self._nonces: set[int] = set()

    def entry_of(self, row: Row) -> Entry:
        """Return a line as an entry, a draft that may have a nonce.

        Raises:
            MalformedError: As ``entry_of``.
        """
        self.vector = None
        if self._own and SATCHEL in row:
            row = self._without_vector(row)
        entry = entry_of(row, self._bank)
        if SATCHEL not in row:
            return entry
        whole = self._whole(row, entry)
        if whole is None:
            self.unbelieved += 1
            return entry
        return whole

    def _without_vector(self, row: Row) -> Row:
        """Return a line without the bank's vector, which is not part of the memory."""
        ours = row[SATCHEL]
        if type(ours) is not dict or type(ours.get(_VECTOR_OF)) is not str:
            return row
        self.vector = ours[_VECTOR_OF], signed(row.get(EMBEDDING), ours.get(_MINUS_ZEROS))
        rest = {name: part for name, part in ours.items() if name not in _VECTOR_MEMBERS}
        line = {name: part for name, part in row.items() if name not in (EMBEDDING, SATCHEL)}
        return {**line, SATCHEL: rest} if rest else line

    def _whole(self, row: Row, entry: Entry) -> Entry | None:
        """Return the entry of a line and its ``_satchel``; None if they contradict each other."""
        ours = row[SATCHEL]
        try:
            ours = decode_foreign(ours)
            nonce, members = ours.get(_NONCE), ours[_ENTRY]
            value = reproduce(plain(entry), members)
            whole = as_model(value)
            fits = _is_entry(value) and isinstance(whole, Entry) and self._fits(whole, row)
        except (InputError, KeyError, AttributeError, TypeError, ValueError):
            return None
        if fits and nonce is None:
            return whole  # type: ignore[return-value]
        if not fits or not _is_nonce(nonce):
            return None
        # A second entry with the nonce of the first could have its ID, so it gets another nonce.
        mark = int(nonce[:15], 16)
        fresh = mark not in self._nonces
        self._nonces.add(mark)
        return as_model({**value, _NONCE: nonce}) if fresh else whole  # type: ignore[return-value]

    def _fits(self, entry: Entry, row: Row) -> bool:
        """Return whether a line is the one that is written for an entry."""
        if self._own and EMBEDDING not in row:
            entry = without_embedding(entry)  # it was replaced by one of the bank's own
        again = encode_foreign(holdable(decode_foreign(row_of(entry, row["id"], self._bank))))
        return not differences({k: v for k, v in row.items() if k != SATCHEL}, again)


def _is_entry(value: Row) -> bool:
    return value.keys() <= known_members(value["type"]) - _SEAL_MEMBERS


def _is_nonce(nonce: Any) -> bool:
    return type(nonce) is str and len(nonce) == _DIGITS and is_hex(nonce)


MODEL = "embedding_model"
"""Member of the header's ``_satchel``: the model of all embeddings, by any writer."""

_VECTORS, _MODEL_BEFORE = "vectors", "model_before"


def maker_in(extra: dict[str, Any]) -> Maker | None:
    """Return the maker of the bank's vectors in a file, if its header names it."""
    ours = extra.get(SATCHEL)
    try:
        return msgspec.convert(ours[_VECTORS], resolved(Maker)) if isinstance(ours, dict) else None
    except (KeyError, msgspec.ValidationError):
        return None


def header_member(member: Any, maker: Maker | None) -> Any:
    """Return ``_satchel`` for a new header.

    Args:
        member: The one in the source archive; None for none.
        maker: The maker of the bank's vectors, if these are included.
    """
    if not isinstance(member, dict):
        member = {} if member is None or maker is not None else member
    if not isinstance(member, dict):
        return member
    ours = {name: part for name, part in member.items() if name != _VECTORS}
    vectors = member.get(_VECTORS)
    if isinstance(vectors, dict):  # it described the vectors of another file
        ours.pop(MODEL, None)
        if _MODEL_BEFORE in vectors:
            ours[MODEL] = vectors[_MODEL_BEFORE]
    if maker is None:
        return ours
    before = {_MODEL_BEFORE: ours[MODEL]} if MODEL in ours else {}
    return {**ours, MODEL: maker.model, _VECTORS: {**msgspec.to_builtins(maker), **before}}
