"""Paged listings of a bank: its memories, and the entries of its log with their proofs."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Annotated, overload

import msgspec

from satchel.bank.machine_keys import require_owner
from satchel.bank.memory import (
    Memory,
    gist_of,
    has_expired,
    key_of,
    memory_of,
    moment_of,
    notes_of,
    state_of,
    with_retracted,
)
from satchel.bank.open_bank import OpenBank
from satchel.crypto.canonical import canonical
from satchel.crypto.keys import PayloadType, SignatureCheck, check, parse_signatures, signed_part
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError, UsageError, ValueRefusedError
from satchel.ledger.projection import Likely, VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import Component, now, parse_moment
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import PENDING, Filter, Row

MOST = 10_000
"""Maximum memories of a page."""

ADDED, CREATED = "added", "created"

_FIRST_STRETCH = 256
_GROWTH = 8

Progress = Callable[[int, int], None]
"""Called with the number of log positions read, and the number of all."""


class ListRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Which memories to list; an absent member does not restrict them."""

    types: Sequence[str] = ()
    tags: Sequence[str] = ()
    """Tags that a memory must have, all of them."""

    kind: str | None = None
    key: str | None = None
    user: str | None = None
    agent: str | None = None
    run: str | None = None
    app: str | None = None
    since: object = None
    """First moment, inclusive: when it happened, else was created. As for ``parse_moment``."""

    until: object = None
    """Last moment, exclusive."""

    as_of: int | None = None
    """The bank as of this many log records."""

    everything: bool = False
    """Include memories that are replaced, forgotten, expired or quarantined."""

    sort: str = ADDED
    """``added``: log order; ``created``: when it happened, else when it was created."""

    oldest_first: bool = False
    """Default: newest first."""

    after: int | None = None
    """Continue after this log position, in the order of the listing."""

    limit: int = 50


