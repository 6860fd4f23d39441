"""The log of a bank in a store: signed and witnessed appends, verified reads."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain

from satchel.crypto.keys import SigningKey
from satchel.crypto.log import (
    Frontier,
    Head,
    VerifiedTree,
    append_leaves,
    leaf_position,
    record_leaf,
    signed_head,
)
from satchel.crypto.redaction import is_redacted_form
from satchel.crypto.sealed_records import Sealed, seal
from satchel.errors import ChangedError, ReadOnlyStoreError, SatchelError, StoreDamagedError
from satchel.ledger.authority import Authority, admission_record, apply_configs, founding_authority
from satchel.ledger.columns import VerifiedColumns
from satchel.ledger.examination import Progress, audit
from satchel.ledger.heads import (
    OWN,
    BankStanding,
    SeenHead,
    TrustedHead,
    Verdict,
    judge,
    load_trusted_head,
    missing_bank_error,
    node_fetcher,
    require_counts,
)
from satchel.ledger.projection import FOLDED, Fold, FoldCache, LogFact, Precondition
from satchel.ledger.transaction import (
    LogTransaction,
    PendingRecord,
    StoredDigest,
    Ticket,
    UnnamedImport,
    erasure_effect,
    group_receipt,
    merge_side_values,
    pending_from_rows,
    read_only_error,
    redact_rows,
    reopen_records,
    require_appendable,
    require_precondition,
    stored_digest,
    with_models,
)
from satchel.ledger.view import View
from satchel.ledger.witness import Witness
from satchel.ledger.witness_file import AcceptedRollback, WitnessedHead
from satchel.model.records import Bank
from satchel.model.values import ENTRY_TYPES, ID_PREFIX, now
from satchel.ports.rows import VISIBLE, Row
from satchel.ports.store import ColumnChange, Commit, RangeChange, Reader, Store, StoredHead, Writer
from satchel.runtime.processes import in_child

Clock = Callable[[], str]
"""Returns the current time: 27 characters, UTC."""


class Ledger:
    """One bank in a store.

    Thread-safe. Appends of several threads that wait for each other are committed together: one
    transaction, one head, one sync.

    Args:
        store: The store with the bank.
        bank: ID of the bank.
        writer: The key that signs heads; None to read only.
        witness: The heads that this machine saw; None for no protection against rollback.
        trusted: The keys that this machine trusts as owners of this bank, its own included; None to
            accept any founder.
        clock: Returns the time at which records arrive.
    """

    def __init__(
        self,
        store: Store,
        bank: str,
        *,
        writer: SigningKey | None = None,
        witness: Witness | None = None,
        trusted: frozenset[str] | None = None,
        clock: Clock = now,
    ) -> None:
        self.bank = bank
        self._store = store
        self.writes = writer is not None
        self._writer = writer
        self._witness = witness
        self._trusted_owners = trusted
        self._clock = clock
        self._latest: TrustedHead | None = None
        remembered = None if witness is None else witness.columns_path(bank)
        self._columns = VerifiedColumns(bank, remembered)
        self._folds = FoldCache(bank, None if witness is None else witness.fold_path(bank))
        self._reset()
        in_child(self._reset)

    @classmethod
    def create(
        cls,
        store: Store,
        *,
        owner: SigningKey,
        writer: SigningKey,
        witness: Witness | None = None,
        name: str | None = None,
        clock: Clock = now,
    ) -> "Ledger":
        """Create a bank. Its first record names the owner, its second admits the writer key."""
        with cls.founded(
            store, owner=owner, writer=writer, witness=witness, name=name, clock=clock
        ) as (ledger, _):
            return ledger

    @classmethod
    @contextmanager
    def founded(
        cls,
        store: Store,
        *,
        owner: SigningKey,
        writer: SigningKey,
        witness: Witness | None = None,
        name: str | None = None,
        clock: Clock = now,
    ) -> Iterator[tuple["Ledger", LogTransaction]]:
        """Create a bank with the records appended in a block, committed together at its end."""
        at = clock()
        bank = seal(Bank(owner_keys=(owner.did,), created_at=at, name=name))
        ledger = cls(store, bank.id, writer=writer, witness=witness, clock=clock)
        records = [bank, admission_record(bank.id, writer.did, owner, at)]
        with store.writing() as writing:
            found = ledger._commit(writing, None, [Ticket(with_models(records))])
            made = _Transaction(ledger, writing, found)
            yield ledger, made
        ledger._acknowledge(made.after)

    def _reset(self) -> None:
        """Start without pending work: after a fork it belongs to the parent."""
        self._lock = threading.Lock()
        self._queue: list[Ticket] = []
        self._local = threading.local()

    def append(
        self,
        records: Sequence[Sealed],
        *,
        batch: str | None = None,
        side: Mapping[str, bytes | None] | None = None,
        precondition: Precondition | None = None,
        forms: Mapping[str, bytes] | None = None,
    ) -> list[int]:
        """Append records to the log and return their log positions; they are durable and witnessed.

        Args:
            records: The records.
            batch: ID of the source record of their import, which is in the log; they stay invisible
                until the receipt of ``closing_receipt`` is appended.
            side: Unlogged values to set in the same commit; None removes one.
            precondition: The state that the records are based on; if it changed, nothing is
                appended.
            forms: The redacted forms of the redaction records among them, by ID.

        Raises:
            ChangedError: If the state in ``precondition`` changed.
            MalformedError: If a reader would refuse a record.
            LimitError: If one is too large.
            UsageError: If the import does not exist or is complete.
            SlotTakenError: If a current record has the slot of a record.
            RedactionRefusedError: If a form does not match its redaction.
            ErasureRefusedError: If a record may not be erased, or a new record was erased before.
            ReadOnlyStoreError: If this machine has no admitted key, or the bank is untrusted.
            VerificationError: If the store is not in the expected state.
            StoreError: If the store cannot be written; nothing is appended.
        """
        if not records:
            return []
        require_appendable(records, batch)
        reopened = reopen_records(records, batch)
        return self._appended(Ticket(reopened, batch, side or {}, precondition, forms or {}))

    def append_rows(self, rows: Sequence[Row], *, batch: str) -> list[int]:
        """Append records of an import whose rows this process derived; see ``append``.

        Args:
            rows: Results of ``unplaced_row`` for records that were sealed or opened here.
            batch: ID of the import's source record.
        """
        return self._appended(Ticket(pending_from_rows(rows), batch)) if rows else []

    @contextmanager
    def transaction(self) -> Iterator[LogTransaction]:
        """Yield a transaction for several appends, committed together at the end of the block.

        Other appends wait. If the block raises, nothing is appended.

        Raises:
            ReadOnlyStoreError: If this machine has no admitted key, or the bank is untrusted.
            VerificationError: If the store is not in the expected state.
            StoreError: If the store cannot be written.
        """
        with self._lock:
            witnessed, trusted = self._witnessed(), None
            try:
                with self._store.writing() as writing:
                    trusted = self._writable(writing, witnessed)
                    _require_known(trusted)
                    transaction = _Transaction(self, writing, trusted)
                    yield transaction
            except BaseException:  # also if the commit fails at the end
                if trusted is not None:
                    trusted.fold.forget_from(trusted.head.size)
                raise
            if transaction.after is not trusted:
                self._acknowledge(transaction.after)

    def _appended(self, ticket: Ticket) -> list[int]:
        self._queue.append(ticket)
        with self._lock:
            if not ticket.done:
                self._commit_waiting()
        if ticket.error is not None:
            raise ticket.error
        return ticket.places

    @contextmanager
    def reading(self, *, fresh: bool = False) -> Iterator[View]:
        """Yield a consistent, verified view.

        Args:
            fresh: Verify the state of the log again instead of using the cached one.

        Raises:
            VerificationError: If the store is not in the expected state, or differs from what was
                signed.
            UnknownBankError: If the store does not have the bank.
        """
        # Read the witness first: a commit in between can only make the store newer.
        witnessed = self._witnessed()
        removed = self._witness.positions(self.bank) if self._witness is not None else ()
        with self._store.reading() as reader:
            trusted = self._trusted(reader, witnessed, fresh=fresh)
            tree = self._tree(reader, trusted)
            if witnessed is not None and self._witness is not None:
                self._witness.note_here(self.bank, trusted.authority.name)
            yield View(reader, trusted, tree, removed, self._columns, self._local.stamp)

    def audit(self, progress: Progress | None = None) -> View:
        """Compare all that the store contains of the bank with its log; see ``examination.audit``.

        Returns:
            The verified view.

        Raises:
            SatchelError: As ``reading``, and for each difference.
        """
        with self.reading(fresh=True) as view, self._store.reading() as reader:
            audit(reader, view, progress)
            return view

    def decide(
        self,
        draw: Callable[
            [TrustedHead, VerifiedTree], tuple[Sequence[Sealed], AcceptedRollback | None]
        ],
    ) -> TrustedHead:
        """Commit a decision of a person about the bank as it is; see ``ledger.decisions``.

        The head is not compared with earlier ones: ``draw`` does that.

        Args:
            draw: Returns, for the store's newest head, which is valid in itself, the records to
                append, and the part of the witness to discard. No records if the log has them
                already and only this machine's witness does not.

        Raises:
            RolledBackError: If the store lost the bank.
            VerificationError: If the store differs from what was signed.
        """
        witnessed = self._witnessed()
        with self._lock, self._store.writing() as writing:
            stored = writing.head(self.bank)
            if stored is None:
                raise missing_bank_error(self.bank, witnessed, self._store.name)
            found = load_trusted_head(writing, self.bank, stored, lambda *_: OWN)
            records, given_up = draw(found, self._tree(writing, found))
            after = replace(found, verdict=Verdict(given_up=given_up))
            if records:
                after = self._commit(writing, after, [Ticket(with_models(records))])
        self._acknowledge(after)
        return after

    # -- appending -------------------------------------------------------------------------

    def _commit_waiting(self) -> None:
        """Commit all waiting appends together; if that fails, one by one."""
        waiting = [self._queue.pop(0) for _ in range(len(self._queue))]
        try:
            self._commit_together(waiting)
        except SatchelError as error:
            for ticket in waiting:
                ticket.error = error
            if len(waiting) > 1:
                for ticket in waiting:
                    self._commit_alone(ticket)
        for ticket in waiting:
            ticket.done = True

    def _commit_alone(self, ticket: Ticket) -> None:
        ticket.error = None
        try:
            self._commit_together([ticket])
        except SatchelError as error:
            ticket.error = error

    def _commit_together(self, waiting: list[Ticket]) -> None:
        witnessed, trusted = self._witnessed(), None
        try:
            with self._store.writing() as writing:
                trusted = self._writable(writing, witnessed)
                _require_known(trusted)
                require_precondition(trusted, waiting, writing)
                after = self._commit(writing, trusted, waiting)
        except BaseException:  # also if the commit fails at the end
            if trusted is not None:
                trusted.fold.forget_from(trusted.head.size)
            raise
        self._acknowledge(after, waiting[0].emptied)

    def _commit(
        self,
        writing: Writer,
        trusted: TrustedHead | None,
        waiting: Sequence[Ticket],
        stored_here: StoredDigest | None = None,
    ) -> TrustedHead:
        """Append the records of waiting tickets under a new head."""
        at = self._clock()
        frontier = (
            Frontier(trusted.frontier.size, trusted.frontier.peaks) if trusted else Frontier()
        )
        fold, before = trusted.fold if trusted else Fold(), frontier.size
        records = list[PendingRecord]()
        for ticket in waiting:
            if ticket.batch is not None:
                group = group_receipt(fold, ticket.batch, len(ticket.records), at)
                records += with_models([group])
            start = before + len(records)
            ticket.places = list(range(start, start + len(ticket.records)))
            records += ticket.records
        authority = self._authority_after(trusted, [one.record for one in records])
        writer = self._admitted(authority)
        visible = waiting[0].visible
        rows, changes, sweeps = self._fold_records(
            writing, fold, before, records, at, visible=visible
        )
        tree = self._tree(writing, trusted) if trusted else None
        emptied = erasure_effect(writing, self.bank, tree, fold, records)
        forms = dict(chain.from_iterable(ticket.forms.items() for ticket in waiting))
        replaced = redact_rows(writing, self.bank, tree, fold, records, forms, emptied)
        nodes = append_leaves(
            frontier, [record_leaf(self.bank, row.seq, row.type, row.id, at) for row in rows]
        )
        if stored_here is not None:
            stored_here.add(rows, nodes)
        counts = _counts_with(Counter(row.type for row in rows), trusted)
        head, stored = self._head(authority, writer, frontier, counts, at)
        commit = Commit(
            rows=rows,
            nodes=nodes,
            head=stored,
            changes=changes,
            sweeps=sweeps,
            erased=emptied.places,
            replaced=replaced,
            side=merge_side_values(
                chain.from_iterable(t.side.items() for t in waiting), emptied.side
            ),
        )
        writing.append(self.bank, commit)
        if sweeps and changes:  # a change of one record applies after a change of all
            writing.append(self.bank, Commit(rows=(), nodes=(), head=stored, changes=changes))
        # Records that an import redacted and that are whole again were not removed here.
        returned = {row.seq for row in replaced if not is_redacted_form(row.body or b"")}
        waiting[0].emptied = [place for place in emptied.places if place not in returned]
        verdict = trusted.verdict if trusted else OWN
        return TrustedHead(stored, head, frontier, authority, fold, verdict)

    def _admitted(self, authority: Authority) -> SigningKey:
        if self._writer is None or not authority.admits(self._writer.did):
            raise read_only_error(authority, self._writer)
        return self._writer

    def _head(
        self,
        authority: Authority,
        writer: SigningKey,
        frontier: Frontier,
        counts: dict[str, int],
        at: str,
    ) -> tuple[Head, StoredHead]:
        """Return the head of a grown log, and its stored form."""
        head = Head(
            v=1,
            bank=self.bank,
            epoch=authority.epoch,
            size=frontier.size,
            root=ID_PREFIX + frontier.root.hex(),
            counts=counts,
            at=at,
            key=writer.did,
        )
        return head, StoredHead(signed_head(head, writer), b"".join(frontier.peaks))

    def _begin_import(self, trusted: TrustedHead) -> UnnamedImport:
        """Begin an import in a transaction, at the end of the log."""
        self._admitted(trusted.authority)
        frontier = Frontier(trusted.frontier.size, trusted.frontier.peaks)
        return UnnamedImport(self.bank, frontier, self._clock())

    def _name_import(
        self, writing: Writer, trusted: TrustedHead, begun: UnnamedImport, source: Sealed
    ) -> TrustedHead:
        """Append the records that name an import, under a new head."""
        (rows, facts), size, at = begun.named(source), begun.size, self._clock()
        trusted.fold.take(facts, size)
        begun.put_nodes(writing)
        counts, frontier = _counts_with(begun.counts, trusted), begun.frontier
        writer = self._admitted(trusted.authority)
        head, stored = self._head(trusted.authority, writer, frontier, counts, at)
        writing.append(self.bank, Commit(rows=rows, nodes=(), head=stored))
        return TrustedHead(stored, head, frontier, trusted.authority, trusted.fold, trusted.verdict)

    def _authority_after(
        self, trusted: TrustedHead | None, records: Sequence[Sealed | None]
    ) -> Authority:
        """Return the authority after new records."""
        start, root = (trusted.head.size, trusted.head.root) if trusted else (0, "")
        new = ((seq, one) for seq, one in enumerate(records, start) if one is not None)
        return apply_configs(
            trusted.authority if trusted else founding_authority(_first(records)),
            self.bank,
            [(place, record) for place, record in new if record.type == "config"],
            lambda size: root if size == start else "",  # a decision comes first
        )

    def _fold_records(
        self,
        reader: Reader,
        fold: Fold,
        before: int,
        records: Sequence[PendingRecord],
        at: str,
        *,
        visible: bool,
    ) -> tuple[list[Row], list[ColumnChange], list[RangeChange]]:
        """Return the rows of new records as logged, and the changes of existing ones."""
        size = before + len(records)
        facts = [
            LogFact(seq, pending.row.id, pending.model)
            for seq, pending in enumerate(records, before)
            if pending.model is not None and pending.row.type in FOLDED
        ]
        effect = fold.take(facts, size)
        rows = [
            pending.row.placed(
                *(seq, at, fold.batch_number(seq)),
                VISIBLE if visible else fold.standing(pending.row.id, seq, size),
            )
            for seq, pending in enumerate(records, before)
        ]
        there = reader.get(self.bank, effect.targets) if before and effect.targets else []
        old = (row for row in there if row.seq < before)
        changes = [ColumnChange(row.seq, *fold.standing(row.id, row.seq, size)) for row in old]
        return rows, changes, effect.sweeps

    def _acknowledge(self, trusted: TrustedHead, emptied: Sequence[int] = ()) -> None:
        """Record a durable head in the witness."""
        if self._witness is not None:
            if emptied:
                self._witness.note_removed(self.bank, emptied)
            new = WitnessedHead(head=trusted.head, signed=trusted.stored.signed)
            self._witness.record_verified(new, given_up=trusted.verdict.given_up)
            self._witness.note_here(self.bank, trusted.authority.name)
        self._latest = trusted

    # -- verifying the head ---------------------------------------------------------------

    def _witnessed(self) -> Head | None:
        found = self._witness.cached_last(self.bank) if self._witness is not None else None
        return found.head if found is not None else None

    def _trusted(
        self, reader: Reader, witnessed: Head | None, *, fresh: bool = False
    ) -> TrustedHead:
        """Return the store's newest head after all verification."""
        latest = self._latest  # before the store's: a commit in between makes that one newer
        stored, stamp = reader.head(self.bank), reader.stamp()
        if stored is None:
            raise missing_bank_error(
                self.bank, witnessed or (latest.head if latest else None), self._store.name
            )
        seen = [] if witnessed is None else [SeenHead(witnessed, "this machine", witnessed=True)]
        if latest is not None and stored == latest.stored and not fresh:
            tree = self._tree(reader, latest)
            if stamp != getattr(self._local, "stamp", None):
                require_counts(reader, latest.head)
            verdict = judge(latest.head, latest.authority, tree, seen, self._trusted_owners)
            trusted = latest if verdict == latest.verdict else replace(latest, verdict=verdict)
        else:
            if latest is not None:
                own = latest.verdict.standing is BankStanding.OWN
                seen.append(SeenHead(latest.head, "this program", own=own))
            judging = partial(judge, seen=seen, trusted=self._trusted_owners)
            before, remembered = (None, None) if fresh else (latest, self._folds)
            trusted = load_trusted_head(reader, self.bank, stored, judging, before, remembered)
        self._local.stamp = stamp
        self._latest = trusted
        return trusted

    def _writable(self, writing: Writer, witnessed: Head | None) -> TrustedHead:
        """Return the head as ``_trusted`` does, with the standing of all rows verified.

        Appends depend on these columns; readers verify them together with the ones they use.
        """
        found = self._trusted(writing, witnessed)
        tree = self._tree(writing, found)
        self._columns.require_standing(writing, found.head, found.fold, tree, self._local.stamp)
        return found

    def _tree(self, reader: Reader, trusted: TrustedHead) -> VerifiedTree:
        """Return this thread's tree of a head, which reads from a view."""
        cached = getattr(self._local, "tree", None)
        if cached is None or cached[0] != trusted.stored:
            cached = (
                trusted.stored,
                VerifiedTree(trusted.frontier, node_fetcher(reader, self.bank)),
            )
            self._local.tree = cached
        tree: VerifiedTree = cached[1]
        tree.fetch = node_fetcher(reader, self.bank)
        return tree


