"""Banks for tests of the ledger: records, listings, and notes on failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.witness import Witness
from satchel.model.records import Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.store import Store

OWNER, WRITER = SigningKey.from_seed(b"o" * 32), SigningKey.from_seed(b"w" * 32)


def memories(count: int, start: int = 0) -> list[Sealed]:
    """Return records that differ by their number."""
    return [
        seal(
            Semantic(
                text=f"memory {number}",
                kind="note",
                scope=Scope(user="ada", run=f"r{number % 3}"),
                created_at="2026-01-01T00:00:00.000000Z",
                origin=Origin(provider="test", id=str(number)),
            )
        )
        for number in range(start, start + count)
    ]


def created(store: Store, witness: Witness | None = None) -> Ledger:
    """Create a bank that the writer's key may append to."""
    return Ledger.create(store, owner=OWNER, writer=WRITER, witness=witness)


def opened(store: Store, bank: str, witness: Path | None) -> Ledger:
    """Open a bank as a new process does."""
    seen = Witness(witness) if witness else None
    return Ledger(store, bank, writer=WRITER, witness=seen)


def listed(ledger: Ledger) -> list[str]:
    """Return the IDs of all records by an ordinary listing, which verifies each of them."""
    with ledger.reading() as view:
        return [logged.record.id for logged in view.scan()]


def require_not_ahead(witness: Path, ledger: Ledger) -> None:
    """Assert that the witnessed state is one that the store has reached."""
    found = Witness(witness).last(ledger.bank)
    with ledger.reading() as view:
        assert found is None or found.head.size <= view.head.size


@contextmanager
def noting(what: str) -> Iterator[None]:
    """Add a note to every failure on how to reproduce it."""
    try:
        yield
    except BaseException as error:
        error.add_note(what)
        raise
