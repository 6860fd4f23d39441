"""Targets of a restore: a bank in a store, or a conversation in a bank; and the results."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from satchel.backup.agents import RestoredAgent
from satchel.backup.destinations import nonzero_counts, receipt_body
from satchel.backup.manifests import BankBackup
from satchel.backup.options import RestoreOptions
from satchel.bank.banks import create_bank_in
from satchel.bank.connections import (
    configured_store,
    has_store,
    known_owners,
    open_ledger,
    store_exists,
    witness_beside,
    witness_of,
    writer_key,
)
from satchel.bank.keys import Owners, decider
from satchel.bank.open_bank import bank_exists, banks_called, name_of
from satchel.config.settings import Settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import (
    ForkedError,
    LimitError,
    RolledBackError,
    SigningKeyError,
    StoreBusyError,
    TargetExistsError,
    ThresholdError,
    VerificationError,
    shown_address,
)
from satchel.ledger.decisions import KeyDecider
from satchel.ledger.heads import BankStanding, SeenHead, Verdict, judge
from satchel.ledger.ledger import Ledger
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.transaction import blob_digests_in, finish_erasure
from satchel.ledger.view import View
from satchel.ledger.witness import Witness
from satchel.model.records import Status
from satchel.model.values import now
from satchel.ports.store import Store, StoredHead, Writer, verified_pieces
from satchel.receipts.receipt import ReceiptBody, TransferEnd, combine_counts, receipt_text
from satchel.replication.copies import (
    Relation,
    Replica,
    SideDataCounts,
    compare,
    compare_replicas,
    copied_records,
    copy_log,
    copy_side_data,
    fast_forward,
    load_replica,
    side_of,
    store_head,
)
from satchel.replication.operations import opened_at
from satchel.runtime.private_files import private_folder
from satchel.sessions import lookup
from satchel.sessions.elements import STARTS, count_in, event_of, key_of, of_session


class RestoredBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one bank."""

    bank: str
    name: str | None = None
    size: int
    """Number of records in its log."""

    root: str
    relation: Relation
    """Relation of the backup to the existing bank."""

    carried: int = 0
    erased_again: int = 0
    """Number of records erased since the backup that were erased again."""

    trust: BankStanding | None = None
    given_up: bool = False
    """Whether later records that this machine saw are lost, as stated in the log."""

    safety: str | None = None
    """Location of the safety copy."""

    notes: list[str] = []


class RestoredFiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Restored memory files."""

    key: str
    aside: str | None = None
    """Where the existing files were moved to."""


class RestoredSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result for one conversation."""

    session: str
    """Its ID, in the backup and in the target."""

    name: str | None = None
    bank: str | None
    """ID of the target bank; None for one that a dry run would create."""

    bank_name: str | None = None
    made: bool = False
    """Whether the bank was created for it."""

    messages: int
    """Number of messages in the backup; of a fork, with those before it."""

    added: int = 0
    """Number of added records."""

    returned: int = 0
    """Number of restored records that were deleted there."""

    there: int = 0
    """Number of records that already existed."""

    later: int = 0
    """Number of later messages of the conversation; they are kept."""

    notes: list[str] = []


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a restore, or of a dry run."""

    source: str
    backup: str
    taken: str
    """When the backup was taken."""

    at: str | None = None
    target: str
    banks: list[RestoredBank]
    files: list[RestoredFiles] = []
    agents: list[RestoredAgent] = []
    session: RestoredSession | None = None
    receipts: list[str] = []
    """IDs of the signed receipts, one for each bank."""

    notes: list[str] = []
    dry_run: bool = False


Tell = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BankRestoreOptions:
    """Options for restoring a bank."""

    address: str
    overwrite: bool
    beside: bool
    """Whether the target is not the store in use, which stays authoritative."""

    accept_loss: bool
    owners: Callable[[], Owners] | None
    proposes: bool
    safety: Callable[[], str]
    """Creates a safety copy, and returns its location."""

    reason: str
    dry_run: bool


@dataclass(slots=True, kw_only=True)
class BankRestoreResult:
    """Result of restoring a bank."""

    relation: Relation
    carried: int = 0
    trust: BankStanding | None = None
    given_up: bool = False
    safety: str | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ExistingBank:
    """State of the target store."""

    relation: Relation
    stored: StoredHead | None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class _SourceVerdict:
    """Verdict on the restored bank."""

    verdict: Verdict | None
    """Verdict; None if records are lost, which an owner must decide."""

    owners: Owners = ()
    apart: bool = False
    """Whether it needs a witness of its own, being older than the store in use."""


def authorize_replacement(
    settings: Settings, staging: Store, bank: str, options: BankRestoreOptions
) -> bool:
    """Have an owner sign, in a bank that was just built, that it replaces what this machine saw.

    The restored log then contains the decision from the start, even if the restore is interrupted
    afterwards. It is signed before anything is erased again, since the positions in the witness are
    those of the log up to here.

    Args:
        settings: Settings of the machine.
        staging: The temporary store with the bank.
        bank: The bank.
        options: Options of the restore.

    Returns:
        Whether records are lost.

    Raises:
        RolledBackError, ForkedError, SigningKeyError, ThresholdError: As ``restore_bank``.
    """
    with staging.reading() as reader:
        source = load_replica(reader, bank)
        assert source is not None  # noqa: S101 - it was made just now
        judgment = _judge_source(settings, source, options)
    last = witness_of(settings).last(bank)
    if judgment.verdict is not None or options.proposes or last is None:
        return judgment.verdict is None
    with tempfile.TemporaryDirectory(prefix="satchel-restore-") as folder:
        # Not the real witness, which would record a head that is in no store yet.
        witness = Witness(Path(folder) / "banks")
        witness.record_verified(last)
        KeyDecider(
            store=staging,
            bank=bank,
            owner=judgment.owners[0],
            also=judgment.owners[1:],
            writer=writer_key(settings),
            witness=witness,
        ).accept_restore(options.reason)
    return True


def restore_bank(
    settings: Settings, source: Replica, options: BankRestoreOptions, tell: Tell
) -> BankRestoreResult:
    """Restore a bank to a store; all checks come before anything is written.

    Log, vectors and blobs of an existing bank are replaced in one transaction.

    Args:
        settings: Settings of the machine.
        source: The bank, built from a backup.
        options: Options of the restore.
        tell: Called with the progress.

    Raises:
        TargetExistsError: If another log exists, and may not be replaced.
        RolledBackError, ForkedError: If this machine saw more than the backup has, and the loss was
            not accepted.
        SigningKeyError: If it was accepted, and the owner's key is not here.
        ThresholdError: If it was accepted, and more owners must sign: before anything is written,
            or with a proposal for them if that was requested.
        StoreBusyError: If another process writes the bank there concurrently.
        StoreError: If the store cannot be written.
    """
    judgment = _judge_source(settings, source, options)
    existing = _ExistingBank(Relation.NEW, None)
    if store_exists(options.address):
        with opened_at(settings, options.address, read_only=True) as store:
            existing = _read_existing(store, source)
    replaces = existing.relation in (Relation.BEHIND, Relation.DIVERGED)
    if replaces and not options.overwrite:
        raise _existing_records_error(source, options.address)
    result = BankRestoreResult(relation=existing.relation, given_up=judgment.verdict is None)
    result.notes += [existing.note] if existing.note else []
    if judgment.apart:
        result.notes.append(
            "the current store has a newer state, which is unchanged; this older state is "
            "tracked separately"
        )
    if judgment.verdict is not None:
        result.trust = judgment.verdict.standing
        result.notes += judgment.verdict.notes
    if options.dry_run:
        return result
    if replaces:
        result.safety = options.safety()
    _write(settings, source, options, existing, judgment, result, tell)
    return result


def _write(  # noqa: PLR0913 - what was found out before
    settings: Settings,
    source: Replica,
    options: BankRestoreOptions,
    existing: _ExistingBank,
    judgment: _SourceVerdict,
    result: BankRestoreResult,
    tell: Tell,
) -> None:
    if judgment.apart:
        private_folder(settings.state)
        private_folder(witness_beside(settings).parent)
        private_folder(witness_beside(settings))
    with opened_at(settings, options.address, read_only=False) as store:
        result.carried = _write_log(source, store, existing, tell)
        if existing.relation is Relation.NEW:
            copy_side_data(source.reader, source.bank, store, SideDataCounts())
        with store.reading() as other:
            compare(source, other, tell)
        if existing.relation is Relation.NEW:
            store_head(source, store)
        finish_erasure(store, source.bank)
        _record_head(settings, store, source, judgment, options.reason)
    if judgment.verdict is None:
        result.trust = BankStanding.OWN


def _judge_source(
    settings: Settings, source: Replica, options: BankRestoreOptions
) -> _SourceVerdict:
    witnessed = witness_of(settings).last(source.bank)
    seen = [] if witnessed is None else [SeenHead(witnessed.head, "this machine", witnessed=True)]
    trusted, owners = source.trusted, known_owners(settings, source.bank)
    try:
        return _SourceVerdict(judge(trusted.head, trusted.authority, source.tree, seen, owners))
    except (RolledBackError, ForkedError) as error:
        if options.beside and not witness_beside(settings).is_dir():
            return _SourceVerdict(
                judge(trusted.head, trusted.authority, source.tree, [], owners), apart=True
            )
        if not options.accept_loss:
            more = witnessed.head.size if witnessed is not None else 0
            raise type(error)(
                f"the backup of the bank {source.bank} has {source.size:,} records, and this"
                f" machine saw it with {more:,}",
                hint=(
                    "Find a newer backup or the store itself. To accept the loss as the owner: "
                    "--accept-loss."
                ),
            ) from error
        return _SourceVerdict(None, _owners(source, options))


def _owners(source: Replica, options: BankRestoreOptions) -> Owners:
    """Return the keys that sign the decision, before anything is written."""
    keys = source.trusted.authority.keys
    signers = () if options.owners is None else options.owners()
    if not signers or any(key.did not in keys.owners for key in signers):
        raise SigningKeyError(
            "only an owner of the bank can accept the loss of records this machine has seen",
            hint=f"Pass the key with --signing-key. Owners: {', '.join(sorted(keys.owners))}.",
        )
    if not options.proposes and not keys.has_enough(frozenset(key.did for key in signers)):
        raise ThresholdError(
            f"{keys.threshold} of the {len(keys.owners)} owners of the bank must accept the "
            "loss of records this machine has seen",
            field="key",
            hint=(
                "Nothing was changed. Add more of their keys: --co-signer NAME. If they are on "
                "other machines: --propose FILE."
            ),
        )
    return signers


def _read_existing(store: Store, source: Replica) -> _ExistingBank:
    with store.reading() as reader:
        if copied_records(reader, source.bank) is not None:
            return _ExistingBank(Relation.NEW, None)
        stored = reader.head(source.bank)
        try:
            return _ExistingBank(
                compare_replicas(source, load_replica(reader, source.bank)).relation, stored
            )
        except VerificationError as error:
            note = f"what was there did not verify: {error.message}"
            return _ExistingBank(Relation.DIVERGED, stored, note)


def _write_log(source: Replica, store: Store, existing: _ExistingBank, tell: Tell) -> int:
    bank = source.bank
    if existing.relation is Relation.NEW:
        return copy_log(source, store, tell).records
    with store.writing() as writing:
        if writing.head(bank) != existing.stored:
            raise StoreBusyError(
                "the bank was changed by another process", file=store.name, hint="Try again."
            )
        target, records = None, 0
        if existing.relation in (Relation.AHEAD, Relation.SAME):
            target = load_replica(writing, bank)
        else:
            writing.remove(bank)
        if existing.relation is not Relation.SAME:
            records = fast_forward(source, writing, target).records
            writing.put_side(bank, side_of(source.reader, bank))
        copy_side_data(source.reader, bank, _OpenTransaction(writing), SideDataCounts())  # type: ignore[arg-type]
    tell(source.size)
    return records


class _OpenTransaction:
    """A store within an open transaction: everything in it is committed, or nothing."""

    def __init__(self, writing: Writer) -> None:
        self._writing = writing

    @contextmanager
    def writing(self) -> Iterator[Writer]:
        """Return the transaction."""
        yield self._writing

    reading = writing


def _record_head(
    settings: Settings, store: Store, source: Replica, judgment: _SourceVerdict, reason: str
) -> None:
    """Record the head in the witness, or have an owner sign the decision."""
    if judgment.verdict is None:
        writer = writer_key(settings)
        decider(settings, store, source.bank, judgment.owners, writer).accept_restore(reason)
    elif judgment.verdict.standing is BankStanding.OWN:
        signed = msgspec.json.decode(source.trusted.stored.signed)
        witness_of(settings).record(signed, given_up=judgment.verdict.given_up)


def _existing_records_error(source: Replica, address: str) -> TargetExistsError:
    return TargetExistsError(
        f"the bank {source.bank} already exists, with records that the backup lacks",
        file=shown_address(address),
        hint=(
            "To replace it (it is backed up first): --overwrite. Or restore into another store: "
            "--into ADDRESS."
        ),
    )


MOST = 50_000
"""Maximum number of records of a conversation that are restored in one commit."""

_TOGETHER = 256
_TYPE = "session_event"


class SessionRecords(NamedTuple):
    """A conversation in a backup."""

    id: str
    name: str | None
    messages: int
    records: list[Sealed]
    """Its records in log order; of a fork, also those that it continues."""


class _SessionState(NamedTuple):
    """State of the conversation in the target."""

    missing: list[Sealed]
    deleted: list[str]
    there: int
    later: int


@dataclass(slots=True)
class SessionRestore:
    """The restore of one conversation."""

    settings: Settings
    """Settings with the target store."""

    staging: Store
    """Store with the bank of the backup, without what was erased since."""

    part: BankBackup
    options: RestoreOptions
    owners: Callable[[], Owners]

    def done(self, reason: str) -> RestoredSession:
        """Restore it.

        Args:
            reason: Reason in the statuses of restored records.

        Raises:
            UnknownSessionError: If the backup has no such conversation.
            UsageError: If several match.
            LimitError: If it is too long for one commit.
            SigningKeyError: If a bank must be created, and there is no owner's key.
            StoreError: If the store cannot be written; nothing is added then.
        """
        trusted = known_owners(self.settings, self.part.bank)
        with Ledger(self.staging, self.part.bank, trusted=trusted).reading() as view:
            conversation = find_session(view, self.options.session or "")
        if not has_store(self.settings):
            return self._create(conversation, None)
        writes = not self.options.dry_run
        with configured_store(self.settings, read_only=not writes) as store:
            bank = self._bank_in(store)
            if bank is None:
                return self._create(conversation, store)
            return self._put(
                conversation, store, open_ledger(self.settings, store, bank, writes=writes), reason
            )

    def account(self, began: str, source: TransferEnd, done: RestoredSession) -> ReceiptBody:
        """Return the counts for the receipt."""
        read = {_TYPE: done.added + done.returned + done.there}
        target = TransferEnd(
            name=receipt_text(done.bank_name or done.bank or ""),
            bank=done.bank,
            store=receipt_text(shown_address(self.settings.store)),
            records=read[_TYPE],
        )
        written = {_TYPE: done.added + done.returned}
        return msgspec.structs.replace(
            receipt_body("restore", began, (source, target), read),
            counts=combine_counts(read, written, written, written),
            unchanged=not written[_TYPE],
            done=nonzero_counts(added=done.added, returned=done.returned, known=done.there),
            notes=[f"the session {done.session}", *map(receipt_text, done.notes)],
        )

    def _bank_in(self, store: Store) -> str | None:
        """Return the target bank: the same one, else the one of that name."""
        with store.reading() as reader:
            if bank_exists(reader, self.part.bank):
                return self.part.bank
        named = banks_called(store, self.part.name or "")
        return named[0] if len(named) == 1 else None

    def _create(self, conversation: SessionRecords, store: Store | None) -> RestoredSession:
        """Restore it to a new bank, created by the owner."""
        plan = RestoredSession(
            session=conversation.id,
            name=conversation.name,
            bank=None,
            bank_name=self.part.name,
            made=True,
            messages=conversation.messages,
            added=len(conversation.records),
        )
        if self.options.dry_run:
            return plan
        owner = self.owners()[0]
        if store is None:
            with configured_store(self.settings) as new_store:
                return self._create(conversation, new_store)
        name = self.part.name or "restored"
        ledger = create_bank_in(self.settings, store, name, owner)
        ledger.append(conversation.records)
        self._copy_blobs(conversation, store, ledger.bank)
        return msgspec.structs.replace(plan, bank=ledger.bank)

    def _put(
        self, conversation: SessionRecords, store: Store, ledger: Ledger, reason: str
    ) -> RestoredSession:
        with ledger.reading() as view:
            state = _session_state(view, conversation)
        at = now()
        restored = [
            seal(Status(target=identity, state="restored", reason=reason, at=at))
            for identity in state.deleted
        ]
        if not self.options.dry_run:
            self._copy_blobs(conversation, store, ledger.bank)
            ledger.append([*state.missing, *restored])
        notes = list[str]()
        if state.later:
            notes.append(
                f"{state.later:,} later messages exist and are kept; to continue from before them:"
                f" satchel session fork {conversation.id[7:19]} --at {conversation.messages}"
            )
        with store.reading() as reader:
            bank_name = name_of(reader, ledger.bank)
        return RestoredSession(
            session=conversation.id,
            name=conversation.name,
            bank=ledger.bank,
            bank_name=bank_name,
            messages=conversation.messages,
            added=len(state.missing),
            returned=len(state.deleted),
            there=state.there,
            later=state.later,
            notes=notes,
        )

    def _copy_blobs(self, conversation: SessionRecords, store: Store, bank: str) -> None:
        """Copy the blobs that it names, before the records that name them."""
        named = set[str]().union(*(blob_digests_in(record.body) for record in conversation.records))
        source_bank = self.part.bank
        with self.staging.reading() as reader:
            available = [blob for blob in sorted(named) if reader.blobs.has(source_bank, blob)]
            for digest in available:
                with store.writing() as writing:
                    if not writing.blobs.has(bank, digest):
                        writing.blobs.put(
                            bank, verified_pieces(reader.blobs.get(source_bank, digest), digest)
                        )


def find_session(view: View, requested: str) -> SessionRecords:
    """Return a conversation of a bank with its records.

    Raises:
        UnknownSessionError: If there is none.
        UsageError: If several match.
        LimitError: If it is too long for one commit.
    """
    start = lookup.find(view, requested)
    session, records = lookup.session(view, start), dict[int, Sealed]()
    for above, step in lookup.lineage(view, start):
        records[above.seq] = above.record
        for logged in view.scan(of_session(key_of(above))):
            if _belongs(logged, step):
                records[logged.seq] = logged.record
        if len(records) > MOST:
            raise LimitError(
                f"the session has more than {MOST:,} records",
                hint="Restore its bank into another store: --into ADDRESS --bank NAME.",
            )
    return SessionRecords(
        start.record.id, session.name, session.messages, [records[seq] for seq in sorted(records)]
    )


def _belongs(logged: VerifiedRecord, step: int) -> bool:
    """Return whether a record is of a conversation up to a step; -1 for all of it."""
    event = event_of(logged.model)
    if event in STARTS or event is None:
        return False  # the starts are known, and forks of it are other conversations
    return step < 0 or event == "about" or count_in(logged.model, "step") <= step


def _session_state(view: View, conversation: SessionRecords) -> _SessionState:
    missing, deleted, present = list[Sealed](), list[str](), 0
    records = iter(conversation.records)
    while batch := list(islice(records, _TOGETHER)):
        known = view.get([record.id for record in batch])
        for record in batch:
            logged = known.get(record.id)
            if logged is None and view.erasure(record.id) is None:
                missing.append(record)
            elif logged is not None and view.retirement(logged.row) is not None:
                deleted.append(record.id)
            else:
                present += 1
    return _SessionState(missing, deleted, present, _later(view, conversation))


def _later(view: View, conversation: SessionRecords) -> int:
    """Return the number of later messages of the conversation in the target."""
    known = {record.id for record in conversation.records}
    start = view.get([conversation.id]).get(conversation.id)
    messages = () if start is None else _messages(view, start)
    return sum(1 for logged in messages if logged.record.id not in known)


def _messages(view: View, start: VerifiedRecord) -> Iterator[VerifiedRecord]:
    for logged in view.scan(of_session(key_of(start))):
        if event_of(logged.model) == "message":
            yield logged
