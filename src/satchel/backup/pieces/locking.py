"""For whom backups are encrypted, and what opens those that are: age, to X25519 recipients.

What is in the memory opens for the recipients alone. What says where things are opens for the
machine that makes the backups as well, so that it goes on with the last one, lists and drops them,
and yet cannot read what it wrote last month.
"""

import struct
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Iterable, Iterator, Mapping

from satchel.errors import EncryptionError, LimitError, VerificationError
from satchel.seal.encryption.age import decrypt_bytes, encrypt_bytes, new_identity
from satchel.seal.encryption.unlocking import Unlocking

MOST_PIECES = 500_000
"""That an encrypted backup names: some hundred gigabytes."""

_PIECE = struct.Struct(">32sQ")


class Locking:
    """How what goes to a destination is encrypted, and opened again.

    Args:
        unlocking: Where identities are.
        recipients: For whom new things are encrypted, as age writes them; nobody for plain.
        own: The recipient of the machine, for what is an index.
    """

    def __init__(
        self, unlocking: Unlocking, recipients: Iterable[str] = (), own: str | None = None
    ) -> None:
        self.recipients = tuple(sorted(set(recipients)))
        self._unlocking, self._own = unlocking, own
        self._identities: list[str] | None = None
        self._reader: tuple[str, str] | None = None

    @property
    def locks(self) -> bool:
        """Whether new things are encrypted."""
        return bool(self.recipients)

    def ready(self) -> None:
        """Find the identities of this machine.

        Raises:
            UnreadableError, MalformedError, EncryptionError: If one that somebody named is none.
        """
        if self._identities is None:
            self._identities = list(dict.fromkeys(self._unlocking.identities()))

    def closed(self, data: bytes, *, is_index: bool) -> bytes:
        """Return bytes encrypted.

        They open for one more identity, which is thrown away with this object: so what was just
        written is read again, whoever else may.

        Args:
            data: The bytes.
            is_index: Whether they say where things are, and open for the machine as well.

        Raises:
            MissingExtraError: If what encrypts is not installed.
        """
        if self._reader is None:
            self._reader = new_identity()
        own = [self._own] if is_index and self._own is not None else []
        return encrypt_bytes(data, [*self.recipients, self._reader[1], *own])

    def opened(self, stored: bytes) -> bytes:
        """Return what is in encrypted bytes.

        Raises:
            EncryptionError: If nothing here opens them.
            VerificationError: If they were altered, or are none.
            UnreadableError, MalformedError: If an identity that somebody named is none.
        """
        self.ready()
        just = [self._reader[0]] if self._reader is not None else []
        try:
            found = decrypt_bytes(stored, [*just, *(self._identities or ())])
        except EncryptionError as error:
            raise VerificationError(f"encrypted data of a backup: {error.message}") from None
        if found is None:
            raise EncryptionError(
                "no identity here decrypts the backup",
                hint="Pass an identity it was encrypted to: satchel --identity FILE.",
            )
        return found


PLAIN = Locking(Unlocking())
"""Nothing is encrypted, and what the environment names opens what is."""


def pieces_told(pieces: Mapping[str, int]) -> str:
    """Return names of packs and how much each takes, as a text.

    Raises:
        LimitError: If there are more than one backup may have.
    """
    if len(pieces) > MOST_PIECES:
        raise LimitError(f"an encrypted backup can have at most {MOST_PIECES:,} pieces")
    told = (_PIECE.pack(bytes.fromhex(name), size) for name, size in sorted(pieces.items()))
    return b64encode(b"".join(told)).decode()


def pieces_in(text: str) -> Iterator[tuple[str, int]]:
    """Yield the names of packs that a text tells of, and how much each takes.

    Raises:
        VerificationError: If it is no such text.
    """
    raw = unbased(text)
    if len(raw) % _PIECE.size:
        raise VerificationError("the list of the pieces of a backup is truncated")
    for name, size in _PIECE.iter_unpack(raw):
        yield name.hex(), size


def unbased(text: str) -> bytes:
    """Return the bytes that base64 stands for.

    Raises:
        VerificationError: If it is none.
    """
    try:
        return b64decode(text, validate=True)
    except (BadBase64, ValueError):
        raise VerificationError("a backup contains bytes that cannot be read") from None
