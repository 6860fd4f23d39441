"""What an erasure or redaction record removes, and what it may not remove.

Memory can be erased once it is no longer current, or if its bytes are damaged. Records about the
log and about other records stay: they define what is current and who may sign. Erasing a record
that the bank does not have adds a tombstone from elsewhere, such as that of a parent; a record with
that ID is then refused. Source: docs/spec/7, 7.3.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from satchel.crypto.log import VerifiedTree
from satchel.crypto.redaction import open_redacted_form, require_form_of
from satchel.crypto.sealed_records import digest
from satchel.errors import ErasureRefusedError, MalformedError, RedactionRefusedError
from satchel.ledger.examination import open_body
from satchel.ledger.heads import require_leaves
from satchel.ledger.projection import Fold
from satchel.ledger.transaction import PendingRecord
from satchel.model.records import Erasure, Model, Redaction
from satchel.model.values import Component
from satchel.ports.rows import PENDING, Filter, Row, derive_row
from satchel.ports.store import Reader, Store, Writer
from satchel.ports.vectors import sketch_prefix

ERASABLE = frozenset({*Component, "edge", "graph_node", "session_event", "file_version"})
"""Types of memory records; other types are about the bank or about records."""

UNFINISHED = "erasing"
"""Name of the side value that exists while the store may still contain erased bytes."""

BLOB = f"{UNFINISHED}/"
"""Prefix of the names of blobs that an erased record named, until they are checked."""

FINGERPRINTS = "known/"
"""Prefix of the names of the fingerprints of imported records. They are hashes without a nonce,
from which erased text could be guessed, so they are computed again without it.
"""

SEALED = "redacted/"
"""Prefix of the names of originals of redacted entries, sealed for those who may recover them."""

DERIVED = "derived/"
"""Prefix of the names of values computed from the words of memories, which reveal some of them.
They are computed again from what is left.
"""

_DIGEST = re.compile(rb"blake3:[0-9a-f]{64}")


class ErasureEffect(NamedTuple):
    """The removals of a commit with erasures."""

    places: list[int]
    side: dict[str, bytes | None]
    """The work that is left after the commit; see ``finish_erasure``."""


def erasure_effect(
    writing: Writer,
    bank: str,
    tree: VerifiedTree | None,
    fold: Fold,
    records: Sequence[PendingRecord],
) -> ErasureEffect:
    """Return what erasure records remove, after all other records of the commit.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree of the log; None for a new bank.
        fold: The state of the log with the new records.
        records: The new records and their values; other types are skipped.

    Raises:
        ErasureRefusedError: If a record is not memory or is current, or if a new record was erased
            before.
    """
    if fold.has_erasures:
        _require_unerased(fold, records)
    targets = {record.model.entry: None for record in records if isinstance(record.model, Erasure)}
    if not targets:
        return ErasureEffect([], {})
    if logged_now := targets.keys() & {record.row.id for record in records}:
        raise ErasureRefusedError(
            "a record cannot be erased while it is being logged", field=logged_now.pop()
        )
    rows = [] if tree is None else writing.get(bank, list(targets))
    if tree is not None:
        require_leaves(tree, bank, rows)
    for row in rows:
        _require_erasable(fold, row)
    if not rows:
        return ErasureEffect([], {})
    return ErasureEffect(sorted(row.seq for row in rows), cleanup_values(writing, bank, rows))


def cleanup_values(reader: Reader, bank: str, rows: Sequence[Row]) -> dict[str, bytes | None]:
    """Return the side values to set in the commit that removes rows.

    They name the work of ``finish_erasure``, and remove values from which the records could be
    guessed.
    """
    side: dict[str, bytes | None] = {UNFINISHED: b""}
    side |= {f"{FINGERPRINTS}{row.batch}": None for row in rows if row.batch}
    side |= {f"{SEALED}{row.seq}": None for row in rows}
    for sketched in {sketch_prefix(row.seq) for row in rows}:
        side |= dict.fromkeys(reader.side(bank, sketched), None)
    side |= dict.fromkeys(reader.side(bank, DERIVED))
    if next(iter(reader.blobs.listed(bank)), None) is not None:
        named = set[str]().union(*(blob_digests_in(row.body or b"") for row in rows))
        side |= {BLOB + digest: b"" for digest in named if reader.blobs.has(bank, digest)}
    return side


def _require_unerased(fold: Fold, records: Sequence[PendingRecord]) -> None:
    before = fold.size - len(records)
    for one in records:
        if fold.is_erased(one.row.id, before):
            raise ErasureRefusedError(
                "the record was erased, so it cannot be added again", field=one.row.id
            )


def blob_digests_in(body: bytes) -> set[str]:
    """Return possible digests of blobs in the bytes of a record."""
    return {found.decode() for found in _DIGEST.findall(body)}


def _require_erasable(fold: Fold, row: Row) -> None:
    if (
        open_body(row, fold.redacted(row.id, fold.size)) is None
    ):  # damaged or empty, so listing them loses nothing
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


_ALL = Filter(retired=True, held=True)


def is_unfinished(store: Store, bank: str) -> bool:
    """Return whether the store may still contain bytes that were erased from a bank."""
    with store.reading() as reader:
        return UNFINISHED in reader.side(bank, UNFINISHED)


def finish_erasure(store: Store, bank: str) -> int:
    """Drop blobs that only erased records named, and scrub the store's files.

    It can be repeated; nothing happens if no work is left.

    Returns:
        Number of dropped blobs.

    Raises:
        StoreError: If the store cannot be scrubbed now; the records are erased from the bank all
            the same.
    """
    if not is_unfinished(store, bank):
        return 0
    with store.writing() as writing:
        dropped = _drop_blobs(writing, bank)
    store.scrub()
    with store.writing() as writing:
        writing.put_side(bank, {UNFINISHED: None})
    return dropped


def _drop_blobs(writing: Writer, bank: str) -> int:
    """Drop blobs that erased records named and no other record names."""
    digests = {name.removeprefix(BLOB) for name in writing.side(bank, BLOB)}
    unnamed = set(digests)
    for row in writing.scan(bank, _ALL) if digests else ():
        unnamed -= blob_digests_in(row.body or b"")
        if not unnamed:
            break
    for blob in sorted(unnamed):
        writing.blobs.drop(bank, blob)
    writing.put_side(bank, dict.fromkeys((BLOB + blob for blob in digests), None))
    return len(unnamed)


_REDACTABLE = frozenset(Component)


def redact_rows(  # noqa: PLR0913 - as targets.emptied_by, and the forms
    writing: Writer,
    bank: str,
    tree: VerifiedTree | None,
    fold: Fold,
    records: Sequence[PendingRecord],
    forms: Mapping[str, bytes],
    emptied: ErasureEffect,
) -> list[Row]:
    """Return rows with redacted forms in place of the entries that redaction records name.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree of the log; None for a new bank.
        fold: The state of the log with the new records.
        records: The new records and their values; other types are skipped.
        forms: The canonical bytes of the redacted forms, by id.
        emptied: The removals of the commit; those of the redactions are added.

    Raises:
        RedactionRefusedError: If an entry does not exist or is erased, or a form is missing or
            differs from the record.
    """
    before = fold.size - len(records)
    redactions, brought = dict[str, Redaction](), list[str]()
    for place, pending in enumerate(records, before):
        if isinstance(pending.model, Redaction):
            if fold.batch_number(place):
                brought.append(pending.model.entry)
            else:
                redactions[pending.model.entry] = pending.model
    _require_imported(writing, bank, fold, records, brought)
    if redactions.keys() != forms.keys():
        raise RedactionRefusedError("a redaction must be logged with its redacted form")
    if not redactions:
        return []
    rows = [] if tree is None else writing.get(bank, list(redactions))
    if tree is None or len(rows) < len(redactions):
        raise RedactionRefusedError("the record to redact is not in the log")
    require_leaves(tree, bank, rows)
    for row in rows:
        if fold.is_erased(row.id, fold.size) or row.type not in _REDACTABLE:
            raise RedactionRefusedError(
                "only memories that are present can be redacted", field=row.id
            )
    emptied.places.extend(row.seq for row in rows)
    emptied.side.update(cleanup_values(writing, bank, rows))
    return [_redact_row(fold, row, forms[row.id], redactions[row.id], before) for row in rows]


def merge_side_values(
    requested: Iterable[tuple[str, bytes | None]], emptied: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return the side values to set: removals win, except over new sealed originals."""
    side = dict(requested)
    originals = {name: value for name, value in side.items() if name.startswith(SEALED)}
    return {**side, **emptied, **originals}


