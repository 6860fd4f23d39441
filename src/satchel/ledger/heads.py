"""Verification of a store's newest head: its signer, its counts, and the state of its log."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from satchel.crypto.canonical import decode_canonical
from satchel.crypto.keys import KeyEnd
from satchel.crypto.log import (
    Fetch,
    Frontier,
    Head,
    VerifiedTree,
    check_head,
    parse_head,
    record_leaf,
)
from satchel.crypto.redaction import open_redacted_form
from satchel.crypto.sealed_records import PREFIX, Sealed, open_record
from satchel.errors import (
    AdoptedError,
    ForkedError,
    InputError,
    RolledBackError,
    UnfinishedCopyError,
    UnknownBankError,
    VerificationError,
)
from satchel.ledger.authority import (
    ADOPTED,
    RESTORED,
    Authority,
    LogState,
    RecordedDecision,
    apply_configs,
    founding_authority,
)
from satchel.ledger.projection import FOLDED, Fold, FoldCache, KnownFold, LogFact
from satchel.ledger.witness_file import AcceptedRollback
from satchel.model.records import Model
from satchel.ports.rows import Filter, Row
from satchel.ports.store import Reader, StoredHead


class BankStanding(StrEnum):
    """How this machine treats a bank."""

    OWN = "own"
    """It trusts the bank's owners, or wrote to the bank before."""

    UNTRUSTED = "untrusted"
    """Its records are verified, but their keys are not trusted here."""


class SeenHead(NamedTuple):
    """A head that this machine accepted before."""

    head: Head
    who: str
    """The witness of it, for a message."""

    own: bool = True
    """Whether the bank was this machine's own then."""

    witnessed: bool = False
    """Whether it is in the witness file, together with the positions of removed records."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of judging a store's newest head."""

    standing: BankStanding = BankStanding.OWN
    notes: tuple[str, ...] = ()
    """Notices for the reader: that a state seen here was abandoned."""

    given_up: AcceptedRollback | None = None
    """The part of the witness that is no longer valid."""


OWN = Verdict()
"""The verdict if the log contains everything that was seen."""


def judge(
    head: Head,
    authority: Authority,
    tree: VerifiedTree,
    seen: Sequence[SeenHead],
    trusted: frozenset[str] | None,
) -> Verdict:
    """Judge a head that is valid in itself.

    Args:
        head: The newest head of the store.
        authority: The keys that may sign, and the decisions in the log.
        tree: Its tree.
        seen: Heads that this machine accepted before.
        trusted: The keys that this machine trusts as owners of this bank; None to accept any
            founder.

    Raises:
        AdoptedError: If an unknown key adopted the bank.
        RolledBackError: If the store is behind a seen head, and no owner accepted that.
        ForkedError: If the store forked from a seen head, and no owner accepted that.
    """
    standing = _standing(authority, tree, [saw.head for saw in seen if saw.own], trusted)
    notes, given_up = [_forked(one) for one in authority.forked], None
    for saw in seen:
        decided = require_continues(saw, authority, head, tree)
        if decided is not None:
            notes.append(_note(saw, decided))
            if saw.witnessed:
                given_up = AcceptedRollback(saw.head.epoch, decided.decision.resumed.size)
    return Verdict(standing, tuple(notes), given_up)


def require_continues(
    saw: SeenHead, authority: Authority, head: Head, tree: VerifiedTree
) -> RecordedDecision | None:
    """Require that a log continues from a seen head, or has a decision that abandons it.

    Returns:
        The decision that abandons the head; None if nothing was lost.

    Raises:
        RolledBackError: If the store is behind the head.
        ForkedError: If the store forked from it.
    """
    seen = saw.head
    if seen.root == head.root or contains(tree, seen):
        return None
    decided = _abandoning_decision(authority.decided, seen)
    if decided is not None:
        return decided
    if (head.epoch, head.size) < (seen.epoch, seen.size):
        raise RolledBackError(
            f"the store has {head.size} records, {saw.who} saw {seen.size}",
            hint="It was reset to an older state, or is an old copy. Restore the newer one; if that"
            " is lost, an owner can accept the loss: satchel bank accept-loss.",
        )
    raise ForkedError(
        f"the first {seen.size} records of the store differ from those that {saw.who} saw",
        hint="Its history was replaced. Restore a copy that matches; to continue with this one, an"
        " owner can accept it: satchel bank accept-loss.",
    )


