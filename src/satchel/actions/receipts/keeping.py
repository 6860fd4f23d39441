"""Receipts on this machine: made, signed, kept, copied to a file.

Each transfer leaves its receipts in one private file of the home, whatever else was asked for, so
that nobody has to ask beforehand, and nothing is strewn beside what was written. What an import
logs is a receipt as well, the same one.
"""

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from satchel.actions.config import Settings
from satchel.actions.paths.permission import file_to_write
from satchel.actions.wiring import writer_key
from satchel.disk.outlet import Outlet, refuse_existing
from satchel.disk.private import private_folder
from satchel.errors import SatchelError, ShortInputError, UsageError
from satchel.memory.times import now
from satchel.ports.format import Reading
from satchel.seal.records import Sealed
from satchel.seal.signing.key import SigningKey
from satchel.transfer.receipts.account import REFUSED, is_accepted
from satchel.transfer.receipts.signed import write_receipts

_DIGITS = 12


def tool() -> str:
    """Return this program's name and version, as receipts have it."""
    try:
        return f"satchel {version('satchel')}"
    except PackageNotFoundError:
        return "satchel"


def folder_of(settings: Settings) -> Path:
    """Return where receipts are kept."""
    return settings.home / "receipts"


def signer(settings: Settings, key: SigningKey | None) -> SigningKey | None:
    """Return who signs a receipt: whoever signs the output, else this machine's writer key.

    None where this machine can keep no key; a receipt nobody signed says so when it is verified.
    """
    if key is not None:
        return key
    try:
        return writer_key(settings)
    except (SatchelError, OSError):
        return None


def keep(
    settings: Settings, receipts: Iterable[Sealed], copy: Path | None = None
) -> tuple[list[str], list[str]]:
    """Keep the receipts of one transfer, and return their ids, and notes on what went wrong.

    One that is neither kept here nor in the copy has no id that could be looked up.

    The transfer is done by then; that its receipt cannot be kept here does not undo it.

    Args:
        settings: Whose home.
        receipts: The receipts.
        copy: A file that they are to be in as well.

    Raises:
        TargetError: If the copy cannot be written.
    """
    found, notes, is_kept = list(receipts), list[str](), True
    if not found:
        return [], notes
    try:
        folder = private_folder(folder_of(settings))
        stamp = now().replace(":", "").replace("-", "").replace(".", "")
        name = f"{stamp}-{found[0].id.removeprefix('blake3:')[:_DIGITS]}.json"
        with Outlet.named(folder / name) as outlet:
            write_receipts(outlet, found)
    except (SatchelError, OSError) as error:
        notes.append(f"the receipt was not stored on this machine: {error}")
        is_kept = False
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            write_receipts(outlet, found)
    return [record.id for record in found] if is_kept or copy is not None else [], notes


def refuse_copy(settings: Settings, copy: Path | None, *others: Path) -> None:
    """Refuse a file for receipts that is there, or is to hold something else, before any work.

    Raises:
        PathRefusedError: If roots are set, and it is not in them.
        TargetExistsError: If it is there.
        UsageError: If it is one of the others.
    """
    if copy is not None:
        with file_to_write(settings, copy) as outlet:
            refuse_existing(outlet, overwrite=False)
        if any(copy.absolute() == other.absolute() for other in others):
            raise UsageError("the receipt and the output cannot be the same file", file=str(copy))


def require_whole(reading: Reading, accepted: Iterable[str], name: str) -> None:
    """Refuse an input that says itself that it lacks something, unless that was accepted.

    Args:
        reading: How it was read.
        accepted: What may be lost.
        name: The input.

    Raises:
        ShortInputError: If it does.
    """
    if not reading.missing:
        return
    if not is_accepted(REFUSED, accepted):
        raise ShortInputError(
            f"the file is incomplete: by its own count, at least {reading.missing:,} memories "
            "are missing",
            file=name,
            hint=f"Get the complete file, or accept the loss: --accept-loss {REFUSED}",
        )
    reason = "missing from the file, by its own count"
    reading.report.lost(REFUSED, reason, count=reading.missing)