class Listing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One page of memories."""

    memories: list[Memory]
    next: int | None = None
    """Value of ``after`` for the next page; None on the last page."""

    size: int
    """Records in the log."""

    notes: list[str] = []
    """Losses of the bank that were accepted, and whether it is untrusted."""

    def __iter__(self) -> Iterator[Memory]:
        return iter(self.memories)

    def __len__(self) -> int:
        return len(self.memories)

    @overload
    def __getitem__(self, index: int) -> Memory: ...

    @overload
    def __getitem__(self, index: slice) -> list[Memory]: ...

    def __getitem__(self, index: int | slice) -> Memory | list[Memory]:
        return self.memories[index]

    def __repr__(self) -> str:
        more = "" if self.next is None else f", next={self.next}"
        return f"Listing(memories={self.memories!r}{more})"


def list_memories(
    bank: OpenBank, request: ListRequest, *, progress: Progress | None = None
) -> Listing:
    """Return a page of memories, each verified to be in the log.

    Args:
        bank: The bank.
        request: Which memories.
        progress: Called as the log is read.

    Raises:
        UsageError: If a time or a type is not valid, or a number is out of range.
    """
    bank = bank.asked("list")
    _filter(request)  # refuse invalid requests before reading
    with bank.ledger.reading() as view:
        size, moment, notes = _size(view, request), moment_of(view, request.as_of), notes_of(view)
        chosen = choose_memories(view, request, progress=progress)
        memories = [
            memory_of(view, logged, moment=moment, as_of=request.as_of)
            for logged in chosen[: request.limit]
        ]
        memories = with_retracted(view, memories)
    has_more = len(chosen) > request.limit
    next_position = memories[-1].position if has_more else None
    return Listing(memories=memories, next=next_position, size=size, notes=notes)


def choose_memories(
    view: View, request: ListRequest, *, progress: Progress | None = None
) -> list[VerifiedRecord]:
    """Return the records of a page of memories, plus one if there is another page.

    Raises:
        UsageError: As for ``list_memories``.
    """
    columns = _filter(request)
    choice = _Choice(request, moment_of(view, request.as_of))
    if request.sort == CREATED:
        return _by_moment(view, request, columns, choice)
    read = _forwards if request.oldest_first else _backwards
    return read(view, columns, choice, request.limit + 1, _size(view, request), progress)


def _size(view: View, request: ListRequest) -> int:
    return view.head.size if request.as_of is None else min(request.as_of, view.head.size)


class _Choice:
    """The part of a request that a store cannot evaluate."""

    def __init__(self, request: ListRequest, moment: str) -> None:
        self.after = request.after
        self._wanted = request
        self._moment = moment
        texts = [*request.tags, *([request.key] if request.key is not None else [])]
        self._texts = [_canonical_text(text) for text in texts]

    @property
    def likely(self) -> Likely | None:
        """A test of the bytes of a record that rules most others out; None if there is none."""
        texts = self._texts
        return (lambda body: all(text in body for text in texts)) if texts else None

    def takes(self, logged: VerifiedRecord) -> bool:
        request, entry = self._wanted, logged.model
        if not isinstance(entry, Entry):
            return False
        if request.key is not None and key_of(entry) != request.key:
            return False
        if not set(request.tags) <= set(entry.tags):
            return False
        return request.everything or not has_expired(logged, self._moment)


def _canonical_text(text: str) -> bytes:
    """Return the bytes of a text in a canonical record."""
    try:
        return canonical(text)
    except ValueRefusedError:  # a lone surrogate, which no record can contain
        return b"\0"


def _filter(request: ListRequest) -> Filter:
    for type_ in request.types:
        if type_ not in set(Component):
            raise UsageError(f"the type must be one of {', '.join(Component)}", field="type")
    if not 1 <= request.limit <= MOST:
        raise UsageError(f"the limit must be 1 to {MOST:,} memories", field="limit")
    if request.as_of is not None and request.as_of < 0:
        raise UsageError("the number of records must not be negative", field="as_of")
    return Filter(
        types=frozenset(request.types or Component),
        kinds=None if request.kind is None else frozenset({request.kind}),
        user=request.user,
        agent=request.agent,
        run=request.run,
        app=request.app,
        since=None if request.since is None else parse_moment(request.since, "since"),
        until=None if request.until is None else parse_moment(request.until, "until"),
        as_of=request.as_of,
        retired=request.everything,
        held=request.everything,
    )


def _forwards(
    view: View,
    columns: Filter,
    choice: _Choice,
    limit: int,
    size: int,
    progress: Progress | None,
) -> list[VerifiedRecord]:
    after = -1 if choice.after is None else choice.after

    def read() -> Iterator[VerifiedRecord]:
        for logged in view.scan(columns, after=after, likely=choice.likely):
            if progress is not None:
                progress(logged.seq, size)
            yield logged

    return list(islice(filter(choice.takes, read()), limit))


def _by_moment(
    view: View, request: ListRequest, columns: Filter, choice: _Choice
) -> list[VerifiedRecord]:
    records = view.by_moment(
        columns, oldest_first=request.oldest_first, after=request.after, likely=choice.likely
    )
    return list(islice(filter(choice.takes, records), request.limit + 1))


def _newest(
    view: View, columns: Filter, choice: _Choice, limit: int, progress: Progress | None
) -> list[VerifiedRecord]:
    """Read from the end of the log: nothing older than the page is read or verified."""
    size = view.head.size

    def read() -> Iterator[VerifiedRecord]:
        for logged in view.newest(columns, likely=choice.likely):
            if progress is not None:
                progress(size - logged.seq, size)
            yield logged

    return list(islice(filter(choice.takes, read()), limit))


def _backwards(
    view: View,
    columns: Filter,
    choice: _Choice,
    limit: int,
    size: int,
    progress: Progress | None,
) -> list[VerifiedRecord]:
    """Read stretches from the end of the log, each longer than the last, until there are enough."""
    if choice.after is None and columns.as_of is None:
        return _newest(view, columns, choice, limit, progress)
    end = size if choice.after is None else max(0, min(choice.after, size))
    page, stretch, before = list[VerifiedRecord](), max(_FIRST_STRETCH, 2 * limit), end
    while before > 0 and len(page) < limit:
        start = max(0, before - stretch)
        rows = view.scan(columns, after=start - 1, likely=choice.likely)
        newest = deque[VerifiedRecord](maxlen=limit - len(page))
        for logged in takewhile(lambda each, end=before: each.seq < end, rows):  # type: ignore[misc]
            if progress is not None:
                progress(end - start, end)
            if choice.takes(logged):
                newest.append(logged)
        page += reversed(newest)
        before, stretch = start, stretch * _GROWTH
    return page


MOST_ENTRIES = 1000
"""Maximum entries of a page of the log."""

_LONGEST = 300
_MOST_SIGNATURES = 100
_SIGNED = {
    "config": PayloadType.CONFIG,
    "erasure": PayloadType.ERASURE,
    "receipt": PayloadType.RECEIPT,
    "redaction": PayloadType.REDACTION,
}
_SUMMARIES = ("text", "name", "action", "state", "event", "provider", "kind", "path")
ERASED = "erased"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions(Options):
    """Which part of the log to list."""

    oldest_first: Annotated[bool, Option("Oldest first. Default: newest first.")] = False
    limit: Annotated[int, Option("Maximum number of entries.", minimum=1, maximum=MOST_ENTRIES)] = (
        50
    )
    after: Annotated[
        int | None,
        Option("Continue after this position, from the previous page.", minimum=0),
    ] = None


class LogEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of a log."""

    position: int
    id: str
    type: str
    at: str
    """When it was added."""

    state: str
    """For a memory as in listings; ``quarantined``; ``erased`` if the content is gone; ``pending``
    for an incomplete import."""

    text: str | None = None
    """Its content, shortened."""

    signers: list[str] = []
    """Keys whose own signatures of the record verify; the head's signature covers every entry."""

    verified: bool
    """Whether its hash, its position under the signed root and its own signatures verify."""

    problem: str | None = None
    """Which signature does not verify."""

    proof: list[str]
    """The sibling hashes from its leaf to the root."""


