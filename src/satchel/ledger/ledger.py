"""A bank's log over a store: appends that are signed and witnessed, reads that are proved."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import msgspec

from satchel.disk.forks import in_child
from satchel.errors import ReadOnlyStoreError, SatchelError, UsageError
from satchel.ledger.authority import admission, founding, with_configs
from satchel.ledger.folding import fold
from satchel.ledger.heads import (
    TrustedHead,
    missing,
    nodes_of,
    opened_head,
    require_counts,
    require_prefix,
)
from satchel.ledger.view import View
from satchel.ledger.witness import Witness
from satchel.memory.records import Bank, Model
from satchel.memory.times import now
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import Commit, Reader, Store, StoredHead, Writer
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.log import Head, leaf_of, sign_head
from satchel.seal.proved_tree import ProvedTree, grown
from satchel.seal.records import PREFIX, Sealed
from satchel.seal.sealing import seal
from satchel.seal.signing.key import SigningKey
from satchel.seal.tree import Frontier

_NEVER_LOGGED = frozenset({"embedding", "blob"})

Clock = Callable[[], str]
"""Gives the present moment: 27 characters, UTC."""


@dataclass(slots=True)
class _Ticket:
    """One append that waits for its commit."""

    records: Sequence[Sealed]
    batch: int
    places: list[int] = field(default_factory=list)
    error: SatchelError | None = None
    done: bool = False


class Ledger:
    """One bank in a store.

    May be used from any thread. Appends of several threads that wait for each other are committed
    together: one transaction, one head, one sync.

    Args:
        store: Where the bank is.
        bank: Its id.
        writer: The key that signs heads; None for reading only.
        witness: What this machine saw of the bank; None for no protection against rollback.
        clock: Tells when records arrive.
    """

    def __init__(
        self,
        store: Store,
        bank: str,
        *,
        writer: SigningKey | None = None,
        witness: Witness | None = None,
        clock: Clock = now,
    ) -> None:
        self.bank = bank
        self._store = store
        self._writer = writer
        self._witness = witness
        self._clock = clock
        self._latest: TrustedHead | None = None
        self._begin()
        in_child(self._begin)

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
        """Start a bank: its first record says who owns it, its second admits the writer key."""
        at = clock()
        bank = seal(Bank(owner_keys=(owner.did,), created_at=at, name=name))
        ledger = cls(store, bank.id, writer=writer, witness=witness, clock=clock)
        records = [bank, admission(bank.id, writer.did, owner, at)]
        with store.writing() as writing:
            found = ledger._commit(writing, None, [_Ticket(records, 0)])
        ledger._acknowledge(found)
        return ledger

    def _begin(self) -> None:
        """Start without anything under way; a child's parent goes on with what it had."""
        self._lock = threading.Lock()
        self._queue: list[_Ticket] = []
        self._local = threading.local()

    def append(self, records: Sequence[Sealed], *, batch: int = 0) -> list[int]:
        """Add records to the log and return their places; they are durable then, and witnessed.

        Raises:
            SlotTakenError: If a record speaks of what a current one speaks of already.
            ReadOnlyStoreError: If no key may sign here.
            VerificationError: If the store is not what it was.
            StoreError: If it cannot be written; nothing of this append is kept then.
        """
        if not records:
            return []
        wrong = next((record for record in records if record.type in _NEVER_LOGGED), None)
        if wrong is not None:
            raise UsageError(f"a record of type {wrong.type} is kept beside the log")
        ticket = _Ticket(records, batch)
        self._queue.append(ticket)
        with self._lock:
            if not ticket.done:
                self._commit_waiting()
        if ticket.error is not None:
            raise ticket.error
        return ticket.places

    @contextmanager
    def reading(self) -> Iterator[View]:
        """Give one consistent, verified view.

        Raises:
            VerificationError: If the store is not what it was, or not what was signed.
            UnknownBankError: If there is no such bank.
        """
        # The witness first: a commit between the two can only make the store newer than it.
        witnessed = self._witnessed()
        with self._store.reading() as reader:
            found = self._trusted(reader, witnessed)
            yield View(reader, found.head, self._tree(reader, found))

    # -- appending -------------------------------------------------------------------------

    def _commit_waiting(self) -> None:
        """Commit what waits, all together; where that fails, one by one."""
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

    def _commit_alone(self, ticket: _Ticket) -> None:
        ticket.error = None
        try:
            self._commit_together([ticket])
        except SatchelError as error:
            ticket.error = error

    def _commit_together(self, waiting: list[_Ticket]) -> None:
        witnessed = self._witnessed()
        with self._store.writing() as writing:
            found = self._trusted(writing, witnessed)
            after = self._commit(writing, found, waiting)
        self._acknowledge(after)

    def _commit(
        self, writing: Writer, found: TrustedHead | None, waiting: Sequence[_Ticket]
    ) -> TrustedHead:
        """Add what waits to the log, under a new head."""
        writer = self._writer
        if writer is None or (found is not None and not found.authority.admits(writer.did)):
            raise ReadOnlyStoreError(
                "this machine's key may not add to the bank",
                hint="An owner has to admit it first.",
            )
        at = self._clock()
        frontier = Frontier(found.frontier.size, found.frontier.peaks) if found else Frontier()
        rows, models = list[Row](), list[Model]()
        for ticket in waiting:
            ticket.places = []  # of an attempt that failed
            for record in ticket.records:
                place = frontier.size + len(rows)
                ticket.places.append(place)
                models.append(record.model)
                rows.append(
                    derive_row(record.model, seq=place, at=at, body=record.body, batch=ticket.batch)
                )
        changes = fold(writing, self.bank, rows, models) if found else []
        leaves = [leaf_of(self.bank, row.seq, row.type, row.id, at) for row in rows]
        nodes = grown(frontier, leaves)
        counts = Counter(found.head.counts if found else {})
        counts.update(row.type for row in rows)
        head = Head(
            v=1,
            bank=self.bank,
            epoch=found.head.epoch if found else 0,
            size=frontier.size,
            root=PREFIX + frontier.root.hex(),
            counts=dict(sorted(counts.items())),
            at=at,
            key=writer.did,
        )
        signed = canonical_checked(sign_head(head, writer))
        stored = StoredHead(signed, b"".join(frontier.peaks))
        writing.append(self.bank, Commit(rows=rows, nodes=nodes, head=stored, changes=changes))
        configs = [record for ticket in waiting for record in ticket.records]
        authority = with_configs(
            found.authority if found else founding(configs[0]),
            self.bank,
            [record for record in configs if record.type == "config"],
        )
        return TrustedHead(stored, head, frontier, authority)

    def _acknowledge(self, found: TrustedHead) -> None:
        """Witness what is durable now."""
        if self._witness is not None:
            self._witness.record(msgspec.json.decode(found.stored.signed))
        self._latest = found

    # -- believing -------------------------------------------------------------------------

    def _witnessed(self) -> Head | None:
        found = self._witness.cached_last(self.bank) if self._witness is not None else None
        return found.head if found is not None else None

    def _trusted(self, reader: Reader, witnessed: Head | None) -> TrustedHead:
        """Return the store's newest head once all that can be said against it was looked at."""
        latest = self._latest  # before the store's: a commit in between makes that one newer
        stored, stamp = reader.head(self.bank), reader.stamp()
        if stored is None:
            raise missing(
                self.bank, witnessed or (latest.head if latest else None), self._store.name
            )
        if latest is not None and stored == latest.stored:
            found = latest
            if stamp != getattr(self._local, "stamp", stamp):
                require_counts(reader, found.head)
        else:
            found = opened_head(reader, self.bank, stored)
        tree = self._tree(reader, found)
        if latest is not None and found is not latest:
            require_prefix(latest.head, found.head, tree, "this program")
        if witnessed is not None and witnessed.root != found.head.root:
            require_prefix(witnessed, found.head, tree, "this machine")
        self._local.stamp = stamp
        self._latest = found
        return found

    def _tree(self, reader: Reader, found: TrustedHead) -> ProvedTree:
        """Return this thread's tree under a head, reading from a view."""
        held = getattr(self._local, "tree", None)
        if held is None or held[0] != found.stored:
            held = (found.stored, ProvedTree(found.frontier, nodes_of(reader, self.bank)))
            self._local.tree = held
        tree: ProvedTree = held[1]
        tree.fetch = nodes_of(reader, self.bank)
        return tree
