"""Encrypted files in the place of plain ones: read as what is in them, written as they are asked.

Plain bytes are only in a nameless temporary file, which is gone with the process.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast

from satchel.crypto.age import (
    HEAD_BYTES,
    Lock,
    Unlocker,
    decrypt,
    decrypt_with,
    encrypt,
    is_encrypted,
    new_identity,
)
from satchel.errors import TargetError, UsageError
from satchel.runtime.atomic_files import PRIVATE_FILE
from satchel.runtime.input import OpenFile, open_input
from satchel.runtime.output import Outlet, WrappedOutlet

SUFFIX = ".age"
"""How the names of encrypted files end."""


@contextmanager
def plain_file(file: OpenFile, unlocking: Unlocker) -> Iterator[OpenFile]:
    """Give a file as it is, or, where it is encrypted, what is in it.

    Raises:
        EncryptionError, LimitError, MalformedError: As ``age.decrypt``.
        TargetError: If the temporary folder is full.
    """
    with open_input(file) as stream:
        is_plain = not is_encrypted(stream.read(HEAD_BYTES))
    if is_plain:
        yield file
        return
    with _temporary() as plain:
        with open_input(file) as stream:
            decrypt(stream, plain, unlocking)
        plain.flush()
        with OpenFile(os.dup(plain.fileno()), file.path) as found:
            yield found


class EncryptedOutlet(WrappedOutlet):
    """A name that an encrypted file is going to have; who writes to it writes plain bytes.

    What is written can be read back until the outlet is closed, by an identity that is made for
    that and thrown away then.

    Args:
        inner: The name.
        lock: For whom.
    """

    def __init__(self, inner: Outlet, lock: Lock) -> None:
        super().__init__(inner)
        self._lock = lock
        self._reader, self._recipient = new_identity()

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Give a file to write plain bytes to; see ``Outlet.writing``."""
        with self._inner.writing(overwrite=overwrite, mode=mode) as sink, _temporary() as plain:
            yield plain
            plain.seek(0)
            encrypt(plain, sink, self._lock, self._recipient)

    @contextmanager
    def proving(self) -> Iterator[None]:
        """Keep what is written from its name until the block ends; see ``Outlet.proving``."""
        with self._inner.proving():
            yield

    def written(self) -> OpenFile:
        """Open what was written, decrypted from what is on the disk; the caller closes it."""
        with self._inner.written() as file, _temporary() as plain, open_input(file) as stream:
            decrypt_with(stream, plain, self._reader)
            plain.flush()
            return OpenFile(os.dup(plain.fileno()), self.path)

    def stored(self) -> OpenFile:
        """Open the encrypted file as it is on the disk; the caller closes it."""
        return self._inner.written()

    def remove(self) -> None:
        """Take what has the name away."""
        self._inner.remove()


def encrypted_outlet(outlet: Outlet, lock: Lock) -> Outlet:
    """Return an outlet as it is, or one that encrypts what is written to it.

    Raises:
        UsageError: If its name says that it is encrypted, and it would not be.
        MissingExtraError: If what encrypts is not installed.
    """
    if lock.is_set:
        return EncryptedOutlet(outlet, lock)
    if outlet.path.name.endswith(SUFFIX):
        raise UsageError(
            "the file name ends in .age, but no recipient is given",
            file=str(outlet),
            hint="Add --encrypt-to age1..., or --encrypt-passphrase.",
        )
    return outlet


@contextmanager
def _temporary() -> Iterator[BinaryIO]:
    try:
        with tempfile.TemporaryFile() as plain:
            yield cast("BinaryIO", plain)
    except OSError as error:
        raise TargetError(
            f"cannot write temporary data: {error.strerror or error}",
            file=tempfile.gettempdir(),
            hint="Free disk space there, or set TMPDIR to a larger folder.",
        ) from error
