"""Encryption of files, streams and store keys in the format age-encryption.org/v1 (X25519).

A passphrase wraps a new identity, which is in a line before the age data; so files of any size are
streamed, and guessing costs Argon2id. Files that others encrypted to a passphrase with age itself
are read as well, up to a limit of work and size, since they cannot be streamed. Decrypted files are
only in nameless temporary files, which are gone with the process. A store that is encrypted at rest
has a random key, which a file contains encrypted.
"""

import base64
import binascii
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import msgspec
from blake3 import blake3
from msgspec import Meta
from nacl.bindings import randombytes

from satchel.crypto.canonical import canonical, decode_canonical
from satchel.crypto.key_files import WrappedSecret, unwrap, wrap
from satchel.errors import (
    EncryptionError,
    LimitError,
    MalformedError,
    MissingExtraError,
    TargetError,
    UsageError,
)
from satchel.model.values import now, resolved
from satchel.runtime.files import PRIVATE_FILE, OpenFile, open_input
from satchel.runtime.output import Outlet, WrappedOutlet
from satchel.runtime.private_files import require_secret
from satchel.runtime.scratch import temporary_file

VARIABLE = "SATCHEL_IDENTITY"
"""Environment variable with identity files, joined by the separator of paths."""

PASSPHRASE_VARIABLE = "SATCHEL_FILE_PASSPHRASE"  # noqa: S105 - a name
"""Environment variable with the passphrase of an encrypted file, or of an identity."""

IDENTITY_FORMAT = "satchel-identity/1"
IDENTITY_SUFFIX = ".identity"
SECRET = "AGE-SECRET-KEY-1"  # noqa: S105 - the prefix of an age identity
_MAX_FILE = 65_536


class IdentityFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of an identity file of this program."""

    format: Literal["satchel-identity/1"]
    recipient: str
    """The public part, to which files are encrypted."""

    created_at: str
    identity: str | None = None
    wrapped: WrappedSecret | None = None

    def __repr__(self) -> str:
        return f"IdentityFile({self.recipient})"  # the secret is never shown


def in_environment() -> str | None:
    """Return the passphrase in the environment, without asking."""
    return os.environ.get(PASSPHRASE_VARIABLE) or None


@dataclass(frozen=True, kw_only=True)
class Unlocker:
    """The identities and the passphrase to decrypt with."""

    folder: Path | None = None
    """Identities of this machine; those without a passphrase are tried for every file."""

    files: tuple[Path, ...] = ()
    """Identity files that were named: of this program, or of ``age-keygen``."""

    passphrase: Callable[[], str | None] = field(default=in_environment, repr=False)
    """Returns the passphrase, asking a person if possible; None if there is none."""

    def with_sources(
        self, files: Iterable[str | Path] = (), passphrase: str | None = None
    ) -> "Unlocker":
        """Return an unlocker with further identity files, or with a known passphrase.

        Args:
            files: The files, besides those named before.
            passphrase: The passphrase; None to ask as before.
        """
        more = (*self.files, *(Path(one) for one in files))
        say = self.passphrase if passphrase is None else lambda: passphrase
        return replace(self, files=more, passphrase=say)

    def identities(self) -> Iterator[str]:
        """Yield the secret identities, as age writes them.

        Raises:
            UnreadableError: If a named file cannot be read.
            MalformedError: If it contains no identity.
            EncryptionError: If one needs a passphrase, and there is none or a wrong one.
        """
        named = os.environ.get(VARIABLE)
        for path in (
            *self.files,
            *(Path(part) for part in (named or "").split(os.pathsep) if part),
        ):
            yield from self._in(path, asks=True)
        if self.folder is not None:
            for path in sorted(self.folder.glob(f"*{IDENTITY_SUFFIX}")):
                yield from self._in(path, asks=False)

    def require_passphrase(self, subject: str) -> str:
        """Return the passphrase for something.

        Raises:
            EncryptionError: If there is none.
        """
        passphrase = self.passphrase()
        if not passphrase:
            raise EncryptionError(
                f"{subject} is protected by a passphrase",
                hint=f"Set {PASSPHRASE_VARIABLE}, or run it in a terminal to be asked.",
            )
        return passphrase

    def _in(self, path: Path, *, asks: bool) -> Iterator[str]:
        with open_input(path) as stream:
            require_secret(path, os.fstat(stream.fileno()), "this identity")
            data = stream.read(_MAX_FILE)
        if data.startswith(b"{"):
            identity_file = parse_identity_file(data)
            if identity_file.identity is not None:
                yield identity_file.identity
            elif identity_file.wrapped is not None and asks:
                yield unwrap_identity(
                    identity_file.wrapped,
                    identity_file.recipient,
                    self.require_passphrase(f"the identity in {path}"),
                )
            return
        identities = [
            line.strip() for line in data.split(b"\n") if line.strip()[:1] not in (b"", b"#")
        ]
        if not identities or not all(line.startswith(SECRET.encode()) for line in identities):
            raise MalformedError("it contains no age identity", file=str(path))
        yield from (line.decode("ascii", "replace") for line in identities)


def parse_identity_file(data: bytes) -> IdentityFile:
    """Return the content of an identity file.

    Raises:
        MalformedError: If it is not an identity file.
    """
    try:
        return msgspec.convert(decode_canonical(data.rstrip(b"\n")), resolved(IdentityFile))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a file with an identity: {error}") from None


def unwrap_identity(wrapped: WrappedSecret, recipient: str, passphrase: str) -> str:
    """Return an identity that a passphrase protects.

    Raises:
        EncryptionError: If the passphrase is wrong.
    """
    secret = unwrap(wrapped, recipient.encode(), passphrase)
    if secret is None:
        raise EncryptionError("the passphrase is wrong, or the data it protects was altered")
    return secret.decode("ascii", "replace")


MAGIC = b"age-encryption.org/v1\n"
ARMOR = b"-----BEGIN AGE ENCRYPTED FILE-----"
FRONT = b'{"created_at":'
"""First bytes of a file with a passphrase: the line with its wrapped identity."""

MOST_WORK = 18
"""Maximum work of scrypt, as a power of two; a file that needs more is refused before any work."""

MOST_WHOLE = 64 * 2**20
"""Maximum bytes of a file that cannot be streamed."""

HEAD_BYTES = 65_536
"""Maximum bytes of the header of age data."""

_MOST_FRONT = 4096
_SCRYPT = re.compile(rb"^-> scrypt [A-Za-z0-9+/]{1,64} ([0-9]{1,10})$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Lock:
    """The recipients and passphrase that a file is encrypted for."""

    recipients: tuple[str, ...] = ()
    """In age's form: ``age1...``."""

    passphrase: str | None = field(default=None, repr=False)

    @property
    def is_set(self) -> bool:
        """Whether the file is encrypted."""
        return bool(self.recipients) or self.passphrase is not None


