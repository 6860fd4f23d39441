"""Encrypt and decrypt files of any kind."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from satchel.bank.machine_keys import lock_for
from satchel.config.options import (
    NOT_FOR_MODELS,
    SECRETS,
    Overwrite,
    file_to_read,
    file_to_write,
    stored_file,
)
from satchel.config.settings import Settings
from satchel.crypto.encryption import HEAD_BYTES, NOBODY, EncryptedOutlet, Lock, is_encrypted
from satchel.errors import EmptyInputError, UsageError
from satchel.ports.operations import Option, Options, PathText, operation, texts
from satchel.runtime.files import OpenFile, file_digest, open_input
from satchel.runtime.output import Outlet, refuse_existing
from satchel.runtime.scratch import CHUNK


class FileEncryption(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An encrypted or decrypted file."""

    output: str
    output_digest: str
    output_bytes: int
    recipients: list[str] = []
    passphrase: bool = False
    """Whether a passphrase decrypts it."""


_FILES = {**NOT_FOR_MODELS, "python": SECRETS, "http": SECRETS}

Source = Annotated[PathText, Option("File to read.", argument=True, metavar="IN", values="file")]
Output = Annotated[
    PathText,
    Option("File to write; - for standard output.", argument=True, metavar="OUT", values="file"),
]


@dataclass(frozen=True, slots=True)
class EncryptOptions(Options):
    """The file to encrypt, and its recipients."""

    source: Source
    output: Output
    _: KW_ONLY
    recipients: Annotated[
        str | Sequence[str],
        Option(
            "Recipient: age1..., a file of recipients, or an identity stored here. Repeatable.",
            flag="--recipient",
            short="-r",
        ),
    ] = ()
    passphrase: Annotated[bool, Option("Encrypt with a passphrase (prompted for).")] = False
    overwrite: Overwrite = False


@operation(
    EncryptOptions,
    name="encrypt",
    example="satchel encrypt memory.pam memory.pam.age --recipient age1...",
    absent=_FILES,
)
def encrypt(
    settings: Settings,
    options: EncryptOptions,
    *,
    new_file_passphrase: Callable[[], str] | None = None,
) -> FileEncryption:
    """Encrypt a file for one or more recipients.

    Commands that read files read encrypted ones too, with an identity that is stored here, with
    `satchel --identity FILE`, or by a passphrase. Encryption does not identify the author of a
    file: a signature does.

    Args:
        settings: Settings with the identities and the allowed paths.
        options: The file and its recipients.
        new_file_passphrase: Returns the passphrase.

    Raises:
        UsageError: If there is no recipient, or the file is already encrypted.
        UnreadableError, TargetError: If a file cannot be read or written.
        MissingExtraError: If the extra for encryption is not installed.
    """
    ask = new_file_passphrase if options.passphrase else None
    lock = lock_for(settings, texts(options.recipients), None if ask is None else ask())
    source, output = Path(options.source), Path(options.output)
    return encrypt_file(settings, source, output, lock, overwrite=options.overwrite)


@dataclass(frozen=True, slots=True)
class DecryptOptions(Options):
    """The file to decrypt, and the output."""

    source: Source
    output: Output
    _: KW_ONLY
    overwrite: Overwrite = False


@operation(
    DecryptOptions,
    name="decrypt",
    example="satchel --identity laptop.txt decrypt memory.pam.age memory.pam",
    absent=_FILES,
)
def decrypt(settings: Settings, options: DecryptOptions) -> FileEncryption:
    """Decrypt a file, with an identity that is stored here or named before the command.

    The decrypted file has mode 0600.

    Args:
        settings: Settings with the identities and the allowed paths.
        options: The file and the output.

    Raises:
        EncryptionError: If no identity here decrypts it, or it was truncated or altered.
        UsageError: If it is not encrypted.
    """
    source, output = Path(options.source), Path(options.output)
    return decrypt_file(settings, source, output, overwrite=options.overwrite)


def encrypt_file(
    settings: Settings, source: Path, output: Path | Outlet, lock: Lock, *, overwrite: bool = False
) -> FileEncryption:
    """Encrypt a file atomically; the output is decrypted again and compared.

    Args:
        settings: Settings with the allowed paths.
        source: The file; it must not be encrypted.
        output: The encrypted file.
        lock: The recipients.
        overwrite: Replace an existing file.

    Raises:
        UsageError: If there is no recipient, or the file is already encrypted.
        UnreadableError, TargetError: If a file cannot be read or written.
        MissingExtraError: If the extra for encryption is not installed.
    """
    if not lock.is_set:
        raise UsageError(
            "no recipient or passphrase given", hint="Add --recipient or --passphrase."
        )
    with stored_file(settings, source) as file, file_to_write(settings, output) as outlet:
        with open_input(file) as stream:
            head = stream.read(HEAD_BYTES)
        if is_encrypted(head):
            raise UsageError("the file is already encrypted", file=str(source))
        if not head:
            raise EmptyInputError("the file is empty", file=str(source))
        _copy(file, EncryptedOutlet(outlet, lock), overwrite=overwrite)
        return _file_result(outlet, lock)


def decrypt_file(
    settings: Settings, source: Path, output: Path | Outlet, *, overwrite: bool = False
) -> FileEncryption:
    """Decrypt a file; the output is written only if all of the input is intact.

    Args:
        settings: Settings with the identities and the allowed paths.
        source: The file.
        output: The decrypted file, with mode 0600.
        overwrite: Replace an existing file.

    Raises:
        EncryptionError: If no identity here decrypts it, or it was truncated or altered.
        UsageError: If it is not encrypted.
        LimitError: If its passphrase needs too much work.
    """
    with stored_file(settings, source) as stored, file_to_write(settings, output) as outlet:
        refuse_existing(outlet, overwrite=overwrite)
        with open_input(stored) as stream:
            if not is_encrypted(stream.read(HEAD_BYTES)):
                raise UsageError("the file is not encrypted", file=str(source))
        with file_to_read(settings, stored) as plain:
            _copy(plain, outlet, overwrite=overwrite)
        return _file_result(outlet, NOBODY)


def _copy(file: OpenFile, outlet: Outlet, *, overwrite: bool) -> None:
    refuse_existing(outlet, overwrite=overwrite)
    with outlet.defer_publication():
        with open_input(file) as stream, outlet.writing(overwrite=overwrite) as sink:
            shutil.copyfileobj(stream, sink, CHUNK)
        with outlet.written() as made:
            again, before = file_digest(made), file_digest(file)
        if again != before:
            outlet.remove()
            raise UsageError("the file changed while it was being read", file=str(file))


def _file_result(outlet: Outlet, lock: Lock) -> FileEncryption:
    with outlet.stored() as made:
        digest, size = file_digest(made)
    return FileEncryption(
        output=str(outlet),
        output_digest=digest,
        output_bytes=size,
        recipients=list(lock.recipients),
        passphrase=lock.passphrase is not None,
    )