def _require_imported(
    writing: Writer, bank: str, fold: Fold, records: Sequence[PendingRecord], brought: Sequence[str]
) -> None:
    """Require that imported records redact nothing that exists here.

    And that an imported memory for which the log has a redaction is in its redacted form.
    """
    if brought and writing.get(bank, list(brought)):
        raise RedactionRefusedError("an import can redact only its own records")
    for row in (one.row for one in records if one.row.type in _REDACTABLE):
        result = fold.redacted(row.id, fold.size)
        if result is not None and digest(row.body or b"") != result:
            raise RedactionRefusedError(
                "the memory was imported redacted, and cannot be imported in another form",
                field=row.id,
            )


def _require_restorable(
    fold: Fold, row: Row, model: Model, redaction: Redaction, before: int
) -> None:
    """Require that a whole entry may replace its redacted form: only an imported one.

    Its ID shows that it is the logged entry. Entries that were redacted here stay redacted.
    """
    last = fold.redaction(row.id, before)
    if redaction.fields or last is None or not fold.batch_number(last[0]):
        raise RedactionRefusedError(
            "a full memory can replace a redacted one only if an import brought that one",
            field=row.id,
        )
    if (model.id, str(model.__struct_config__.tag)) != (row.id, row.type):
        raise RedactionRefusedError(
            "it was logged with another type, which cannot change", field=row.id
        )


def _redact_row(fold: Fold, row: Row, body: bytes, redaction: Redaction, before: int) -> Row:
    opened = open_body(row, fold.redacted(row.id, before))
    if opened is None:
        raise RedactionRefusedError("the bytes of the entry do not verify", field=row.id)
    try:
        _, model = open_redacted_form(body, redaction.result)
        if model.nonce is None:
            require_form_of(model, opened[1])
        else:
            _require_restorable(fold, row, model, redaction, before)
    except MalformedError as error:
        raise RedactionRefusedError(error.message, field=error.field) from None
    own = derive_row(model, seq=row.seq, at=row.at, body=body, batch=fold.batch_number(row.seq))
    return own.changed(fold.standing(row.id, row.seq, fold.size))