class LogPage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A page of a log, and the signed head that it is verified against."""

    entries: list[LogEntry]
    next: int | None = None
    """Value of ``after`` for the next page; None on the last page."""

    size: int
    """Entries of the log."""

    root: str
    epoch: int
    signed_at: str
    key: str
    """Key that signed the head."""

    notes: list[str] = []


@operation(
    LogOptions,
    name="bank log",
    example="satchel bank log --limit 20",
    absent={"mcp": "Auditing a bank is for people, not for a model."},
)
def log(bank: OpenBank, options: LogOptions) -> LogPage:
    """List the entries of a bank's log, newest first. Each is verified, with its proof.

    The log holds everything that was ever done to the bank: memories, changes, imports, sessions,
    receipts and decisions of the owner. What has been erased keeps its position and its proof.
    """
    require_owner(bank.settings, "log")
    with bank.ledger.reading() as view:
        size, moment = view.head.size, now()
        positions = _positions(options, size)
        rows = view.rows(positions)
        records = {logged.seq: logged for logged in view.at(positions)}
        proofs = view.proofs([row.id for row in rows])
        entries = [
            _entry(view, row, records.get(row.seq), proofs[row.id].path, moment) for row in rows
        ]
        if not options.oldest_first:
            entries.reverse()
        end = size - 1 if options.oldest_first else 0
        return LogPage(
            entries=entries,
            next=entries[-1].position if entries and entries[-1].position != end else None,
            size=size,
            root=view.head.root,
            epoch=view.head.epoch,
            signed_at=view.head.at,
            key=view.head.key,
            notes=notes_of(view),
        )


def _positions(options: LogOptions, size: int) -> range:
    """Return the positions of a page, in log order."""
    if options.oldest_first:
        first = min(size, 0 if options.after is None else options.after + 1)
        return range(first, min(size, first + options.limit))
    end = size if options.after is None else min(size, options.after)
    return range(max(0, end - options.limit), end)


def _entry(
    view: View, row: Row, logged: VerifiedRecord | None, proof: list[str], moment: str
) -> LogEntry:
    if logged is None:
        state, text, checks = ("pending" if row.retired == PENDING else ERASED), None, []
    else:
        state = "quarantined" if row.hold else state_of(view, logged, moment=moment)
        text, checks = _summary(logged), _signatures(logged.record)
    invalid = [each for each in checks if not each.valid]
    return LogEntry(
        position=row.seq,
        id=row.id,
        type=row.type,
        at=row.at,
        state=state,
        text=text,
        signers=[each.key for each in checks if each.valid],
        verified=not invalid,
        problem=f"signature of {invalid[0].key}: {invalid[0].problem}" if invalid else None,
        proof=proof,
    )


def _signatures(record: Sealed) -> list[SignatureCheck]:
    """Verify the signatures in a record itself."""
    kind = _SIGNED.get(record.type)
    if kind is None or not record.value.get("signatures"):
        return []
    try:
        signatures = parse_signatures(record.value["signatures"], _MOST_SIGNATURES)
    except MalformedError as error:
        return [SignatureCheck(key="?", valid=False, problem=error.message)]
    return check(kind, signed_part(record.value), signatures)


def _summary(logged: VerifiedRecord) -> str | None:
    value = logged.record.value
    if isinstance(logged.model, Entry):
        return gist_of({name: value[name] for name in value if name not in _TECHNICAL})[:_LONGEST]
    words = (value[name] for name in _SUMMARIES if isinstance(value.get(name), str) and value[name])
    text = next(words, None)
    return None if text is None else text[:_LONGEST]


_TECHNICAL = frozenset({"id", "nonce", "type", "created_at", "updated_at", "parent_ids"})
