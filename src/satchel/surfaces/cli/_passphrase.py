"""Asking for a passphrase, from the environment or a terminal, never on a command line."""

import getpass
import os
import sys

from satchel.errors import UsageError

VARIABLE = "SATCHEL_PASSPHRASE"


def existing(*, needed: bool) -> str | None:
    """Return the passphrase of an existing key, asking when someone can answer."""
    if VARIABLE in os.environ:
        return os.environ[VARIABLE]
    if needed and sys.stdin.isatty():
        return getpass.getpass("Passphrase: ")
    return None


def new() -> str:
    """Return a passphrase for a new key, asked for twice.

    Raises:
        UsageError: If nobody can be asked, the two differ, or it is empty.
    """
    if VARIABLE in os.environ:
        chosen = os.environ[VARIABLE]
    elif sys.stdin.isatty():
        chosen = getpass.getpass("New passphrase: ")
        if getpass.getpass("Once more: ") != chosen:
            raise UsageError("the two passphrases differ")
    else:
        raise UsageError("no passphrase given", hint=f"Set {VARIABLE}, or run it in a terminal.")
    if not chosen:
        raise UsageError("an empty passphrase protects nothing")
    return chosen
