"""Banks with memory in them, as an import leaves them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from satchel.actions.banks import create_bank
from satchel.actions.config import load_settings
from satchel.actions.signing import signing_key
from satchel.actions.wiring import open_ledger, opened_store
from satchel.ledger.batches import closing
from satchel.ledger.ledger import Ledger
from satchel.memory.records import Source
from satchel.memory.times import now
from satchel.ports.format import Reading
from satchel.ports.place import Place
from satchel.ports.registry import formats
from satchel.ports.taking import taken
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal


def imported(ledger: Ledger, path: Path, name: str = "mem0", group: int = 1000) -> str:
    """Import a file as a batch, and return the id of its source record."""
    reading = Reading()
    records = list(taken(formats[name], Place(path), reading))
    source = seal(Source(provider=name, format=name, container=reading.container))
    ledger.append([source])
    for start in range(0, len(records), group):
        ledger.append(records[start : start + group], batch=source.id)
    ledger.append([closing(source.id, now())])
    return source.id


def new_bank(name: str = "assistant") -> str:
    """Make a bank of this machine's own in the configured store, and return its id."""
    settings = load_settings()
    key, _ = signing_key(settings, None)
    return create_bank(settings, name, key).id


def append(bank: str, records: Sequence[Sealed], store: str | None = None) -> None:
    """Add records to a bank on this machine."""
    settings = load_settings(store=store)
    with opened_store(settings) as found:
        open_ledger(settings, found, bank, writes=True).append(records)


def import_into(bank: str, path: Path, name: str = "mem0") -> str:
    """Import a file into a bank on this machine."""
    settings = load_settings()
    with opened_store(settings) as found:
        return imported(open_ledger(settings, found, bank, writes=True), path, name)


def document(path: Path) -> Any:
    """Return the JSON that a file holds."""
    return json.loads(path.read_bytes())