NOBODY = Lock()
"""The lock of a file that is not encrypted."""


def is_encrypted(head: bytes) -> bool:
    """Return whether a file with these first bytes is encrypted."""
    return head.startswith((MAGIC, ARMOR)) or _is_front(head)


def new_identity() -> tuple[str, str]:
    """Return a new identity and its recipient, as age writes them.

    Raises:
        MissingExtraError: If the encryption library is not installed.
    """
    made = _pyrage().x25519.Identity.generate()
    return str(made), str(made.to_public())


def identity_value(identity: str, recipient: str, passphrase: str | None) -> dict[str, Any]:
    """Return the content of an identity file, its secret under a passphrase if there is one."""
    secret: dict[str, Any] = (
        {"identity": identity}
        if passphrase is None
        else {"wrapped": wrap(identity.encode(), recipient.encode(), passphrase)}
    )
    return {"format": IDENTITY_FORMAT, "recipient": recipient, "created_at": now(), **secret}


def check_recipient(text: str) -> str:
    """Return a valid recipient.

    Raises:
        UsageError: If it is not a recipient.
        MissingExtraError: If the encryption library is not installed.
    """
    pyrage = _pyrage()
    try:
        return str(pyrage.x25519.Recipient.from_str(text))
    except pyrage.RecipientError:
        quoted = "a secret identity" if text.upper().startswith("AGE-SECRET") else repr(text[:80])
        raise UsageError(
            f"not a recipient: {quoted}", field="encrypt-to", hint="A recipient starts with age1."
        ) from None


