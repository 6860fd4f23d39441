"""What an erasure record empties, and what it may not.

Memory may be erased once it is no longer current, or where its bytes no longer hold. What the log
says of itself and of its records stays: without it nobody could tell what is current, or who may
sign. An erasure of what the bank does not have is a tombstone that came from elsewhere, such as
that of a parent; no record with that id is taken any more. Source: docs/spec/7, 7.3.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from satchel.errors import ErasureRefusedError
from satchel.ledger.appending.waiting import Logging
from satchel.ledger.examining import opened_body
from satchel.ledger.folding import Fold
from satchel.ledger.heads import require_leaves
from satchel.memory.parts import Component
from satchel.memory.records import Erasure
from satchel.ports.rows import PENDING, Row
from satchel.ports.store import Reader, Writer
from satchel.ports.vectors import sketches_of
from satchel.seal.proved_tree import ProvedTree

ERASABLE = frozenset({*Component, "edge", "graph_node", "session_event", "file_version"})
"""The types of the records that are memory; others speak of the bank or of records."""

UNFINISHED = "erasing"
"""Name of the side value that stands while the store may still keep bytes that were erased."""

BLOB = f"{UNFINISHED}/"
"""Start of the names of blobs that an erased record named, until they were looked at."""

FINGERPRINTS = "known/"
"""Start of the names of what an import leaves to be recognised by. Hashes without a nonce: whoever
has them can guess what was erased. They are made again of what is left."""

SEALED = "redacted/"
"""Start of the names of originals of redacted entries, sealed for those who may recover them."""

DERIVED = "derived/"
"""Start of the names of what was computed of memories' words, which tells some of them. It is made
again of what is left."""

_DIGEST = re.compile(rb"blake3:[0-9a-f]{64}")


class Emptied(NamedTuple):
    """What a commit with erasures empties."""

    places: list[int]
    side: dict[str, bytes | None]
    """What is left to do afterwards; see ``finishing``."""


def emptied_by(
    writing: Writer,
    bank: str,
    tree: ProvedTree | None,
    fold: Fold,
    records: Sequence[Logging],
) -> Emptied:
    """Return what erasure records empty, after whatever else is logged with them.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree under what is there; None for a bank that is just founded.
        fold: What the log says with the new records in it.
        records: The new records and their values; those of other types are passed over.

    Raises:
        ErasureRefusedError: If one is not of memory, or is current; or if a new record was erased
            before.
    """
    if fold.has_erasures:
        _require_unerased(fold, records)
    wanted = {one.model.entry: None for one in records if isinstance(one.model, Erasure)}
    if not wanted:
        return Emptied([], {})
    if found := wanted.keys() & {one.row.id for one in records}:
        raise ErasureRefusedError(
            "a record cannot be erased while it is being logged", field=found.pop()
        )
    rows = [] if tree is None else writing.get(bank, list(wanted))
    if tree is not None:
        require_leaves(tree, bank, rows)
    for row in rows:
        _require_erasable(fold, row)
    if not rows:
        return Emptied([], {})
    return Emptied(sorted(row.seq for row in rows), left_to_do(writing, bank, rows))


def left_to_do(reader: Reader, bank: str, rows: Sequence[Row]) -> dict[str, bytes | None]:
    """Return the side values that go with emptying rows, in the same commit.

    They say what ``finishing`` has to do, and take away what could tell the records again.
    """
    side: dict[str, bytes | None] = {UNFINISHED: b""}
    side |= {f"{FINGERPRINTS}{row.batch}": None for row in rows if row.batch}
    side |= {f"{SEALED}{row.seq}": None for row in rows}
    for sketched in {sketches_of(row.seq) for row in rows}:
        side |= dict.fromkeys(reader.side(bank, sketched), None)
    side |= dict.fromkeys(reader.side(bank, DERIVED))
    if next(iter(reader.blobs.listed(bank)), None) is not None:
        named = set[str]().union(*(blobs_named(row.body or b"") for row in rows))
        side |= {BLOB + digest: b"" for digest in named if reader.blobs.has(bank, digest)}
    return side


def _require_unerased(fold: Fold, records: Sequence[Logging]) -> None:
    before = fold.size - len(records)
    for one in records:
        if fold.is_erased(one.row.id, before):
            raise ErasureRefusedError(
                "the record was erased, so it cannot be added again", field=one.row.id
            )


def blobs_named(body: bytes) -> set[str]:
    """Return what in the bytes of a record may be the digest of a blob."""
    return {found.decode() for found in _DIGEST.findall(body)}


def _require_erasable(fold: Fold, row: Row) -> None:
    if (
        opened_body(row, fold.redacted(row.id, fold.size)) is None
    ):  # damaged or empty, so that nothing is lost by saying so
        return
    if row.type not in ERASABLE:
        raise ErasureRefusedError(
            f"a record of type {row.type} is not a memory: the log could not be read without it",
            field=row.id,
        )
    retired, _ = fold.standing(row.id, row.seq, fold.size)
    if retired is None or retired == PENDING:
        raise ErasureRefusedError(
            "the record is current",
            field=row.id,
            hint="Only superseded or deleted records can be erased. Delete it first.",
        )
