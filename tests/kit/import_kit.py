"""Files of Mem0 rows, imported into banks of a test's home."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest import mock

from satchel.bank.machine_keys import signing_key
from satchel.bank.open_bank import open_bank
from satchel.config.settings import load_settings
from satchel.crypto.keys import SigningKey
from satchel.model.records import Entry
from satchel.ports.rows import Filter
from satchel.transfer import import_stage
from satchel.transfer.conversion import ConvertOptions, convert
from satchel.transfer.import_results import ImportOptions, ImportSummary
from satchel.transfer.imports import import_file, list_jobs


def rows(*given: tuple[str, str], user: str | None = "ada", **more: Any) -> list[dict[str, Any]]:
    """Return Mem0 rows of an owner, from IDs and texts."""
    owner = {} if user is None else {"user_id": user}
    return [{"id": name, "memory": text, **owner, **more} for name, text in given]


def write(path: Path, *parts: list[dict[str, Any]]) -> Path:
    """Write a Mem0 file."""
    path.write_text(json.dumps([row for part in parts for row in part]))
    return path


def owner() -> SigningKey:
    """Return this machine's owner key."""
    return signing_key(load_settings())[0]


def bring(path: Path | str, bank: str | None = "b", **options: Any) -> ImportSummary:
    """Import a file, or an address."""
    return import_file(load_settings(), path, bank, owner, ImportOptions(**options))


def opened(bank: str = "b") -> Any:
    """Open a bank for writing."""
    return open_bank(load_settings(), bank, writes=True)


def texts(bank: str = "b", *, retired: bool = False) -> list[str | None]:
    """Return the texts of a bank's memories, in the order of the log."""
    with opened(bank) as there, there.ledger.reading() as view:
        found = view.scan(Filter(retired=retired))
        return [one.model.text for one in found if isinstance(one.model, Entry)]


def size(bank: str = "b") -> int:
    """Return how many records a bank's log has."""
    with opened(bank) as there, there.ledger.reading() as view:
        return int(view.head.size)


class KilledError(BaseException):
    """An exception that no handler catches."""


def killing(at: int) -> Any:
    """Return a progress callback that raises ``KilledError`` at the given call."""
    calls = iter(range(10**6))

    def told(_done: int, _total: int) -> None:
        if next(calls) == at:
            raise KilledError

    return told


def killed(path: Path, bank: str | None = "b", at: int = 0, **options: Any) -> str:
    """Start an import that is killed, and return the ID of its job.

    It is logged in several transactions, like a large one; a small one leaves no job.
    """
    with suppress(KilledError), mock.patch.object(import_stage, "COMMIT_BYTES", 1):
        bring(path, bank, on_logging=killing(at), **options)
    return list_jobs(load_settings())[-1].id


A, B, C = ("1", "tea"), ("2", "coffee"), ("3", "water")
"""Three memories of Mem0: IDs and texts."""


def sealed_from(
    source: Path, output: Path, *, key: SigningKey | None = None, sign: bool = True
) -> Path:
    """Convert a file to a sealed one, signed with this machine's key by default."""
    signer = (key or owner()) if sign else None
    convert(source, output, load_settings(), ConvertOptions(key=signer))
    return output
