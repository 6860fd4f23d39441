"""The log of a bank, entry by entry, each with what proves it."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from satchel.bank.memory import gist_of, notes_of, state_of
from satchel.bank.open_bank import OpenBank
from satchel.bank.owner_rights import require_owner
from satchel.crypto.keys import PayloadType, SignatureCheck, check, parse_signatures, signed_part
from satchel.crypto.sealed_records import Sealed
from satchel.errors import MalformedError
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Entry
from satchel.model.values import now
from satchel.ports.operations import Option, Options, operation
from satchel.ports.rows import PENDING, Row

MOST = 1000
"""Entries of one page at most."""

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
    limit: Annotated[int, Option("Maximum number of entries.", minimum=1, maximum=MOST)] = 50
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
    """Of a memory as in listings; ``erased`` where the content is gone, ``pending`` for an import
    that is not complete, ``quarantined``."""

    text: str | None = None
    """What it says, in short."""

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
    """What ``after`` has to be for the next page; None when this is the last."""

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
        places = _places(options, size)
        rows = view.rows(places)
        there = {logged.seq: logged for logged in view.at(places)}
        proofs = view.proofs([row.id for row in rows])
        entries = [
            _entry(view, row, there.get(row.seq), proofs[row.id].path, moment) for row in rows
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


def _places(options: LogOptions, size: int) -> range:
    """Return the positions of a page, in the order of the log."""
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
    bad = [found for found in checks if not found.valid]
    return LogEntry(
        position=row.seq,
        id=row.id,
        type=row.type,
        at=row.at,
        state=state,
        text=text,
        signers=[found.key for found in checks if found.valid],
        verified=not bad,
        problem=f"signature of {bad[0].key}: {bad[0].problem}" if bad else None,
        proof=proof,
    )


def _signatures(record: Sealed) -> list[SignatureCheck]:
    """Check the signatures that a record has of its own."""
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
