"""Giving SQLite a key: ChaCha20-Poly1305 for each page, of the file, its log and what is temporary.

The pages are those of SQLite3 Multiple Ciphers, which the package ``apsw-sqlite3mc`` brings. The
package ``apsw`` is the same module without it; it opens files in plain as well.
"""

from contextlib import closing
from pathlib import Path

import apsw

from satchel.errors import EncryptionError, MissingExtraError

KEY_ENDING = ".key"
"""What a store's name gets for the file with its key."""

_CIPHER = "chacha20"
_MAGIC = b"SQLite format 3\x00"
_HEAD_BYTES = 24
_UNCHANGED = slice(21, 24)  # of a first page that is encrypted; for SQLite, each byte is a constant
_CONSTANTS = b"\x40\x20\x20"


def unlock(connection: apsw.Connection, secret: bytes, name: str) -> None:
    """Have a connection that was just opened use a key.

    Args:
        connection: Of a file system that ``with_ciphers`` names.
        secret: 32 bytes.
        name: What to call the store.

    Raises:
        MissingExtraError: If this SQLite cannot encrypt.
        EncryptionError: If the file is not one that the key opens.
        apsw.Error: If it cannot be read.
    """
    if not has_ciphers():
        raise MissingExtraError(
            "the store is encrypted, but another package named apsw shadows apsw-sqlite3mc",
            file=name,
            hint="Reinstall it: pip uninstall apsw; pip install --force-reinstall apsw-sqlite3mc",
        )
    connection.pragma("cipher", _CIPHER)
    connection.pragma("key", f"raw:{secret.hex()}")
    try:
        connection.pragma("schema_version")
    except apsw.NotADBError:
        raise EncryptionError(
            "the store cannot be decrypted with its key",
            file=name,
            hint=f"It was altered, or {Path(name).name}{KEY_ENDING} is the key of another store.",
        ) from None


def answers(connection: apsw.Connection) -> bool:
    """Tell whether a connection with a key can still be used.

    Once a page could not be read, such a connection takes every page for damaged, although the
    next read of it might succeed; one that is opened anew does not.
    """
    try:
        connection.pragma("schema_version")
    except (apsw.CorruptError, apsw.NotADBError):
        return False
    except apsw.Error:
        pass  # told to whoever uses it
    return True


def has_ciphers() -> bool:
    """Tell whether this SQLite can encrypt."""
    return hasattr(apsw, "mc_version")


def with_ciphers(vfs: str | None) -> str | None:
    """Return the file system that encrypts what goes to another; None is the usual one of each."""
    return vfs if vfs is None else f"multipleciphers-{vfs}"


def is_plain(path: Path) -> bool | None:
    """Tell whether a file is an SQLite database in plain; None where it has no beginning.

    It is read through SQLite: when a program closes a descriptor of its own, the system drops the
    locks that SQLite holds on the file for that program.
    """
    head = _head(path)
    return head.startswith(_MAGIC) if head else None


def looks_encrypted(path: Path) -> bool:
    """Tell whether a file begins like an encrypted store."""
    head = _head(path)
    return not head.startswith(_MAGIC) and head[_UNCHANGED] == _CONSTANTS


def _head(path: Path) -> bytes:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOFOLLOW
    try:
        with closing(apsw.Connection(str(path.absolute()), flags=flags)) as connection:
            whole, head = connection.read("main", 0, 0, _HEAD_BYTES)
    except apsw.Error:
        return b""
    return bytes(head) if whole else b""