def contains(tree: VerifiedTree, seen: Head) -> bool:
    """Return whether a log starts with a seen head."""
    return seen.size <= tree.size and PREFIX + tree.root_at(seen.size).hex() == seen.root


def _abandoning_decision(
    decided: Sequence[RecordedDecision], seen: Head
) -> RecordedDecision | None:
    """Return the decision that names a head, or that ended its epoch before it.

    A decision about another head of the same size was made by a machine that saw another history,
    so it does not count for this one.
    """
    for one in decided:
        if one.decision.abandoned == LogState.of(seen):
            return one
    ending = next((one for one in decided if one.decision.epoch > seen.epoch), None)
    if ending is None or seen.size <= ending.decision.resumed.size:
        return None
    named = ending.decision.abandoned
    if named is None:
        return ending if ending.action == RESTORED else None
    return None if (named.epoch, named.size) == (seen.epoch, seen.size) else ending


def _standing(
    authority: Authority, tree: VerifiedTree, own: Sequence[Head], trusted: frozenset[str] | None
) -> BankStanding:
    known = trusted or frozenset()
    adoption = authority.adoption
    # All owners: each may decide anything, and naming a key in a bank record needs no consent.
    if authority.owned_by(known):
        return BankStanding.OWN
    if adoption is None:
        return BankStanding.OWN if own or trusted is None else BankStanding.UNTRUSTED
    if any(head.size > adoption.resumed.size and contains(tree, head) for head in own):
        return BankStanding.OWN  # adopted on this machine
    if own or known & authority.former:
        raise AdoptedError(
            f"the bank was adopted by {adoption.key}, without any of its owners",
            hint="Anybody can adopt a copy. Restore your own; or, if you know the owner of this"
            " key, trust it for this bank: satchel key trust KEY --bank ID.",
        )
    return BankStanding.UNTRUSTED


def _forked(end: KeyEnd) -> str:
    return (
        f"record {end.place} is a second succession of {end.key}, to {end.heir}, and is ignored."
        " Its author has the old key: satchel key revoke"
    )


def _note(saw: SeenHead, decided: RecordedDecision) -> str:
    decision = decided.decision
    named = decision.abandoned
    by = "the adopter of the bank" if decided.action == ADOPTED else "an owner"
    text = (
        f"{saw.who} saw {saw.head.size} records of this bank; {by} decided at {decided.at} to "
        f"resume from the first {decision.resumed.size}"
    )
    if named != LogState.of(saw.head):
        text += f", aware of {named.size if named is not None else decision.resumed.size}"
    return f"{text}: {decision.reason}" if decision.reason else text


_HASH = 32
_CONFIGS = frozenset({"config"})
_TOGETHER = 256
_DOCTOR = "Nothing was changed. See: satchel doctor."


@dataclass(frozen=True, slots=True)
class TrustedHead:
    """A verified head, and the keys that may sign the next one."""

    stored: StoredHead
    head: Head
    frontier: Frontier
    authority: Authority
    fold: Fold
    verdict: Verdict
    """How this machine treats it."""


RedactionLookup = Callable[[Row], str | None]
"""Returns the hash of the redacted form of a row's record; None for a whole record."""

Judging = Callable[[Head, Authority, VerifiedTree], Verdict]
"""Judges a head that is valid in itself by earlier ones, or refuses it."""