class _Transaction:
    """Several appends to one bank, in one transaction of its store."""

    def __init__(self, ledger: Ledger, writing: Writer, trusted: TrustedHead) -> None:
        self.after = trusted
        self._ledger = ledger
        self._writing = writing
        self._start = trusted.head.size
        self._digest = StoredDigest()
        self._import: UnnamedImport | None = None

    def append(
        self, records: Sequence[Sealed], *, side: Mapping[str, bytes | None] | None = None
    ) -> list[int]:
        require_appendable(records, None)
        return self._added(Ticket(reopen_records(records), side=side or {}))

    def append_rows(self, rows: Sequence[Row], *, batch: str, visible: bool = False) -> list[int]:
        return self._added(Ticket(pending_from_rows(rows), batch, visible=visible))

    def _added(self, ticket: Ticket) -> list[int]:
        self.after = self._ledger._commit(self._writing, self.after, [ticket], self._digest)  # noqa: SLF001 - part of the ledger
        return ticket.places

    def begin_import(self, size: int | None = None) -> None:
        if size not in (None, self.after.head.size):
            raise ChangedError("it was changed by another process", hint="Read it again.")
        self._import = self._ledger._begin_import(self.after)  # noqa: SLF001 - part of the ledger

    def append_unnamed(self, rows: Sequence[Row]) -> None:
        assert self._import is not None  # noqa: S101 - it was begun
        pending_from_rows([row for row in rows if row.type not in ENTRY_TYPES])
        placed = self._import.placed(rows, self._ledger._clock())  # noqa: SLF001 - part of the ledger
        commit = Commit(rows=placed, nodes=(), head=self.after.stored)
        self._writing.append(self._ledger.bank, commit)

    def name_import(self, source: Sealed) -> int:
        assert self._import is not None  # noqa: S101 - it was begun
        self.after = self._ledger._name_import(self._writing, self.after, self._import, source)  # noqa: SLF001 - part of the ledger
        return self._start

    def require_stored(self) -> None:
        bank, size = self._ledger.bank, self.after.head.size
        if self._import is not None:
            is_stored = self._import.is_stored(self._writing)
        else:
            positions = leaf_position(self._start), leaf_position(size)
            stored = stored_digest(self._writing, bank, (self._start, size), positions)
            is_stored = stored == self._digest.value
        if not is_stored:
            raise StoreDamagedError(
                "the logged records read back differently; nothing was committed",
                hint="The disk may be failing. See: satchel doctor --deep.",
            )


def _counts_with(new: Counter[str], trusted: TrustedHead | None) -> dict[str, int]:
    """Return the number of records of each type in a log with new records."""
    counts = new + Counter(trusted.head.counts if trusted else {})
    return dict(sorted(counts.items()))


def _first(records: Sequence[Sealed | None]) -> Sealed:
    first = records[0]
    assert first is not None  # noqa: S101 - a bank is founded by a record that is no entry
    return first


def _require_known(trusted: TrustedHead) -> None:
    if trusted.verdict.standing is BankStanding.UNTRUSTED:
        raise ReadOnlyStoreError(
            "the bank is untrusted: its owners' keys are not trusted on this machine",
            hint="If it is yours: satchel key import FILE. Else: satchel key trust, or bank adopt.",
        )
