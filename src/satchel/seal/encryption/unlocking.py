"""What this machine can decrypt with: identities in files, and a passphrase when one is asked for.

Nothing secret is on a command line, in an error, or in what is shown of a value.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from satchel.disk.reading import reading
from satchel.disk.secret import require_secret
from satchel.errors import EncryptionError, MalformedError
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.signing.wrapping import Wrapped, unwrap
from satchel.type_info import resolved

VARIABLE = "SATCHEL_IDENTITY"
"""Environment variable with files of identities, joined by the separator of paths."""

PASSPHRASE_VARIABLE = "SATCHEL_FILE_PASSPHRASE"  # noqa: S105 - a name
"""Environment variable with the passphrase of an encrypted file, or of an identity."""

FORMAT = "satchel-identity/1"
SUFFIX = ".identity"
SECRET = "AGE-SECRET-KEY-1"  # noqa: S105 - how age begins one
_MAX_FILE = 65_536


class IdentityFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a file of ours holds of an identity."""

    format: Literal["satchel-identity/1"]
    recipient: str
    """The public part: whom a file is encrypted to."""

    created_at: str
    identity: str | None = None
    wrapped: Wrapped | None = None

    def __repr__(self) -> str:
        return f"IdentityFile({self.recipient})"  # the secret never shows


def in_environment() -> str | None:
    """Return the passphrase that is in the environment; nobody is asked."""
    return os.environ.get(PASSPHRASE_VARIABLE) or None


@dataclass(frozen=True, kw_only=True)
class Unlocking:
    """Where identities are, and who says a passphrase."""

    folder: Path | None = None
    """Identities of this machine; those without a passphrase are tried for every file."""

    files: tuple[Path, ...] = ()
    """Files that somebody named: our own, or those of ``age-keygen``."""

    passphrase: Callable[[], str | None] = field(default=in_environment, repr=False)
    """Gives the passphrase, asking somebody where it can; None where nobody says one."""

    def also(self, files: Iterable[str | Path] = (), passphrase: str | None = None) -> "Unlocking":
        """Return what opens more: with files of identities, or a passphrase that is known.

        Args:
            files: The files, besides those that are named already.
            passphrase: The passphrase; None to ask as before.
        """
        more = (*self.files, *(Path(one) for one in files))
        say = self.passphrase if passphrase is None else lambda: passphrase
        return replace(self, files=more, passphrase=say)

    def identities(self) -> Iterator[str]:
        """Yield the secret identities, as age writes them.

        Raises:
            UnreadableError: If a file that was named cannot be read.
            MalformedError: If it has no identity.
            EncryptionError: If one needs a passphrase, and none or a wrong one is given.
        """
        named = os.environ.get(VARIABLE)
        for path in (
            *self.files,
            *(Path(part) for part in (named or "").split(os.pathsep) if part),
        ):
            yield from self._in(path, asks=True)
        if self.folder is not None:
            for path in sorted(self.folder.glob(f"*{SUFFIX}")):
                yield from self._in(path, asks=False)

    def say(self, what: str) -> str:
        """Return the passphrase for something.

        Raises:
            EncryptionError: If nobody says one.
        """
        said = self.passphrase()
        if not said:
            raise EncryptionError(
                f"{what} is protected by a passphrase",
                hint=f"Set {PASSPHRASE_VARIABLE}, or run it in a terminal to be asked.",
            )
        return said

    def _in(self, path: Path, *, asks: bool) -> Iterator[str]:
        with reading(path) as stream:
            require_secret(path, os.fstat(stream.fileno()), "this identity")
            data = stream.read(_MAX_FILE)
        if data.startswith(b"{"):
            held = parsed(data)
            if held.identity is not None:
                yield held.identity
            elif held.wrapped is not None and asks:
                yield opened(held.wrapped, held.recipient, self.say(f"the identity in {path}"))
            return
        found = [line.strip() for line in data.split(b"\n") if line.strip()[:1] not in (b"", b"#")]
        if not found or not all(line.startswith(SECRET.encode()) for line in found):
            raise MalformedError("it contains no age identity", file=str(path))
        yield from (line.decode("ascii", "replace") for line in found)


def parsed(data: bytes) -> IdentityFile:
    """Return what a file of an identity holds.

    Raises:
        MalformedError: If it is none.
    """
    try:
        return msgspec.convert(decode_canonical(data.rstrip(b"\n")), resolved(IdentityFile))
    except msgspec.ValidationError as error:
        raise MalformedError(f"not a file with an identity: {error}") from None


def opened(wrapped: Wrapped, recipient: str, passphrase: str) -> str:
    """Return an identity that is under a passphrase.

    Raises:
        EncryptionError: If the passphrase is wrong.
    """
    secret = unwrap(wrapped, recipient.encode(), passphrase)
    if secret is None:
        raise EncryptionError("the passphrase is wrong, or the data it protects was altered")
    return secret.decode("ascii", "replace")