def encrypt(source: BinaryIO, sink: BinaryIO, lock: Lock, *further: str) -> None:
    """Encrypt a stream.

    Args:
        source: From its current position to its end.
        sink: Receives the encrypted bytes.
        lock: The recipients and passphrase.
        further: Further recipients.

    Raises:
        TargetError: If one of the streams fails.
        MissingExtraError: If the encryption library is not installed.
    """
    pyrage = _pyrage()
    recipients = [*lock.recipients, *further]
    if lock.passphrase is not None:
        identity, recipient = new_identity()
        sink.write(canonical(identity_value(identity, recipient, lock.passphrase)) + b"\n")
        recipients.append(recipient)
    try:
        pyrage.encrypt_io(
            source, sink, [pyrage.x25519.Recipient.from_str(one) for one in recipients]
        )
    except (pyrage.EncryptError, OSError) as error:
        raise TargetError(f"cannot encrypt: {error}") from None


def decrypt(source: BinaryIO, sink: BinaryIO, unlocking: Unlocker) -> None:
    """Decrypt a file. Its plain bytes are authentic only after this returns.

    Args:
        source: A seekable file, at its start.
        sink: Receives the plain bytes in chunks, the last one only after all are authenticated.
        unlocking: The identities and passphrase.

    Raises:
        EncryptionError: If no identity decrypts it, or it was truncated or altered.
        LimitError: If it needs more work than the limit.
        MalformedError: If it is not an encrypted file.
        MissingExtraError: If the encryption library is not installed.
    """
    pyrage = _pyrage()
    head = source.read(HEAD_BYTES)
    source.seek(0)
    identities = None
    if _is_front(head):
        line, _, head = head.partition(b"\n")
        identity_file = parse_identity_file(line)
        if identity_file.wrapped is None:
            raise MalformedError(
                "the identity before the encrypted data is not protected by a passphrase"
            )
        identities = [
            unwrap_identity(
                identity_file.wrapped,
                identity_file.recipient,
                unlocking.require_passphrase("the file"),
            )
        ]
        source.seek(len(line) + 1)
    work = _scrypt_work(head)
    if work is not None:
        _whole(pyrage, source, sink, unlocking, work)
        return
    _streamed(pyrage, source, sink, unlocking.identities() if identities is None else identities)


def decrypt_with(source: BinaryIO, sink: BinaryIO, identity: str) -> None:
    """Decrypt a file with one identity, ignoring its passphrase; see ``decrypt``."""
    if _is_front(source.read(_MOST_FRONT)):
        source.seek(0)
        source.readline(_MOST_FRONT)
    else:
        source.seek(0)
    _streamed(_pyrage(), source, sink, [identity])


def encrypt_bytes(data: bytes, recipients: Sequence[str]) -> bytes:
    """Return bytes encrypted to recipients, as plain age.

    Raises:
        TargetError: If they cannot be encrypted.
        MissingExtraError: If the encryption library is not installed.
    """
    pyrage = _pyrage()
    try:
        known = [pyrage.x25519.Recipient.from_str(one) for one in recipients]
        return bytes(pyrage.encrypt(data, known))
    except (pyrage.EncryptError, pyrage.RecipientError) as error:
        raise TargetError(f"cannot encrypt: {error}") from None


def decrypt_bytes(data: bytes, identities: Sequence[str]) -> bytes | None:
    """Return the bytes that ``encrypt_bytes`` encrypted; None if no identity decrypts them.

    Args:
        data: The encrypted bytes; a header without an end is refused before any computation.
        identities: Identities to try.

    Raises:
        EncryptionError: If they were truncated or altered, or are no age data.
        MissingExtraError: If the encryption library is not installed.
    """
    pyrage = _pyrage()
    if not data.startswith(MAGIC) or data.find(b"\n--- ", 0, HEAD_BYTES) < 0:
        raise EncryptionError("not an encrypted piece, or its header is too long")
    keys = [_identity(pyrage, one) for one in identities]
    try:
        return bytes(pyrage.decrypt(data, keys)) if keys else None
    except pyrage.DecryptError as error:
        if "atching" in str(error):
            return None
        raise _decryption_error(error) from None


def _streamed(pyrage: Any, source: BinaryIO, sink: BinaryIO, identities: Any) -> None:
    keys = [_identity(pyrage, one) for one in identities]
    if not keys:
        raise _no_identity_error()
    try:
        pyrage.decrypt_io(source, sink, keys)
    except (pyrage.DecryptError, OSError) as error:
        raise _decryption_error(error) from None


