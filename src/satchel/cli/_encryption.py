"""The option that encrypts a file with a passphrase."""

from dataclasses import dataclass
from typing import Annotated, Any

from satchel.cli import _passphrase
from satchel.cli._console import state
from satchel.ports.operations import Option, Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption(Options):
    """How the command line is told a passphrase."""

    encrypt_passphrase: Annotated[
        bool, Option("Encrypt the file with a passphrase (prompted for).")
    ] = False


def read_passphrase(given: dict[str, Any], encryption: Encryption) -> None:
    """Ask for the passphrase of a file that is encrypted with one."""
    if encryption.encrypt_passphrase:
        given["file_passphrase"] = _passphrase.new_of_file(state.passphrase_file)
