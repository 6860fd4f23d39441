"""``encrypt`` and ``decrypt``."""

from pathlib import Path
from typing import Annotated

from satchel.actions.encrypting.files import Crypted, decrypt_file, encrypt_file
from satchel.surfaces.cli._console import line, message, print_json, size, state
from satchel.surfaces.cli._options import Force, Json, lock_of
from satchel.surfaces.cli._tree import Argument, Group, Option


def add_to(app: Group) -> None:
    """Add the commands of this module."""
    app.command("encrypt")(encrypt_command)
    app.command("decrypt")(decrypt_command)


def encrypt_command(
    source: Annotated[Path, Argument(metavar="IN", help="File to encrypt.")],
    output: Annotated[Path, Argument(metavar="OUT", help="File to write, such as IN.age.")],
    to: Annotated[
        list[str] | None,
        Option(help="age1..., a file with recipients, or an identity here. Repeatable."),
    ] = None,
    passphrase: Annotated[
        bool, Option("--passphrase", help="Under a passphrase, which is asked for.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Encrypt a file, so that only those can read it whom it is for.

    It says nothing of who made it: what is sealed in it does. Whatever reads files reads encrypted
    ones as well, with `satchel --identity FILE`, or once it has asked for the passphrase.

    Example: `satchel encrypt memory.pam memory.pam.age --to age1...`
    """
    done = encrypt_file(state.settings, source, output, lock_of(to, passphrase), overwrite=force)
    _show(done, as_json=as_json)


def decrypt_command(
    source: Annotated[Path, Argument(metavar="IN", help="Encrypted file.")],
    output: Annotated[Path, Argument(metavar="OUT", help="File to write, mode 0600.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Decrypt a file, with an identity of this machine or one that is named before the verb.

    Example: `satchel --identity laptop.txt decrypt memory.pam.age memory.pam`
    """
    done = decrypt_file(state.settings, source, output, overwrite=force)
    _show(done, as_json=as_json)


def _show(done: Crypted, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
        return
    line(f"{done.output}  {size(done.output_bytes)}  {done.output_digest}")
    for recipient in done.recipients:
        message(f"for {recipient}")
    if done.passphrase:
        message("for whoever knows the passphrase")
