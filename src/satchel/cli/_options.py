"""Options, keys of owners, standard input and output, and reports that several commands share."""

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from satchel.bank.keys import ProposedAction, write_proposal
from satchel.bank.machine_keys import signing_key
from satchel.cli._console import (
    count,
    key_passphrase,
    line,
    message,
    new_file_passphrase,
    print_json,
    print_text,
    short,
    state,
)
from satchel.cli._tree import CommandOption
from satchel.crypto.keys import SigningKey
from satchel.errors import ThresholdError
from satchel.ports.operations import Option, Options
from satchel.runtime.files import OpenFile
from satchel.runtime.scratch import CHUNK

if TYPE_CHECKING:
    from satchel.ports.record_set import Loss, RefusedRecord
    from satchel.receipts.receipt import TransferPlan

_MOST_SHOWN = 5
_SHOWN = 10

Json = Annotated[bool, CommandOption("--json", help="Print JSON.")]
InBank = Annotated[
    str | None,
    CommandOption(
        "--bank",
        help="Bank name, ID or unique ID prefix. Default: the default bank.",
        values="bank",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption(Options):
    """How a passphrase is requested on the command line."""

    encrypt_passphrase: Annotated[
        bool, Option("Encrypt the file with a passphrase (prompted for).")
    ] = False


def read_passphrase(values: dict[str, Any], encryption: Encryption) -> None:
    """Read the passphrase for a file to encrypt into the options of an operation."""
    if encryption.encrypt_passphrase:
        values["file_passphrase"] = new_file_passphrase()


def owner_key(name: str | None) -> SigningKey:
    """Return an owner's key, unlocked by a prompt if needed, created on first use."""
    settings = state.settings
    if settings.token is not None:
        return signing_key(settings)[0]
    key_name = name or settings.options.keys.name
    exists = key_name in settings.keyring.names()
    is_protected = exists and settings.keyring.read(key_name).protected
    passphrase = key_passphrase() if is_protected else None
    key, is_new = signing_key(settings, name, passphrase=passphrase)
    if is_new:
        export = key_export_command(key_name)
        message(f"created the signing key {key_name!r}. Keep a copy elsewhere: {export}")
    return key


def key_export_command(name: str) -> str:
    """Return the command that copies a signing key to a file."""
    return shlex.join(["satchel", "key", "export", name, "--secret", "-o", f"{name}.key.json"])


def owner_keys(name: str | None, co_signers: Sequence[str] | None) -> tuple[SigningKey, ...]:
    """Return an owner's key, and the keys of the co-signers."""
    return (owner_key(name), *(owner_key(co_signer) for co_signer in co_signers or ()))


def report_refused(refused: Sequence["RefusedRecord"]) -> None:
    """Print the first malformed records that were skipped."""
    for record in refused[:_SHOWN]:
        location = f"line {record.line}" if record.line is not None else f"record {record.field}"
        message(f"  {location}: {record.message}")
    if len(refused) > _SHOWN:
        message("  more: --json")


def report_receipt(receipt: str | None, problem: str | None, unaccepted: int) -> int:
    """Print the receipt or why it was not stored; return the status for unaccepted losses."""
    if problem is not None:
        message("warning: ", problem)
    return report_receipts([receipt] if receipt else [], unaccepted)


def report_receipts(receipts: list[str], unaccepted: int) -> int:
    """Print the receipts, and return the exit status for unaccepted losses."""
    for identity in receipts[:_MOST_SHOWN]:
        message(f"receipt: satchel receipt show {short(identity)}")
    if len(receipts) > _MOST_SHOWN:
        message(f"and {len(receipts) - _MOST_SHOWN:,} more: satchel receipt list")
    if unaccepted:
        message(f"{count(unaccepted, 'value')} lost. To accept the loss: --accept-loss FIELD")
    return int(bool(unaccepted))


def report_default_bank(names: Sequence[str]) -> None:
    """Print the default bank of a store that was written."""
    for name in names:
        message(f"{name} is the default bank there; this home stores that choice")


def show_losses(losses: list["Loss"], *, dry_run: bool = False) -> None:
    """Print the losses of a transfer."""
    if not losses:
        return
    total = sum(loss.count for loss in losses)
    verb = "would be lost" if dry_run else "lost"
    message(f"{count(total, 'value')} {verb}:", style="yellow")
    for loss in losses:
        where = f" (such as {loss.examples[0]})" if loss.examples else ""
        message(f"  {loss.count:,} x {loss.name}: {loss.reason}{where}")


def show_plan(plan: "TransferPlan") -> None:
    """Print the plan of a transfer on a page."""
    from satchel.receipts.page import plan_page  # only for transfers

    print_text(plan_page(plan))


def report_secrets(secrets: Mapping[str, int], retained: int) -> None:
    """Report the kinds of secrets that were found, never their values."""
    if not secrets:
        return
    kinds = ", ".join(f"{number:,} {kind}" for kind, number in secrets.items())
    treatment = "kept as they are; --scrub-secrets replaces them" if retained else "replaced"
    message(f"secrets: {kinds}; {treatment}")


_NEXT = "Each owner signs it: satchel bank owner sign FILE. Then: satchel bank owner enact FILE"


@contextmanager
def proposed(path: Path | None, *, as_json: bool) -> Iterator[None]:
    """Write a proposal for the other owners to ``path``, if given, instead of deciding."""
    try:
        yield
    except ThresholdError as error:
        if path is None:
            raise
        write_proposal(state.settings, path, error.drawn)
        message(error.message)
        if as_json:
            print_json({"proposed": str(path)})
        else:
            report_proposal(str(path))
        raise click.exceptions.Exit(0) from None


def report_proposal(path: str) -> None:
    """Print the path of a proposal, and the next steps."""
    line(path)
    message(_NEXT)


def show_proposals(matters: Sequence[ProposedAction]) -> None:
    """Print proposals in words, and their signatures."""
    for matter in matters:
        line(_WORDS.get(matter.action, matter.action))
        for name, value in matter.about.items():
            line(f"  {name}: {value}")
        line(f"  bank: {matter.bank}")
        line(f"  {count(len(matter.signed_by), 'signature')}")
        for key in matter.signed_by:
            line(f"    {key}")


_WORDS = {
    "writer_added": "Allow a machine to add to the bank",
    "renamed": "Rename the bank",
    "key_succession": "Replace the key of an owner",
    "key_retired": "Retire a key",
    "key_revoked": "Revoke a key",
    "owner_added": "Add an owner",
    "threshold_set": "Set how many owners must sign",
    "rollback_accepted": "Accept that records seen earlier are lost",
    "restored": "Resume from a backup",
}


@contextmanager
def stdin_as_file(source: Path) -> Iterator[Path | OpenFile]:
    """Copy stdin to a temporary file for the path ``-``, as files are read more than once."""
    if str(source) != "-":
        yield source
        return
    with tempfile.TemporaryFile() as held:  # unnamed, so that a killed process leaves no file
        while data := sys.stdin.buffer.read(CHUNK):
            held.write(data)
        held.flush()
        with OpenFile(os.dup(held.fileno()), source) as file:
            yield file


NAME = "-"


@contextmanager
def output_file(output: Path, format_: str | None = None) -> Iterator[Path]:
    """Yield the file to write; for the path ``-``, it is copied to standard output afterwards.

    Everything else that the command prints goes to standard error then. An unfinished file is not
    printed.

    Args:
        output: The given path.
        format_: The given format; a folder is packed.
    """
    if str(output) != NAME:
        yield output
        return
    state.data_on_stdout = True
    from satchel.ports.format import formats  # only for transfers

    with tempfile.TemporaryDirectory(prefix="satchel-") as folder:
        is_folder = (
            format_ is not None and format_ in formats and formats[format_].info.traits.folder
        )
        path = Path(folder) / ("stdout.zip" if is_folder else "stdout")
        yield path
        if path.is_file():
            with path.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.flush()


def file_or_none(output: Path | None) -> Path | None:
    """Return the file to write; None for standard output."""
    return None if output is None or str(output) == NAME else output


def path_or_address(text: str) -> Path:
    """Return a path or address as a path; addresses are validated first.

    Raises:
        UsageError: If it is an address that would name another folder as a path.
    """
    if "://" in text:
        from satchel.transfer.folders import connector_for

        connector_for(text, None)
    return Path(text)
