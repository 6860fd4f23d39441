"""Disclosing entries to somebody, who can check without the bank that they were in it."""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from satchel.actions.encrypting.identities import lock_for
from satchel.actions.memories.naming import find_memory
from satchel.actions.moving.exported import Export, ExportOptions, export_format
from satchel.actions.moving.exporting import Part, export_part
from satchel.actions.opened import OpenBank
from satchel.actions.operating.options import EncryptTo, FilePassphrase, PathOptions, Receipt
from satchel.actions.options import NOT_FOR_MODELS, RESPONSE, Overwrite, Passphrase, SigningKey
from satchel.actions.paths.permission import Permission, file_to_write
from satchel.actions.signing import signing_key
from satchel.disk.outlet import Outlet
from satchel.errors import RetiredMemoryError, SigningKeyError, UsageError
from satchel.ledger.view import View
from satchel.ports.operations import Absent, Option, PathText, operation, texts
from satchel.seal.artifact.statement import FileScope, SourceAgent
from satchel.seal.signing.key import SigningKey as Key
from satchel.transfer import disclosing
from satchel.transfer.exporting import Outgoing, Taken


@dataclass(frozen=True, slots=True)
class DiscloseOptions(PathOptions):
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
            "Ancestor to name without its text, with its proof: its ID. Repeatable.",
            metavar="ID",
            max_items=10_000,
        ),
    ] = ()
    signing_key: SigningKey = None
    passphrase: Passphrase = None
    encrypt_to: EncryptTo = ()
    file_passphrase: FilePassphrase = None
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
    settings, key = bank.settings, None
    if not options.dry_run:
        named, passphrase = options.signing_key, options.passphrase
        key = (
            owner() if owner is not None else signing_key(settings, named, passphrase=passphrase)[0]
        )
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


def disclose_to(
    bank: OpenBank,
    entries: Sequence[str],
    output: Path | Outlet,
    options: ExportOptions | None = None,
    *,
    withhold: Sequence[str] = (),
) -> Export:
    """Write entries and all that they were drawn from to an artifact, each with its proof.

    The proofs are against the signed head of the bank's log, which goes along, with the records
    that say whose it is. Nothing that was drawn from the entries is in it, and no status: a proof
    says that something was recorded, not that it is still current.

    Args:
        bank: The bank.
        entries: Ids, or the first six digits or more; also of what is not current any more.
        output: The artifact.
        options: The key that signs it, and the rest that goes for an export.
        withhold: Ids of ancestors that are only named, with their proof.

    Raises:
        UsageError: If none is named, or the output is no artifact.
        SigningKeyError: If it would not be signed.
        UnknownMemoryError: If an entry is not there.
        RetiredMemoryError: If one is held back.
        LimitError: If they have too many ancestors.
        SatchelError: As ``export``.
    """
    bank, asked = bank.asked("disclose"), options or ExportOptions()
    if not entries:
        raise UsageError("no memory is named", field="entry")
    if asked.key is None and not asked.dry_run:
        raise SigningKeyError("a disclosure is signed by whoever makes it")

    def take(view: View, outgoing: Outgoing) -> Taken:
        chosen = [find_memory(view, one, "entry") for one in entries]
        if any(one.row.hold for one in chosen):
            raise RetiredMemoryError("it is held back until it is judged", field="entry")
        hidden = frozenset(find_memory(view, one, "withhold").record.id for one in withhold)
        if hidden & {one.record.id for one in chosen}:
            raise UsageError("an entry is disclosed, or withheld; not both", field="withhold")
        return disclosing.disclose(view, chosen, outgoing, hidden)

    with file_to_write(bank.settings, output) as outlet:
        if not export_format(outlet.path, asked.format)[1].info.traits.sealed:
            raise UsageError(
                "only an artifact can hold proofs",
                field="output",
                hint="Write a .pam.jsonl, .pam or .pam.cbor file.",
            )
        return export_part(bank, outlet, asked, Part(take, FileScope(kind="disclosure")))
