"""What a redaction record puts in the place of an entry, in the commit that logs it."""

from collections.abc import Iterable, Mapping, Sequence

from satchel.errors import MalformedError, RedactionRefusedError
from satchel.ledger.appending.waiting import Logging
from satchel.ledger.erasure.targets import SEALED, Emptied, left_to_do
from satchel.ledger.examining import opened_body
from satchel.ledger.folding import Fold
from satchel.ledger.heads import require_leaves
from satchel.memory.parts import Component
from satchel.memory.records import Model, Redaction
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import Writer
from satchel.seal.proved_tree import ProvedTree
from satchel.seal.records import digest
from satchel.seal.redacted_forms import opened_form, require_form_of

_REDACTABLE = frozenset(Component)


def replaced_by(  # noqa: PLR0913 - as targets.emptied_by, and the forms
    writing: Writer,
    bank: str,
    tree: ProvedTree | None,
    fold: Fold,
    records: Sequence[Logging],
    forms: Mapping[str, bytes],
    emptied: Emptied,
) -> list[Row]:
    """Return rows with the forms in the place of entries that redaction records speak of.

    Args:
        writing: The store, without the new records.
        bank: The bank.
        tree: The tree under what is there; None for a bank that is just founded.
        fold: What the log says with the new records in it.
        records: The new records and their values; those of other types are passed over.
        forms: The canonical bytes of the redacted forms, by id.
        emptied: What the commit empties; these are added to it.

    Raises:
        RedactionRefusedError: If an entry is not there, or is erased; or a form is missing, or is
            not what the record says.
    """
    before = fold.size - len(records)
    said, brought = dict[str, Redaction](), list[str]()
    for place, one in enumerate(records, before):
        if isinstance(one.model, Redaction):
            if fold.batch_number(place):
                brought.append(one.model.entry)
            else:
                said[one.model.entry] = one.model
    _require_brought(writing, bank, fold, records, brought)
    if said.keys() != forms.keys():
        raise RedactionRefusedError("a redaction must be logged with its redacted form")
    if not said:
        return []
    rows = [] if tree is None else writing.get(bank, list(said))
    if tree is None or len(rows) < len(said):
        raise RedactionRefusedError("the record to redact is not in the log")
    require_leaves(tree, bank, rows)
    for row in rows:
        if fold.is_erased(row.id, fold.size) or row.type not in _REDACTABLE:
            raise RedactionRefusedError(
                "only memories that are present can be redacted", field=row.id
            )
    emptied.places.extend(row.seq for row in rows)
    emptied.side.update(left_to_do(writing, bank, rows))
    return [_replaced(fold, row, forms[row.id], said[row.id], before) for row in rows]


def settled(
    wanted: Iterable[tuple[str, bytes | None]], emptied: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return what is set beside the log: what is emptied goes, but for new sealed originals."""
    side = dict(wanted)
    kept = {name: value for name, value in side.items() if name.startswith(SEALED)}
    return {**side, **emptied, **kept}


def _require_brought(
    writing: Writer, bank: str, fold: Fold, records: Sequence[Logging], brought: Sequence[str]
) -> None:
    """Require of what an import brought that it redacts nothing that is here already.

    And that a memory that comes to a log which says in which form it has to stand comes in that.
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


def _require_returned(fold: Fold, row: Row, model: Model, said: Redaction, before: int) -> None:
    """Require that a whole entry may take the place of its form: only of one that was brought.

    Its id says that it is what was logged. What was redacted here stays so.
    """
    last = fold.redaction(row.id, before)
    if said.fields or last is None or not fold.batch_number(last[0]):
        raise RedactionRefusedError(
            "a full memory can replace a redacted one only if an import brought that one",
            field=row.id,
        )
    if (model.id, str(model.__struct_config__.tag)) != (row.id, row.type):
        raise RedactionRefusedError(
            "it was logged with another type, which cannot change", field=row.id
        )


def _replaced(fold: Fold, row: Row, body: bytes, said: Redaction, before: int) -> Row:
    opened = opened_body(row, fold.redacted(row.id, before))
    if opened is None:
        raise RedactionRefusedError("the bytes of the entry do not verify", field=row.id)
    try:
        _, model = opened_form(body, said.result)
        if model.nonce is None:
            require_form_of(model, opened[1])
        else:
            _require_returned(fold, row, model, said, before)
    except MalformedError as error:
        raise RedactionRefusedError(error.message, field=error.field) from None
    own = derive_row(model, seq=row.seq, at=row.at, body=body, batch=fold.batch_number(row.seq))
    return own.changed(fold.standing(row.id, row.seq, fold.size))
