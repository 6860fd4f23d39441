"""Asking for a passphrase, from the environment or a terminal, never on a command line."""

import getpass
import os
import sys
from collections.abc import Callable
from pathlib import Path

from satchel.cli._progress import activity
from satchel.crypto.encryption import PASSPHRASE_VARIABLE
from satchel.errors import UnreadableError, UsageError

VARIABLE = "SATCHEL_PASSPHRASE"
_MOST_BYTES = 4096


def existing(*, needed: bool) -> str | None:
    """Return the passphrase of an existing key, asking when someone can answer."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if needed and sys.stdin.isatty():
        return _asked("Passphrase: ")
    return None


def new() -> str:
    """Return a passphrase for a new key, asked for twice.

    Raises:
        UsageError: If nobody can be asked, the two differ, or it is empty.
    """
    if VARIABLE in os.environ:
        chosen = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        chosen = _asked("New passphrase: ")
        if _asked("Repeat passphrase: ") != chosen:
            raise UsageError("the two passphrases differ")
    else:
        raise UsageError("no passphrase given", hint=f"Set {VARIABLE}, or run it in a terminal.")
    if not chosen:
        raise UsageError("an empty passphrase protects nothing")
    return chosen


def of_files(path: Path | None) -> Callable[[], str | None]:
    """Return what says the passphrase of an encrypted file, once it is needed.

    Args:
        path: A file with it, which may be a descriptor (``/dev/fd/3``).
    """

    def say() -> str | None:
        return _given(path) or (_asked("Passphrase: ") if sys.stdin.isatty() else None)

    return say


def new_of_file(path: Path | None) -> str:
    """Return a passphrase for a file that is going to be encrypted; as ``new``."""
    given = _given(path)
    if given:
        return given
    if not sys.stdin.isatty():
        raise UsageError(
            "no passphrase given",
            hint=f"Set {PASSPHRASE_VARIABLE}, name a file (satchel --passphrase-file FILE), or run"
            " it in a terminal.",
        )
    chosen = _asked("New passphrase: ")
    if _asked("Repeat passphrase: ") != chosen:
        raise UsageError("the two passphrases differ")
    if not chosen:
        raise UsageError("an empty passphrase protects nothing")
    return chosen


def _asked(prompt: str) -> str:
    with activity.hidden():
        return getpass.getpass(prompt)


def _given(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(PASSPHRASE_VARIABLE) or None
    try:
        with path.open("rb") as stream:  # a descriptor is no regular file
            data = stream.read(_MOST_BYTES)
    except OSError as error:
        raise UnreadableError(f"cannot read: {error.strerror or error}", file=str(path)) from None
    try:
        found = data.split(b"\n")[0].rstrip(b"\r").decode()
    except UnicodeDecodeError:
        raise UsageError("the passphrase is not valid text", file=str(path)) from None
    if not found:
        raise UsageError("it contains no passphrase", file=str(path))
    return found
