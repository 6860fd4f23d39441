"""Banks with imported memory."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from satchel.bank.banks import create_bank
from satchel.bank.connections import configured_store, open_ledger
from satchel.bank.machine_keys import signing_key
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import Sealed, seal
from satchel.ledger.ledger import Ledger
from satchel.ledger.transaction import closing_receipt
from satchel.model.records import Source
from satchel.model.values import now
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, formats


def imported(ledger: Ledger, path: Path, name: str = "mem0", group: int = 1000) -> str:
    """Import a file as a batch, and return the ID of its source record."""
    reading = ReadContext()
    records = list(read_records(formats[name], Location(path), reading))
    source = seal(Source(provider=name, format=name, container=reading.container))
    ledger.append([source])
    for start in range(0, len(records), group):
        ledger.append(records[start : start + group], batch=source.id)
    ledger.append([closing_receipt(source.id, now())])
    return source.id


def new_bank(name: str = "assistant") -> str:
    """Create a bank of this machine in the configured store, and return its ID."""
    settings = load_settings()
    key, _ = signing_key(settings, None)
    return create_bank(settings, name, key).id


def append(bank: str, records: Sequence[Sealed], store: str | None = None) -> None:
    """Append records to a bank on this machine."""
    settings = load_settings(store=store)
    with configured_store(settings) as found:
        open_ledger(settings, found, bank, writes=True).append(records)


def import_into(bank: str, path: Path, name: str = "mem0") -> str:
    """Import a file into a bank on this machine."""
    settings = load_settings()
    with configured_store(settings) as found:
        return imported(open_ledger(settings, found, bank, writes=True), path, name)


def document(path: Path) -> Any:
    """Return the JSON value of a file."""
    return json.loads(path.read_bytes())
