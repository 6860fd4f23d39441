"""Machines that share a store, and an attacker with the store and a writer's key."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ledger_kit import OWNER, WRITER, created, memories

from satchel.crypto.canonical import canonical_checked, decode_canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Frontier, Head, append_leaves, record_leaf, sign_head
from satchel.crypto.sealed_records import PREFIX, Sealed
from satchel.ledger.decisions import KeyDecider
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Config
from satchel.ports.rows import derive_row
from satchel.ports.store import Commit, StoredHead
from satchel.stores.memory import InMemoryStore

THIEF = SigningKey.from_seed(b"t" * 32)
"""A key that no owner knows."""

FOUNDING = 2


class Machine:
    """A writer's key and a witness, at a store that may be rolled back."""

    def __init__(
        self,
        store: InMemoryStore,
        bank: str,
        witness: Path,
        *,
        writer: SigningKey = WRITER,
        trusted: frozenset[str] | None = None,
    ) -> None:
        self.store, self.bank, self.writer, self.trusted = store, bank, writer, trusted
        self._folder = witness

    @property
    def witness(self) -> Witness:
        """The witness as a new process reads it."""
        return Witness(self._folder)

    def ledger(self) -> Ledger:
        """Open the bank as a new process does."""
        return Ledger(
            self.store, self.bank, writer=self.writer, witness=self.witness, trusted=self.trusted
        )

    def add(self, count: int, start: int) -> list[str]:
        """Append memories and return their IDs."""
        records = memories(count, start)
        self.ledger().append(records)
        return [record.id for record in records]

    def listed(self) -> list[str]:
        """Return the IDs of all records, each verified."""
        with self.ledger().reading() as view:
            return [logged.record.id for logged in view.scan()]

    def notes(self) -> tuple[str, ...]:
        """Return the notes of a read."""
        with self.ledger().reading() as view:
            return view.notes

    def standing(self) -> str:
        """Return the trust that this machine has in the bank."""
        with self.ledger().reading() as view:
            return view.standing

    def decider(
        self, owner: SigningKey = OWNER, *also: SigningKey, witness: Witness | None = None
    ) -> KeyDecider:
        """Return the keys of one owner or several at this machine."""
        return KeyDecider(
            store=self.store,
            bank=self.bank,
            owner=owner,
            also=also,
            writer=self.writer,
            witness=witness or self.witness,
        )


def machine(root: Path, name: str = "one", **members: Any) -> Machine:
    """Return a machine with a new bank of three records besides the founding ones."""
    store = InMemoryStore()
    folder = root / name
    bank = created(store, Witness(folder)).bank
    made = Machine(store, bank, folder, **members)
    made.add(3, start=0)
    return made


def backup(store: InMemoryStore) -> InMemoryStore:
    """Return a copy of a store."""
    copy = InMemoryStore()
    put_back(copy, store)
    return copy


def put_back(store: InMemoryStore, copy: InMemoryStore) -> None:
    """Replace a store by another one, also for those that have it open."""
    store._banks = dict(copy._banks)  # no store offers that


def head_of(store: InMemoryStore, bank: str) -> Head:
    """Return the head of a store, unchecked."""
    with store.reading() as reader:
        stored = reader.head(bank)
    assert stored is not None
    value: Any = decode_canonical(stored.signed)
    return Head(**value["signed"])


def forge(
    store: InMemoryStore,
    bank: str,
    records: Sequence[Sealed],
    key: SigningKey = WRITER,
    *,
    epoch: int | None = None,
) -> None:
    """Append without checks, in any epoch and with any key."""
    head = head_of(store, bank)
    with store.writing() as writing:
        stored = writing.head(bank)
        assert stored is not None
        peaks = [stored.peaks[place : place + 32] for place in range(0, len(stored.peaks), 32)]
        frontier = Frontier(head.size, peaks)
        rows = [
            derive_row(record.model, seq=place, at=head.at, body=record.body)
            for place, record in enumerate(records, head.size)
        ]
        nodes = append_leaves(
            frontier, [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
        )
        forged = Head(
            v=1,
            bank=bank,
            epoch=head.epoch if epoch is None else epoch,
            size=frontier.size,
            root=PREFIX + frontier.root.hex(),
            counts=dict(sorted((Counter(head.counts) + Counter(r.type for r in rows)).items())),
            at=head.at,
            key=key.did,
        )
        signed = canonical_checked(sign_head(forged, key))
        kept = StoredHead(signed, b"".join(frontier.peaks))
        writing.append(bank, Commit(rows=rows, nodes=nodes, head=kept))


def configs(store: InMemoryStore, bank: str) -> list[Sealed]:
    """Return the config records of a log, in order, unchecked."""
    with store.reading() as reader:
        rows = reader.at(bank, range(head_of(store, bank).size))
    rows = sorted((row for row in rows if row.type == "config"), key=lambda row: row.seq)
    return [Sealed(row.id, row.type, row.body or b"") for row in rows]


def actions(store: InMemoryStore, bank: str) -> list[str]:
    """Return the actions of a log's config records, in order."""
    models = [record.model for record in configs(store, bank)]
    return [model.action for model in models if isinstance(model, Config)]
