"""Believing a store's newest head by itself: who signed it, and what it counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from satchel.errors import InputError, RolledBackError, UnknownBankError, VerificationError
from satchel.ledger.authority import Authority, founding, with_configs
from satchel.ledger.epochs import OWN, Verdict
from satchel.memory.records import Model
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Reader, StoredHead
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.log import Head, check_head, leaf_of, parse_head
from satchel.seal.proved_tree import Fetch, ProvedTree
from satchel.seal.records import PREFIX, Sealed, open_record
from satchel.seal.tree import Frontier

_HASH = 32
_CONFIGS = Filter(types=frozenset({"config"}), retired=True, held=True)
_DOCTOR = "Nothing was changed. See: satchel doctor."


@dataclass(frozen=True, slots=True)
class TrustedHead:
    """A head that was checked, and who may sign the next one."""

    stored: StoredHead
    head: Head
    frontier: Frontier
    authority: Authority
    verdict: Verdict = OWN
    """What it is to this machine; it is judged anew at each use."""


def opened_head(reader: Reader, bank: str, stored: StoredHead) -> TrustedHead:
    """Check a stored head by itself: signature, peaks, counts, epoch, and the right of its key.

    Raises:
        VerificationError: Naming what does not hold.
    """
    head = _parsed(stored, bank)
    peaks = [stored.peaks[start : start + _HASH] for start in range(0, len(stored.peaks), _HASH)]
    try:
        frontier = Frontier(head.size, peaks)
    except ValueError:
        raise VerificationError("the head does not go with its tree", hint=_DOCTOR) from None
    if PREFIX + frontier.root.hex() != head.root or len(stored.peaks) % _HASH:
        raise VerificationError("the head does not go with its tree", hint=_DOCTOR)
    require_counts(reader, head)
    authority = _authority(reader, head, ProvedTree(frontier, nodes_of(reader, bank)))
    if not authority.admits(head.key):
        raise VerificationError(
            f"the head is signed by {head.key}, which no owner admitted", hint=_DOCTOR
        )
    if head.epoch != authority.epoch:
        raise VerificationError(
            f"the head is of epoch {head.epoch}, and the log is in epoch {authority.epoch}",
            hint="A new epoch starts with a signed decision in the log. " + _DOCTOR,
        )
    return TrustedHead(stored, head, frontier, authority)


def nodes_of(reader: Reader, bank: str) -> Fetch:
    """Return what fetches the stored nodes of a bank's tree from a view."""
    return lambda places: reader.nodes(bank, places)


def require_counts(reader: Reader, head: Head) -> None:
    """Require that there are as many rows of each type as the head says.

    Raises:
        VerificationError: Naming the first type that is short or over.
    """
    there, said = reader.counts(head.bank), head.counts
    for name in sorted(there.keys() | said.keys()):
        if there.get(name, 0) != said.get(name, 0):
            raise VerificationError(
                f"there are {there.get(name, 0)} records of type {name}, not {said.get(name, 0)}",
                hint=_DOCTOR,
            )


def missing(bank: str, witnessed: Head | None, name: str) -> VerificationError | UnknownBankError:
    """Return the error for a bank that a store does not have."""
    if witnessed is None:
        return UnknownBankError(f"there is no bank {bank} here", file=name)
    return RolledBackError(
        f"the bank {bank} is gone; this machine saw it with {witnessed.size} records",
        file=name,
        hint="Restore it from a backup. Where there is none, forget the bank here; an old copy"
        " of it that turns up later is then believed.",
    )


def require_logged(
    tree: ProvedTree, bank: str, rows: Sequence[Row]
) -> list[tuple[Sealed, Model] | None]:
    """Return the records of rows, each proved to be the one that was logged there.

    None stands for an erased record.

    Raises:
        VerificationError: Naming the first place that does not hold.
    """
    tree.require({row.seq: leaf_of(bank, row.seq, row.type, row.id, row.at) for row in rows})
    return [_record(row) for row in rows]


def _record(row: Row) -> tuple[Sealed, Model] | None:
    if row.body is None:
        return None
    try:
        record, model = open_record(row.body)
    except InputError as error:
        raise VerificationError(
            f"record {row.seq} was changed: {error.message}", field=error.field, hint=_DOCTOR
        ) from None
    if record.id != row.id or record.type != row.type:
        raise VerificationError(f"record {row.seq} is another one", hint=_DOCTOR)
    return record, model


def _authority(reader: Reader, head: Head, tree: ProvedTree) -> Authority:
    bank = head.bank
    rows = reader.at(bank, [0])
    if not rows or rows[0].id != bank:
        raise VerificationError("the first record of the log is missing", hint=_DOCTOR)
    (first,) = require_logged(tree, bank, rows)
    if first is None:
        raise VerificationError("the first record of the log was erased", hint=_DOCTOR)
    rows = list(reader.scan(bank, _CONFIGS))
    if len(rows) != head.counts.get("config", 0):
        raise VerificationError("some of the bank's config records are hidden", hint=_DOCTOR)
    found = zip(rows, require_logged(tree, bank, rows), strict=True)
    configs = [(row.seq, logged[0]) for row, logged in found if logged is not None]
    return with_configs(
        founding(first[0]), bank, configs, lambda size: PREFIX + tree.root_at(size).hex()
    )


def _parsed(stored: StoredHead, bank: str) -> Head:
    try:
        value: Any = decode_canonical(stored.signed)
        signed = parse_head(value)
    except (InputError, KeyError, TypeError) as error:
        raise VerificationError(f"the head cannot be read: {error}", hint=_DOCTOR) from None
    signature = check_head(value, signed)
    if not signature.valid:
        raise VerificationError(f"the head's signature: {signature.problem}", hint=_DOCTOR)
    if signed.signed.bank != bank:
        raise VerificationError("the head is that of another bank", hint=_DOCTOR)
    return signed.signed