def _whole(pyrage: Any, source: BinaryIO, sink: BinaryIO, unlocking: Unlocker, work: int) -> None:
    if work > MOST_WORK:
        raise LimitError(
            f"the file asks for 2^{work} steps of scrypt; the maximum is 2^{MOST_WORK}",
            hint="If you trust its author, decrypt it with age.",
        )
    data = source.read(MOST_WHOLE + 1)
    if len(data) > MOST_WHOLE:
        raise LimitError(
            f"a file encrypted by age with a passphrase can have at most {MOST_WHOLE:,} bytes",
            hint="Decrypt it with age, or encrypt it with satchel, or to a recipient.",
        )
    try:
        sink.write(pyrage.passphrase.decrypt(data, unlocking.require_passphrase("the file")))
    except pyrage.DecryptError as error:
        raise _decryption_error(error) from None


def _identity(pyrage: Any, text: str) -> Any:
    try:
        return pyrage.x25519.Identity.from_str(text)
    except pyrage.IdentityError:
        raise MalformedError("not an age identity that can be used here") from None


def _scrypt_work(head: bytes) -> int | None:
    """Return the work of scrypt that a file needs; None if it needs none.

    Raises:
        MalformedError: If its header has no end within the limit.
    """
    if head.startswith(ARMOR):
        head = _unarmored(head)
    if not head.startswith(MAGIC):
        raise MalformedError("not age data")
    header, end, _ = head.partition(b"\n--- ")
    if not end:
        raise EncryptionError("the encrypted file is truncated, or its header is too long")
    matches = _SCRYPT.findall(header)
    if not matches and b"\n-> scrypt" in header:
        raise MalformedError("not an age header")
    return max(map(int, matches)) if matches else None


