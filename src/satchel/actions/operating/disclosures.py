"""The operation that discloses single memories of a bank."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from satchel.actions.encrypting.identities import lock_for
from satchel.actions.moving.disclosing import disclose_to
from satchel.actions.moving.exported import Export, ExportOptions
from satchel.actions.opened import OpenBank
from satchel.actions.options import (
    NOT_FOR_MODELS,
    RESPONSE,
    EncryptionOptions,
    Overwrite,
    PathOptions,
    Receipt,
    SigningOptions,
)
from satchel.actions.paths.permission import Permission, file_to_write
from satchel.actions.signing import signer_of
from satchel.disk.outlet import Outlet
from satchel.ports.operations import Absent, Option, PathText, operation, texts
from satchel.seal.artifact.statement import SourceAgent
from satchel.seal.signing.key import SigningKey as Key


@dataclass(frozen=True, slots=True)
class DiscloseOptions(PathOptions, SigningOptions, EncryptionOptions):
    """Which memories to disclose, and where to."""

    entry_ids: Annotated[
        str | Sequence[str],
        Option(
            "Memory to disclose: its ID or an ID prefix. Repeatable.",
            flag="--entry",
            metavar="ID",
            max_items=10_000,
            examples=[["blake3:" + "0" * 64]],
        ),
    ]
    output: Annotated[
        PathText,
        Option(
            "Artifact to write, such as evidence.pam.jsonl; - for standard output.",
            short="-o",
            values="file",
            http=RESPONSE,
        ),
    ]
    _: KW_ONLY
    withhold: Annotated[
        str | Sequence[str],
        Option(
            "Ancestor to include without its text, with its proof: its ID. Repeatable.",
            metavar="ID",
            max_items=10_000,
        ),
    ] = ()
    agent: Annotated[
        str | None,
        Option(
            "Name of the agent whose memory it is, for the artifact.",
            max_length=500,
            http=Absent(why="The artifact that it is made of names the agent."),
        ),
    ] = None
    overwrite: Overwrite = False
    receipt: Receipt = None
    dry_run: Annotated[
        bool,
        Option("Report what would be done, and change nothing.", http=RESPONSE),
    ] = False


@operation(
    DiscloseOptions,
    name="disclose",
    example="satchel disclose --entry 3f9a2c --output evidence.pam.jsonl",
    absent=NOT_FOR_MODELS,
)
def disclose(
    bank: OpenBank,
    options: DiscloseOptions,
    *,
    owner: Callable[[], Key] | None = None,
    permission: Permission | None = None,
    outlet: Outlet | None = None,
) -> Export:
    """Disclose memories and all that they derive from, each with the proof that it was logged.

    Whoever gets the artifact can verify it without the bank: `satchel verify FILE --deep`. What
    derives from the memories is not included, and a withheld ancestor shows only that it exists.

    Args:
        bank: The bank.
        options: Which memories, and where to.
        owner: Returns the key that signs it.
        permission: Where paths may lead; as the options say by default.
        outlet: An open file to write in place of the output.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        UnknownMemoryError: If there is no such memory.
        UsageError: If none is named, or the output is no artifact.
        TargetError: If it cannot be written.
    """
    settings = bank.settings
    key = None if options.dry_run else signer_of(settings, options, owner)
    asked = ExportOptions(
        key=key,
        lock=lock_for(settings, texts(options.encrypt_to), options.file_passphrase),
        overwrite=options.overwrite,
        receipt=None if options.receipt is None else Path(options.receipt),
        dry_run=options.dry_run,
        source_agent=SourceAgent(name=options.agent) if options.agent else None,
    )
    entries, withhold = texts(options.entry_ids), texts(options.withhold)
    if outlet is not None:
        return disclose_to(bank, entries, outlet, asked, withhold=withhold)
    allowed = permission or options.permission
    if options.receipt is not None:
        with file_to_write(settings, options.receipt, allowed):
            pass
    with file_to_write(settings, options.output, allowed) as file:
        return disclose_to(bank, entries, file, asked, withhold=withhold)
