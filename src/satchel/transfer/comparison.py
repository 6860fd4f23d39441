"""Compare two banks or files: entries that only one has, and entries that differ.

Entries are paired by ID, then by content, then by the ID at their origin, then by their
replacements in a bank. Content is the canonical bytes without ID and nonce, so a copy that was
sealed again is equal. Everything is compared on disk; memory is bounded.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from blake3 import blake3

from satchel.artifact.verification import Outcome
from satchel.bank.connections import configured_store, has_store, store_exists
from satchel.bank.open_bank import find_bank, open_bank, open_bank_in
from satchel.config.options import file_to_read
from satchel.config.settings import Settings
from satchel.crypto.canonical import canonical_checked, fingerprint
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, TokenError, UnknownBankError, UsageError
from satchel.ledger.view import View
from satchel.model.records import AnyRecord, Entry, Model, Status
from satchel.model.values import JsonObject, resolved
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import Filter, slot_of
from satchel.runtime.files import OpenFile
from satchel.runtime.scratch import Scratch
from satchel.transfer.verification import NEVER, VerifyOptions, refusal, verify

Side = Literal["a", "b"]

_SHOWN = 200
_TOGETHER = 1000
_decode = msgspec.json.Decoder(resolved(AnyRecord)).decode
_LINKS = ("parent_ids", "source_event_ids")

_PAIR = """
INSERT INTO pair (a, b, how)
SELECT one.seq, two.seq, :how FROM
  (SELECT seq, {key} AS key, row_number() OVER (PARTITION BY {key} ORDER BY seq) AS turn
   FROM entry WHERE side = 'a' AND {key} IS NOT NULL
   AND seq NOT IN (SELECT a FROM pair)) AS one
JOIN
  (SELECT seq, {key} AS key, row_number() OVER (PARTITION BY {key} ORDER BY seq) AS turn
   FROM entry WHERE side = 'b' AND {key} IS NOT NULL
   AND seq NOT IN (SELECT b FROM pair)) AS two
ON one.key = two.key AND one.turn = two.turn
"""

_FOLLOW = """
INSERT OR IGNORE INTO pair (a, b, how)
WITH RECURSIVE way(first, last) AS (
  SELECT old, new FROM replaced WHERE old IN
    (SELECT id FROM entry WHERE seq NOT IN (SELECT a FROM pair UNION SELECT b FROM pair))
  UNION
  SELECT way.first, replaced.new FROM way JOIN replaced ON replaced.old = way.last
)
SELECT min(one.seq, two.seq), max(one.seq, two.seq), 'replaced' FROM way
JOIN entry AS one ON one.id = way.first JOIN entry AS two ON two.id = way.last
WHERE one.side <> two.side
AND one.seq NOT IN (SELECT a FROM pair UNION SELECT b FROM pair)
AND two.seq NOT IN (SELECT a FROM pair UNION SELECT b FROM pair)
"""


class UnpairedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry that only one side has."""

    id: str
    type: str
    origin: str | None = None
    """Its ID at the origin."""

    text: str | None = None
    """Its first words."""


class ChangedEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A member whose value differs between the sides."""

    a: UnpairedEntry
    b: UnpairedEntry
    fields: list[str]
    """The members that differ."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a comparison."""

    a: str
    b: str
    a_entries: int
    b_entries: int
    same: int
    only_a: int
    only_b: int
    changed: int
    first_only_a: list[UnpairedEntry]
    first_only_b: list[UnpairedEntry]
    first_changed: list[ChangedEntry]
    notes: list[str] = []

    @property
    def is_same(self) -> bool:
        """Whether there is no difference."""
        return not (self.only_a or self.only_b or self.changed)


