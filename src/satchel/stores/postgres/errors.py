"""What PostgreSQL says, in our words: never what it was given, since that can be a password."""

from typing import Any

from satchel.errors import (
    MissingExtraError,
    ReadOnlyStoreError,
    SatchelError,
    SlotTakenError,
    StoreBusyError,
    StoreDamagedError,
    StoreError,
    StoreFullError,
)
from satchel.stores.postgres.schema import SLOT_INDEX

try:
    import psycopg
    import psycopg.conninfo
except ImportError as error:
    raise MissingExtraError(
        "a store in PostgreSQL needs its driver",
        hint='Install it: python -m pip install "satchel[postgres]"',
    ) from error

DRIVER: Any = psycopg
"""The driver; untyped here, since it is an extra."""

_PASSING = frozenset({"53300", "57P03", "40001", "40P01"})
"""No room for another connection, still starting, beaten by another, in each other's way."""

_BUSY = frozenset({"55P03", "57014", "40001", "40P01", "53300"})
_DENIED = frozenset({"28000", "28P01"})
_MISSING = frozenset({"3F000", "42P01"})
_CHANGED = frozenset({"42703", "42883"})
_DAMAGED = frozenset({"XX001", "XX002"})


class translated:  # noqa: N801 - used as a function
    """Turn errors of the driver in a block into ours.

    Args:
        name: The store's name.

    Raises:
        StoreError: Which says what to do.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DRIVER.Error):
            # Without what it was: a server that cannot be reached is named with its address.
            raise _ours(error, self._name) from None
        if isinstance(error, UnicodeDecodeError):
            raise damaged(self._name, "it contains invalid text") from error


def is_passing(error: Any) -> bool:
    """Tell whether the same may go well in a moment."""
    return error.sqlstate in _PASSING or _is_starting(error)


def _is_starting(error: Any) -> bool:
    # While it connects, the driver does not say under which code the server refused.
    said = str(error)
    return error.sqlstate is None and (
        "the database system is" in said or "too many clients" in said or "remaining conn" in said
    )


def _ours(error: Any, name: str) -> SatchelError:
    """Return what to say instead of what PostgreSQL says."""
    code = error.sqlstate
    said = (error.diag.message_primary or "").strip() if code else ""
    if code in _BUSY:
        return StoreBusyError(
            "other clients are writing and did not finish in time",
            file=name,
            hint="Try again; see pg_stat_activity for the blocking client.",
        )
    if code == "23505":
        if error.diag.constraint_name == SLOT_INDEX:
            return SlotTakenError("a current record for the same key or origin already exists")
        return StoreError(f"rejected by the store: {said}", file=name)
    if code == "53100":
        return StoreFullError("no space left", file=name, hint="Free disk space and run again.")
    if code in _DAMAGED:
        return damaged(name, said)
    return _refused(code, said, name) or _failed(error, code, said, name)


def _refused(code: str | None, said: str, name: str) -> SatchelError | None:
    if code == "25006":
        return ReadOnlyStoreError("the server is read-only", file=name)
    if code == "42501":
        return ReadOnlyStoreError(
            f"permission denied for the role: {said}",
            file=name,
            hint="Ask the owner of the tables to grant it.",
        )
    if code == "25P02":
        return StoreError(
            "an earlier statement of this transaction failed",
            file=name,
            hint="See: satchel doctor.",
        )
    if code in _MISSING:
        return StoreError(
            "the tables of the store are missing: its schema was dropped or renamed, or the "
            "address is wrong",
            file=name,
            hint=(
                "Check the schema and database of the address. To restore a backup: satchel backup "
                "restore. To create a new store: satchel init"
            ),
        )
    if code in _CHANGED:
        return StoreError(
            "the tables of the store are damaged: a column or a function is missing",
            file=name,
            hint="Undo the change of the schema, or restore a backup: satchel backup restore."
            " See: satchel doctor.",
        )
    return None


def _failed(error: Any, code: str | None, said: str, name: str) -> StoreError:
    if code in _DENIED or (code is None and "authentication failed" in str(error)):
        return StoreError("the server rejects the role or its password", file=name)
    if code == "3D000" or (code is None and "does not exist" in str(error)):
        return StoreError("no such database or role", file=name)
    if code is None or code.startswith(("08", "57P")):
        return gone(name)
    return StoreError(f"the store failed: {said}", file=name)


def gone(name: str) -> StoreError:
    """Return the error for a server that does not answer, or not any more."""
    return StoreError(
        "the server does not respond",
        file=name,
        hint="Check that it runs and is reachable. Acknowledged writes are durable.",
    )


def damaged(name: str, what: str) -> StoreDamagedError:
    """Return the error for tables that do not hold what they have to."""
    return StoreDamagedError(
        f"the database is damaged: {what}",
        file=name,
        hint="Do not change it, and run: satchel doctor.",
    )