def load_trusted_head(
    reader: Reader,
    bank: str,
    stored: StoredHead,
    judging: Judging,
    before: TrustedHead | None = None,
    remembered: FoldCache | None = None,
) -> TrustedHead:
    """Verify a stored head: signature, peaks, counts, key, epoch and the state of the log.

    Args:
        reader: A view of the store.
        bank: The bank.
        stored: The head.
        judging: Judges the head before the state of ``before`` is extended.
        before: The head that this program verified last; if the log continues from it, it is read
            from there.
        remembered: The cached state of the log; None to read all of it.

    Raises:
        VerificationError: Naming what is invalid.
    """
    head, frontier = verified_head(bank, stored)
    require_counts(reader, head)
    tree = VerifiedTree(frontier, node_fetcher(reader, bank))
    if before is None or not contains(tree, before.head):
        authority, start, counts = _founded(reader, bank, tree), 0, dict[str, int]()
        known = remembered.read(tree) if remembered is not None else KnownFold(Fold(), 0, {})
    else:
        authority, start, counts = before.authority, before.head.size, before.head.counts
        known, remembered = KnownFold(before.fold, start, counts), None
    configs = _read_facts(reader, head, tree, start, counts, _CONFIGS)
    facts = _read_facts(reader, head, tree, known.size, known.counts, FOLDED)
    decisions = [(seq, record) for seq, record, _ in configs]
    authority = apply_configs(authority, bank, decisions, partial(_root_at, tree))
    if not authority.admits(head.key):
        raise VerificationError(
            f"the head is signed by {head.key}, {authority.refusal_reason(head.key)}", hint=_DOCTOR
        )
    if head.epoch != authority.epoch:
        raise VerificationError(
            f"the head is of epoch {head.epoch}, and the log is in epoch {authority.epoch}",
            hint="A new epoch starts with a signed decision in the log. " + _DOCTOR,
        )
    verdict = judging(head, authority, tree)
    known.fold.take([LogFact(seq, record.id, model) for seq, record, model in facts], head.size)
    if remembered is not None:
        remembered.write(head, known.fold, known)
    return TrustedHead(stored, head, frontier, authority, known.fold, verdict)


def verified_head(bank: str, stored: StoredHead) -> tuple[Head, Frontier]:
    """Verify a stored head in itself: its signature, and that its peaks give its root.

    Raises:
        VerificationError: Naming what is invalid.
        UnfinishedCopyError: If it is empty: a copy of the bank is in progress.
    """
    if not stored.signed:
        raise UnfinishedCopyError(
            f"a copy of the bank {bank} to this store is not complete",
            hint=(
                "Resume it: satchel store copy, with the same two stores. If it was not copied, "
                "its signed head was removed: keep the files, and run satchel doctor."
            ),
        )
    head = _parsed(stored, bank)
    peaks = [stored.peaks[start : start + _HASH] for start in range(0, len(stored.peaks), _HASH)]
    try:
        frontier = Frontier(head.size, peaks)
    except ValueError:
        raise VerificationError("the head does not match its tree", hint=_DOCTOR) from None
    if PREFIX + frontier.root.hex() != head.root or len(stored.peaks) % _HASH:
        raise VerificationError("the head does not match its tree", hint=_DOCTOR)
    return head, frontier


def read_bank_name(reader: Reader, bank: str) -> str | None:
    """Return the name of a bank, from its first record and its config records.

    Verifies these records and their number, and nothing else of the bank, so the cost does not
    depend on the length of the log.

    Raises:
        VerificationError: If they are not what was signed.
        UnknownBankError: If the store does not have the bank.
    """
    stored = reader.head(bank)
    if stored is None:
        raise UnknownBankError(f"there is no bank {bank} here")
    head, frontier = verified_head(bank, stored)
    tree = VerifiedTree(frontier, node_fetcher(reader, bank))
    authority = _founded(reader, bank, tree)
    told = _read_facts(reader, head, tree, 0, {}, _CONFIGS)
    configs = [(seq, record) for seq, record, _ in told]
    roots = partial(_root_at, tree)
    return apply_configs(authority, bank, configs, roots).name


def node_fetcher(reader: Reader, bank: str) -> Fetch:
    """Return a function that fetches the stored nodes of a bank's tree."""
    return lambda places: reader.nodes(bank, places)


def require_counts(reader: Reader, head: Head) -> None:
    """Require that there are as many rows of each type as the head counts.

    Raises:
        VerificationError: Naming the first type with another number.
    """
    stored_counts, counted = reader.counts(head.bank), head.counts
    for name in sorted(stored_counts.keys() | counted.keys()):
        stored, logged = stored_counts.get(name, 0), counted.get(name, 0)
        if stored != logged:
            raise VerificationError(
                f"there are {stored} records of type {name}, not {logged}",
                hint=_DOCTOR,
            )


def require_types(reader: Reader, head: Head, tree: VerifiedTree, types: frozenset[str]) -> None:
    """Require that all records of these types exist, by their leaves and the head's counts.

    Raises:
        VerificationError: If one is missing or differs.
    """
    rows = reader.scan(head.bank, Filter(types=types, retired=True, held=True))
    total = 0
    while some := list(islice(rows, _TOGETHER)):
        require_leaves(tree, head.bank, some)
        total += len(some)
    if total != sum(head.counts.get(name, 0) for name in types):
        raise VerificationError(
            f"records of type {', '.join(sorted(types))} are hidden", hint=_DOCTOR
        )


