"""Memory files in the hands of whoever presented a capability token: each call asks again.

Files belong to the bank as a whole, as conversations do: a scope speaks of entries, and a file is
none, so a token for a part of the bank opens no file. One for everything lets files be read with
``read``, and changed with ``read`` and ``write``. Rules, promotion and erasing are the owner's.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from satchel.actions.config import Settings
from satchel.actions.opened import OpenBank, find_bank, opened_bank
from satchel.errors import PermissionRefusedError, ReadOnlyStoreError, UnknownBankError, UsageError
from satchel.files import MemoryStore

READING = frozenset(
    {
        *("read_text", "read_json", "read_bytes", "read_version", "list_paths", "glob", "search"),
        *("history", "diff", "current_sha", "get_meta", "_path_exists", "audit_tail", "unmanaged"),
        *("verify_audit", "refresh"),
    }
)
"""What needs ``read`` alone."""

CHANGING = frozenset(
    {
        *("write_text", "write_json", "write_bytes", "write_many", "append_text", "edit", "delete"),
        *("rename", "restore", "flush_messages", "save", "sync", "change"),
    }
)
"""What needs ``write`` as well. Anything else is the owner's."""


@contextmanager
def held_bank(settings: Settings, key: str | None) -> Iterator[OpenBank]:
    """Open the bank of a token whose holder may read its memory files.

    Raises:
        PermissionRefusedError: If the token does not allow it, or speaks of a part of the bank.
        TokenError: If it does not hold, or is for a bank of another name.
    """
    with opened_bank(settings, key) as bank:
        require_reading(bank)
        yield bank


def require_reading(bank: OpenBank) -> None:
    """Require that a holder may read the memory files of a bank; see ``held_bank``."""
    bank.asked("read files")
    if bank.bearer is not None and not bank.bearer.chain.is_wildcard:
        raise PermissionRefusedError(
            "the token covers memories only, not memory files",
            field="scope",
            hint="Ask the owner for a token with --everything: satchel token issue.",
        )
    if not bank.name:
        raise PermissionRefusedError("the bank has no name, so it has no memory files")
    try:
        alone = find_bank(bank.store, bank.name) == bank.id
    except (UsageError, UnknownBankError):
        alone = False
    if not alone:  # the files of a name that several have may be of another one
        raise PermissionRefusedError("another bank has the same name")


def hold(store: MemoryStore, bank: OpenBank) -> None:
    """Have a store ask the token of a bank before each call, and name its holder as the actor."""
    if bank.bearer is None:
        return

    def leave(name: str) -> None:
        if name not in READING | CHANGING:
            raise PermissionRefusedError(
                f"only the owner may do this, with no token: {name}",
                hint="As the owner, drop --token and unset SATCHEL_TOKEN.",
            )
        bank.asked("read files" if name in READING else "change files")

    store.leave, store.acting = leave, bank.bearer.name


def only_read(store: MemoryStore) -> None:
    """Have a store refuse whatever changes it."""

    def leave(name: str) -> None:
        if name not in READING:
            raise ReadOnlyStoreError("opened read-only", file=str(store.root))

    store.leave = leave