class EntryMatcher(Scratch):
    """Two sides in a temporary SQLite database, which spills to disk."""

    def __init__(self) -> None:
        self._added = 0
        super().__init__(
            "CREATE TABLE entry(seq INTEGER PRIMARY KEY, side TEXT, id BLOB, print BLOB,"
            " slot BLOB);"
            "CREATE TABLE body(seq INTEGER PRIMARY KEY, body BLOB);"
            "CREATE TABLE pair(a INTEGER UNIQUE, b INTEGER UNIQUE, how TEXT);"
            "CREATE TABLE replaced(old BLOB, new BLOB);",
            cache_kib=24576,
        )

    def add(self, side: Side, records: Iterable[Sealed]) -> int:
        """Add the entries of one side, ``a`` first, and return their number.

        Of other records, only those that name the replacement of an entry are read.
        """
        before = self._added
        for some in _together(self._rows(side, records)):
            self._db.executemany("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", some)
        return self._added - before

    def compare(self, a: str, b: str, *, limit: int) -> Comparison:
        """Pair the entries, and return the differences.

        Args:
            a: Name of the first side.
            b: Name of the second side.
            limit: Maximum number of differences of each kind to list; all are counted.
        """
        self._db.executescript(
            "CREATE INDEX entry_id ON entry(id); CREATE INDEX entry_print ON entry(print);"
            "CREATE INDEX entry_slot ON entry(slot);"
            "CREATE INDEX replaced_old ON replaced(old);"
        )
        for how in ("id", "print", "slot"):
            self._db.execute(_PAIR.format(key=how), {"how": how})
        self._db.execute(_FOLLOW)
        changed, examples = 0, list[ChangedEntry]()
        for first, second in self._pairs():
            fields = self._fields(first, second)
            changed += bool(fields)
            if fields and len(examples) < limit:
                examples.append(ChangedEntry(a=_only(first), b=_only(second), fields=fields))
        count = "SELECT count(*) FROM entry WHERE side = "
        sides = self._scalar(count + "'a'"), self._scalar(count + "'b'")
        paired = self._scalar("SELECT count(*) FROM pair")
        return Comparison(
            a=a,
            b=b,
            a_entries=sides[0],
            b_entries=sides[1],
            same=paired - changed,
            only_a=sides[0] - paired,
            only_b=sides[1] - paired,
            changed=changed,
            first_only_a=list(self._unpaired("a", limit)),
            first_only_b=list(self._unpaired("b", limit)),
            first_changed=examples,
        )

    def _rows(self, side: Side, records: Iterable[Sealed]) -> Iterator[tuple[Any, ...]]:
        for record in records:
            model = _model(record)
            if isinstance(model, Entry):
                slot = slot_of(model)
                thing = None if slot is None else blake3(slot.encode()).digest()
                self._added += 1
                self._db.execute("INSERT INTO body VALUES (?, ?)", [self._added, record.body])
                told = fingerprint(record.id, record.body)
                yield self._added, side, _raw(record.id), told, thing
            elif isinstance(model, Status) and model.state == "superseded" and model.by:
                self._replaced(model, model.by)

    def _replaced(self, status: Status, new: str) -> None:
        self._db.execute("INSERT INTO replaced VALUES (?, ?)", [_raw(status.target), _raw(new)])

    def _pairs(self) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Yield the pairs that may differ."""
        rows = self._db.execute(
            "SELECT first.body, second.body FROM pair"
            " JOIN entry AS one ON one.seq = pair.a JOIN entry AS two ON two.seq = pair.b"
            " JOIN body AS first ON first.seq = pair.a JOIN body AS second ON second.seq = pair.b"
            " WHERE one.print <> two.print ORDER BY pair.a"
        )
        for first, second in rows:
            yield msgspec.json.decode(first), msgspec.json.decode(second)

    def _unpaired(self, side: Side, limit: int) -> Iterator[UnpairedEntry]:
        rows = self._db.execute(
            "SELECT body FROM entry JOIN body USING (seq)"  # noqa: S608 - one of two letters
            f" WHERE side = ? AND seq NOT IN (SELECT {side} FROM pair) ORDER BY seq LIMIT ?",
            [side, limit],
        )
        for (body,) in rows:
            yield _only(msgspec.json.decode(body))

    def _fields(self, first: JsonObject, second: JsonObject) -> list[str]:
        """Return the members that differ; links to the same entry under another ID do not."""
        names = sorted((first.keys() | second.keys()) - {"id", "nonce"})
        return [
            name
            for name in names
            if canonical_checked(first.get(name)) != canonical_checked(second.get(name))
            and not (name in _LINKS and self._have_same_targets(first.get(name), second.get(name)))
        ]

    def _have_same_targets(self, first: list[str] | None, second: list[str] | None) -> bool:
        if first is None or second is None or len(first) != len(second):
            return False
        sql = (
            "SELECT 1 FROM pair JOIN entry AS one ON one.seq = pair.a"
            " JOIN entry AS two ON two.seq = pair.b WHERE one.id = ? AND two.id = ?"
        )
        return all(
            left == right or self._db.execute(sql, [_raw(left), _raw(right)]).fetchone()
            for left, right in zip(first, second, strict=True)
        )

    def _scalar(self, sql: str) -> Any:
        return self._db.execute(sql).fetchone()[0]


def _model(record: Sealed) -> Model:
    """Return the typed value of a record, in one step if no member is null."""
    try:
        return _decode(record.body)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        return record.model


def _together(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    while some := list(islice(rows, _TOGETHER)):
        yield some


def _only(value: JsonObject) -> UnpairedEntry:
    origin = value.get("origin", {}).get("id")
    return UnpairedEntry(id=value["id"], type=value["type"], origin=origin, text=_words(value))


def _words(value: JsonObject) -> str | None:
    for name in ("text", "observation", "name", "description", "persona"):
        text = value.get(name)
        if isinstance(text, str) and text:
            return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    parts = [value.get(name) for name in ("subject", "predicate", "object")]
    found = " ".join(part for part in parts if isinstance(part, str))
    return found[:_SHOWN] or None


def _raw(identity: str) -> bytes:
    return bytes.fromhex(identity.removeprefix("blake3:"))


MOST_SHOWN = 10_000
"""Maximum number of differences of each kind that are listed; all are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """One side, opened."""

    name: str
    records: Iterator[Sealed]
    notes: list[str]


