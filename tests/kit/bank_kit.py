"""Open banks of a test's home, and their contents."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from satchel.bank.changes import remember
from satchel.bank.listings import ListRequest, list_memories
from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.setup.init import open_bank_for_writing


def owner() -> SigningKey:
    """Return the default owner's key, created on first use."""
    return signing_key(load_settings())[0]


@contextmanager
def filled(wanted: str | None = None) -> Iterator[OpenBank]:
    """Open a bank of the test's home for writing."""
    with open_bank_for_writing(load_settings(), wanted, owner) as bank:
        yield bank


def keep(bank: OpenBank, text: str | None, **members: Any) -> str:
    """Remember a text and return its ID; ``key`` and ``parents`` are those of ``remember``."""
    more = {name: members.pop(name) for name in ("key", "parents") if name in members}
    return remember(bank, {"text": text, **members}, **more).id


def texts(bank: OpenBank, **wanted: Any) -> list[str | None]:
    """Return the texts of a listing."""
    return [memory.text for memory in list_memories(bank, ListRequest(**wanted))]


def types(bank: OpenBank) -> list[str]:
    """Return the types of all records of the log."""
    with bank.ledger.reading() as view:
        return [logged.record.type for logged in view.scan()]