def missing_bank_error(
    bank: str, witnessed: Head | None, name: str
) -> VerificationError | UnknownBankError:
    """Return the error for a bank that a store does not have."""
    if witnessed is None:
        return UnknownBankError(f"there is no bank {bank} here", file=name)
    return RolledBackError(
        f"the bank {bank} is missing; this machine has seen it with {witnessed.size} records",
        file=name,
        hint=(
            "Restore it from a backup. If there is none: satchel bank accept-gone. After that, an "
            "old copy would be accepted."
        ),
    )


def require_logged(
    tree: VerifiedTree, bank: str, rows: Sequence[Row], redacted: RedactionLookup | None = None
) -> list[tuple[Sealed, Model] | None]:
    """Return the records of rows, each verified to be the one logged at its position.

    None represents an erased record.

    Args:
        tree: The tree under the log.
        bank: ID of the bank.
        rows: The rows.
        redacted: Looks up which of them are redacted; None if none is.

    Raises:
        VerificationError: Naming the first position that differs.
    """
    require_leaves(tree, bank, rows)
    return open_records(rows, redacted)


def open_records(
    rows: Sequence[Row], redacted: RedactionLookup | None = None
) -> list[tuple[Sealed, Model] | None]:
    """Return the records of rows whose leaves are verified elsewhere; see ``require_logged``.

    Raises:
        VerificationError: Naming the first whose bytes do not have its ID.
    """
    return [_record(row, redacted(row) if redacted is not None else None) for row in rows]


def require_leaves(tree: VerifiedTree, bank: str, rows: Sequence[Row]) -> None:
    """Require that rows have the IDs, types and times logged at their positions.

    Raises:
        VerificationError: As ``require_logged``; their bytes are not verified.
    """
    tree.require({row.seq: record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows})


def _record(row: Row, result: str | None) -> tuple[Sealed, Model] | None:
    if row.body is None:
        return None
    try:
        record, model = (
            open_record(row.body) if result is None else open_redacted_form(row.body, result)
        )
    except InputError as error:
        raise VerificationError(
            f"record {row.seq} was changed: {error.message}", field=error.field, hint=_DOCTOR
        ) from None
    if record.id != row.id or record.type != row.type:
        raise VerificationError(f"record {row.seq} is another one", hint=_DOCTOR)
    return record, model


def _founded(reader: Reader, bank: str, tree: VerifiedTree) -> Authority:
    rows = reader.at(bank, [0])
    if not rows or rows[0].id != bank:
        raise VerificationError("the first record of the log is missing", hint=_DOCTOR)
    (logged,) = require_logged(tree, bank, rows)
    if logged is None:
        raise VerificationError("the first record of the log was erased", hint=_DOCTOR)
    return founding_authority(logged[0])


def _root_at(tree: VerifiedTree, size: int) -> str:
    return PREFIX + tree.root_at(size).hex()


def _read_facts(
    reader: Reader,
    head: Head,
    tree: VerifiedTree,
    start: int,
    counts: Mapping[str, int],
    types: frozenset[str],
) -> list[tuple[int, Sealed, Model]]:
    """Return the records that define the state of the log, from a position on.

    The counts of the heads show that none is missing.
    """
    bank, facts = head.bank, list[tuple[int, Sealed, Model]]()
    hidden = sum(head.counts.get(name, 0) - counts.get(name, 0) for name in types)
    if not hidden:
        return facts
    rows = reader.scan(bank, Filter(types=types, retired=True, held=True), after=start - 1)
    while some := list(islice(rows, _TOGETHER)):
        hidden -= len(some)
        for row, logged in zip(some, require_logged(tree, bank, some), strict=True):
            if logged is None:
                raise VerificationError(
                    f"record {row.seq} is empty, but its type is never erased", hint=_DOCTOR
                )
            facts.append((row.seq, *logged))
    if hidden:
        raise VerificationError("records about other records are hidden", hint=_DOCTOR)
    return facts


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
        raise VerificationError("the head belongs to another bank", hint=_DOCTOR)
    return signed.signed
