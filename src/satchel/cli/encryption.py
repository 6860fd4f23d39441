"""``encrypt`` and ``decrypt``."""

from collections.abc import Mapping
from typing import Any

from satchel.cli._console import line, message, new_file_passphrase, size
from satchel.cli._operations import command
from satchel.cli._tree import Group
from satchel.transfer.encryption import FileEncryption, decrypt, encrypt


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    command(app, encrypt, _show, internal=_new_passphrase)
    command(app, decrypt, _show)


def _new_passphrase(_: Any) -> Mapping[str, Any]:
    return {"new_file_passphrase": new_file_passphrase}


def _show(done: FileEncryption) -> None:
    line(f"{done.output}  {size(done.output_bytes)}  {done.output_digest}")
    for recipient in done.recipients:
        message(f"for {recipient}")
    if done.passphrase:
        message("for anyone with the passphrase")
