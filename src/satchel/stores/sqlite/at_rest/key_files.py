"""The key beside a store: ``NAME.key``, and ``NAME.key.next`` while it is being changed.

A new key is on the disk before the file that it opens takes the place of the old one. Whoever is
cut short in between leaves both, of which one opens the store.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from satchel.disk.databases.ciphers import KEY_ENDING, is_plain, looks_encrypted
from satchel.disk.reading import reading
from satchel.disk.secret import require_secret
from satchel.disk.writing import PRIVATE_FILE, writing
from satchel.errors import (
    EncryptionError,
    LimitError,
    SatchelError,
    StoreBusyError,
    VerificationError,
)
from satchel.seal.encryption.store_keys import MOST_BYTES, StoreKey, opened_store_key
from satchel.seal.encryption.unlocking import Unlocking
from satchel.stores.sqlite.opening import open_for_reading

_BUSY_MS = 30_000


def key_file(path: Path) -> Path:
    """Return where the key of a store is, if it has one."""
    return path.with_name(path.name + KEY_ENDING)


def next_file(path: Path) -> Path:
    """Return where the key is that a store is being given."""
    return path.with_name(f"{path.name}{KEY_ENDING}.next")


def is_keyed(path: Path) -> bool:
    """Tell whether a store is encrypted, or is going to be when it is made."""
    if os.path.lexists(key_file(path)):
        return True
    return os.path.lexists(next_file(path)) and is_plain(path) is False


def key_for(path: Path, unlocking: Unlocking | None = None) -> StoreKey | None:
    """Return the key that opens a store; None for one in plain, also one that is still to be made.

    Args:
        path: The store's file.
        unlocking: What opens the file with the key.

    Raises:
        EncryptionError: If nothing here opens the key, it is not there, or it opens another store.
        VerificationError: If the store is in plain although there is a key for it.
        MalformedError: If the file with the key holds none.
        MissingExtraError: If what decrypts is not installed.
    """
    found = [one for one in (key_file(path), next_file(path)) if os.path.lexists(one)]
    plain = is_plain(path) if found else None
    if not found:
        return None
    if plain and found[0] == next_file(path):
        return None  # it was cut short before the store was encrypted
    if plain:
        raise VerificationError(
            "the store is not encrypted, although its key file exists",
            file=str(path),
            hint=(
                "If decryption was interrupted, finish it: satchel store decrypt. If not, the file "
                "was replaced: move the encrypted one back."
            ),
        )
    problem: EncryptionError | None = None
    for one in found:
        try:
            key = opened_key(one, unlocking)
        except EncryptionError as error:
            problem = problem or error
        else:
            if len(found) == 1 or plain is None or _opens(path, key):
                return key
    raise problem or EncryptionError("no key file of the store decrypts it", file=str(path))


def opened_key(file: Path, unlocking: Unlocking | None) -> StoreKey:
    """Return the key in a file; raises as ``key_for``."""
    with reading(file) as stream:
        require_secret(file, os.fstat(stream.fileno()), "the key of this store")
        held = stream.read(MOST_BYTES + 1)
    if len(held) > MOST_BYTES:
        raise LimitError(f"a store's key can have at most {MOST_BYTES:,} bytes", file=str(file))
    try:
        return opened_store_key(held, unlocking or Unlocking())
    except SatchelError as error:
        raise error.located(file=str(file)) from error.__cause__


def put_next(path: Path, old: StoreKey | None, new: StoreKey | None) -> None:
    """Put a key on the disk that a store is going to be given, by who has it to himself.

    Args:
        path: The store's file.
        old: The key that it has. Where an earlier change was cut short, it is settled first.
        new: The key that it gets; None for none.

    Raises:
        TargetError: If it cannot be written.
        OSError: If the folder cannot be.
    """
    file = next_file(path)
    if old is not None and os.path.lexists(file) and file.read_bytes() == old.held:
        settle(path, encrypted=True)
    if new is not None:
        _put(file, new)


def put_key(path: Path, key: StoreKey) -> None:
    """Put the key of a store that is to be made beside it.

    Raises:
        TargetExistsError: If there is one.
        TargetError: If it cannot be written.
    """
    _put(key_file(path), key, overwrite=False)


@contextmanager
def copied_key(path: Path, key: StoreKey | None) -> Iterator[None]:
    """Put the key of a store beside a copy that is made in a block, or nothing for one in plain.

    Raises:
        TargetExistsError: If there is one.
        TargetError: If it cannot be written.
    """
    if key is None:
        yield
        return
    put_key(path, key)
    try:
        yield
    except BaseException:
        key_file(path).unlink()
        raise


def settle(path: Path, *, encrypted: bool) -> None:
    """Have the key that a store was given be its key; or have it have none.

    Raises:
        OSError: If the folder cannot be written.
    """
    if encrypted:
        next_file(path).replace(key_file(path))
    else:
        for one in (key_file(path), next_file(path)):
            with suppress(FileNotFoundError):
                one.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def require_key(path: Path) -> None:
    """Say of a file that SQLite cannot read without a key that it is encrypted, where it is.

    Raises:
        EncryptionError: If its key is not there.
        StoreBusyError: If it is: somebody put it there since it was looked for.
    """
    if is_keyed(path):
        raise StoreBusyError(
            "the store was encrypted by another process",
            file=str(path),
            hint="Restart the programs that had it open.",
        )
    if looks_encrypted(path):
        raise EncryptionError(
            "the store is encrypted, and its key file is missing",
            file=str(path),
            hint=(
                f"Put {key_file(path).name} there, from a copy. The store cannot be opened without "
                "it; a backup can be restored into another store."
            ),
        )


def _put(file: Path, key: StoreKey, *, overwrite: bool = True) -> None:
    with writing(file, overwrite=overwrite, mode=PRIVATE_FILE) as stream:
        stream.write(key.held)


def _opens(path: Path, key: StoreKey) -> bool:
    try:
        open_for_reading(path, busy_ms=_BUSY_MS, vfs=None, secret=key.secret).connection.close()
    except EncryptionError:
        return False
    return True