def _unarmored(head: bytes) -> bytes:
    text = b"".join(head.split(b"-----")[2].split())
    with_whole_groups = text[: len(text) // 4 * 4]
    try:
        return base64.b64decode(with_whole_groups, validate=True)
    except binascii.Error:
        raise MalformedError("the armor of the encrypted file is damaged") from None


def _is_front(head: bytes) -> bool:
    if not head.startswith(FRONT):
        return False
    line, end, rest = head[:_MOST_FRONT].partition(b"\n")
    known = msgspec.json.encode(IDENTITY_FORMAT) in line
    return bool(end) and known and rest.startswith(MAGIC[: len(rest)])


def _no_identity_error() -> EncryptionError:
    return EncryptionError(
        "no identity here decrypts the file",
        hint="Name the identity it was encrypted to: satchel --identity FILE. See: satchel key"
        " identity list.",
    )


def _decryption_error(error: Exception) -> EncryptionError:
    if "atching" in str(error):  # "No matching keys found"
        return _no_identity_error()
    return EncryptionError(
        "the encrypted file was truncated or altered, or the passphrase is wrong",
        hint="Nothing in it was used. Find an intact copy.",
    )


def _pyrage() -> Any:
    try:
        import pyrage
    except ImportError:
        raise MissingExtraError(
            "encryption needs pyrage, which is not installed",
            hint="Reinstall satchel.",
        ) from None
    return pyrage


def check_recipients(texts: Sequence[str]) -> tuple[str, ...]:
    """Return recipients, each verified, without duplicates."""
    return tuple(dict.fromkeys(check_recipient(text) for text in texts))


ENCRYPTED_SUFFIX = ".age"
"""Suffix of the names of encrypted files."""


@contextmanager
def plain_file(file: OpenFile, unlocking: Unlocker) -> Iterator[OpenFile]:
    """Yield a file as it is, or decrypted if it is encrypted.

    Raises:
        EncryptionError, LimitError, MalformedError: As ``decrypt``.
        TargetError: If the temporary folder is full.
    """
    with open_input(file) as stream:
        is_plain = not is_encrypted(stream.read(HEAD_BYTES))
    if is_plain:
        yield file
        return
    with temporary_file() as plain:
        with open_input(file) as stream:
            decrypt(stream, plain, unlocking)
        plain.flush()
        with OpenFile(os.dup(plain.fileno()), file.path) as found:
            yield found


class EncryptedOutlet(WrappedOutlet):
    """A name for an encrypted file; plain bytes are written to it.

    Until the outlet is closed, the file can be read back with an identity that is made for that and
    discarded.

    Args:
        inner: The name.
        lock: The recipients and passphrase.
    """

    def __init__(self, inner: Outlet, lock: Lock) -> None:
        super().__init__(inner)
        self._lock = lock
        self._reader, self._recipient = new_identity()

    @contextmanager
    def writing(self, *, overwrite: bool, mode: int = PRIVATE_FILE) -> Iterator[BinaryIO]:
        """Yield a stream for the plain bytes; see ``Outlet.writing``."""
        with self._inner.writing(overwrite=overwrite, mode=mode) as sink, temporary_file() as plain:
            yield plain
            plain.seek(0)
            encrypt(plain, sink, self._lock, self._recipient)

    @contextmanager
    def defer_publication(self) -> Iterator[None]:
        """Publish what is written in the block at its end; see ``Outlet.defer_publication``."""
        with self._inner.defer_publication():
            yield

    def written(self) -> OpenFile:
        """Open the written file, decrypted from the disk; the caller closes it."""
        with self._inner.written() as file, temporary_file() as plain, open_input(file) as stream:
            decrypt_with(stream, plain, self._reader)
            plain.flush()
            return OpenFile(os.dup(plain.fileno()), self.path)

    def stored(self) -> OpenFile:
        """Open the encrypted file as it is on disk; the caller closes it."""
        return self._inner.written()

    def remove(self) -> None:
        """Remove the file with the name."""
        self._inner.remove()


def encrypted_outlet(outlet: Outlet, lock: Lock) -> Outlet:
    """Return an outlet as it is, or one that encrypts.

    Raises:
        UsageError: If its name has the suffix of encrypted files, and it would not be encrypted.
        MissingExtraError: If the encryption library is not installed.
    """
    if lock.is_set:
        return EncryptedOutlet(outlet, lock)
    if outlet.path.name.endswith(ENCRYPTED_SUFFIX):
        raise UsageError(
            "the file name ends in .age, but no recipient is given",
            file=str(outlet),
            hint="Add --encrypt-to age1..., or --encrypt-passphrase.",
        )
    return outlet


STORE_KEY_FORMAT = "satchel-store-key/1"
KEY_BYTES = 32
MOST_BYTES = 65_536
"""Maximum bytes of a key file, which may have many recipients."""

_MOST_OPENED = 64
_NAME = "the key of the store"

_opened: dict[bytes, "StoreKey"] = {}
"""Keys by the digest of their file: a passphrase is asked for once, and Argon2id is computed once,
however often a program opens its store.
"""


class _StoredKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The encrypted content of a key file."""

    format: Literal["satchel-store-key/1"]
    key: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(frozen=True)
class StoreKey:
    """The key of a store, and the content of its file."""

    secret: bytes = field(repr=False)
    """32 random bytes."""

    held: bytes = field(repr=False)
    """The encrypted key."""


def new_store_key(lock: Lock) -> StoreKey:
    """Create a key for a lock.

    Raises:
        MissingExtraError: If the encryption library is not installed.
    """
    secret, held = randombytes(KEY_BYTES), io.BytesIO()
    encrypt(io.BytesIO(canonical({"format": STORE_KEY_FORMAT, "key": secret.hex()})), held, lock)
    return _noted(StoreKey(secret, held.getvalue()))


def open_store_key(content: bytes, unlocking: Unlocker) -> StoreKey:
    """Return the key in the content of a file.

    Raises:
        EncryptionError: If no identity decrypts it, or it was truncated or altered.
        MalformedError: If it contains no key.
        MissingExtraError: If the encryption library is not installed.
    """
    known = _opened.get(blake3(content).digest())
    if known is not None:
        return known
    opened = io.BytesIO()
    try:
        decrypt(io.BytesIO(content), opened, unlocking)
    except EncryptionError as error:
        raise EncryptionError(
            error.message.replace("the encrypted file", _NAME).replace("the file", _NAME),
            hint="Pass an identity it was encrypted to: satchel --identity FILE. For a passphrase:"
            " SATCHEL_FILE_PASSPHRASE, satchel --passphrase-file FILE, or a terminal.",
        ) from error
    try:
        stored = msgspec.convert(decode_canonical(opened.getvalue()), resolved(_StoredKey))
    except (msgspec.ValidationError, MalformedError):
        raise MalformedError("not a store key") from None
    return _noted(StoreKey(bytes.fromhex(stored.key), content))


def _noted(key: StoreKey) -> StoreKey:
    while len(_opened) >= _MOST_OPENED:
        _opened.pop(next(iter(_opened)), None)
    _opened[blake3(key.held).digest()] = key
    return key