@dataclass(frozen=True, slots=True)
class DiffOptions(Options):
    """What to compare."""

    a: Annotated[str, Option("Bank, or a file in any format.", argument=True, values="bank")]
    b: Annotated[str, Option("Bank or file to compare it with.", argument=True, values="bank")]
    _: KW_ONLY
    a_as_of: Annotated[
        int | None,
        Option("Use bank A as of this many log records.", minimum=0),
    ] = None
    b_as_of: Annotated[
        int | None,
        Option("Use bank B as of this many log records.", minimum=0),
    ] = None
    limit: Annotated[
        int,
        Option(
            "Maximum number of differences of each kind to name; all are counted.",
            minimum=0,
            maximum=MOST_SHOWN,
        ),
    ] = 20


@operation(
    DiffOptions,
    name="diff",
    example="satchel diff assistant memory.pam.jsonl",
    absent={"mcp": "Banks and files are compared by people, not by a model."},
)
def diff(settings: Settings, options: DiffOptions, *, banks_only: bool = False) -> Comparison:
    """Compare the current memories of two banks or files, or of a bank at two times.

    Memories are equal if all of their members except the ID are, including where they came from.
    Exit status: 0 if all are equal, 1 if not.

    Args:
        settings: Settings with the store.
        options: What to compare.
        banks_only: Never interpret a name as that of a file.

    Raises:
        UsageError: If a name could be either.
        UnknownBankError: If it is neither.
        InputError: If a file cannot be read.
        VerificationError: If a bank or a sealed file does not verify.
    """
    notes = []
    sides = (("a", options.a, options.a_as_of), ("b", options.b, options.b_as_of))
    with EntryMatcher() as comparing:
        for letter, text, as_of in sides:
            with _opened(settings, text, as_of, banks_only=banks_only) as side:
                comparing.add("a" if letter == "a" else "b", side.records)
                notes += [f"{side.name}: {note}" for note in side.notes]
        comparison = comparing.compare(options.a, options.b, limit=options.limit)
    if not (comparison.a_entries or comparison.b_entries):
        raise EmptyInputError("neither contains a memory", file=f"{options.a}, {options.b}")
    return msgspec.structs.replace(comparison, notes=notes)


@contextmanager
def _opened(
    settings: Settings, text: str, as_of: int | None, *, banks_only: bool
) -> Iterator[_Side]:
    path = Path(text)
    is_file = not banks_only and _exists(path)
    # A file is read even if the store is missing: a remaining copy may be compared.
    bank = _bank_called(settings, text) if store_exists(settings.store) or not is_file else None
    if bank is not None and is_file:
        raise UsageError(
            f"{text!r} is both a bank and a file",
            hint=f"Write ./{text} for the file, or the bank ID: {bank}",
        )
    if bank is not None:
        with (
            open_bank(settings, bank) as found,
            found.asked("diff").ledger.reading() as view,
        ):
            yield _Side(name=text, records=_current(view, as_of), notes=list(view.notes))
    elif is_file:
        if as_of is not None:
            raise UsageError(f"{text!r} is a file, which has no earlier states", field="as_of")
        with file_to_read(settings, path) as file:
            yield _file_side(settings, file)
    else:
        what = "no bank" if banks_only else "no bank or file named"
        raise UnknownBankError(f"there is {what} {text!r}", hint="See: satchel bank list.")


def _bank_called(settings: Settings, text: str) -> str | None:
    """Return the ID of the bank with a name or ID; None if there is none.

    The holder of a token does not learn whether other banks exist.
    """
    if not has_store(settings):
        return None
    with configured_store(settings, read_only=True, for_holder=True) as store:
        if settings.token is not None:
            try:
                return open_bank_in(settings, store, text).id
            except TokenError as error:
                if error.field != "bank":
                    raise
                return None
        try:
            return find_bank(store, text)
        except UnknownBankError:
            return None


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _current(view: View, as_of: int | None) -> Iterator[Sealed]:
    return (logged.record for logged in view.scan(Filter(as_of=as_of)))


def _file_side(settings: Settings, file: OpenFile) -> _Side:
    location = Location(file.path, held=file)
    reader, notes = formats[formats.recognize(location)], list[str]()
    if reader.info.traits.sealed:
        verdict = verify(file, settings, VerifyOptions(deep=True, remember=False))
        if verdict.outcome in NEVER:
            raise refusal(verdict, location.name)
        if verdict.outcome is not Outcome.GOOD:
            notes.append(f"{verdict.outcome}: {verdict.findings[0].message}")
    reading = ReadContext(limits=settings.options.limits)
    return _Side(name=location.name, records=read_records(reader, location, reading), notes=notes)
