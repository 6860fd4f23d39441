"""Disclosing entries to somebody, who can check without the bank that they were in it."""

from collections.abc import Sequence
from pathlib import Path

from satchel.actions.memories.naming import find_memory
from satchel.actions.moving.exported import Export, ExportOptions, export_format
from satchel.actions.moving.exporting import Part, export_part
from satchel.actions.opened import OpenBank
from satchel.actions.paths.permission import file_to_write
from satchel.disk.outlet import Outlet
from satchel.errors import RetiredMemoryError, SigningKeyError, UsageError
from satchel.ledger.view import View
from satchel.seal.artifact.statement import FileScope
from satchel.transfer import disclosing
from satchel.transfer.exporting import Outgoing, Taken


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
        raise UsageError("no memory given", field="entry")
    if asked.key is None and not asked.dry_run:
        raise SigningKeyError("a disclosure must be signed")

    def take(view: View, outgoing: Outgoing) -> Taken:
        chosen = [find_memory(view, one, "entry") for one in entries]
        if any(one.row.hold for one in chosen):
            raise RetiredMemoryError("it is quarantined", field="entry")
        hidden = frozenset(find_memory(view, one, "withhold").record.id for one in withhold)
        if hidden & {one.record.id for one in chosen}:
            raise UsageError("an entry cannot be both disclosed and withheld", field="withhold")
        return disclosing.disclose(view, chosen, outgoing, hidden)

    with file_to_write(bank.settings, output) as outlet:
        if not export_format(outlet.path, asked.format)[1].info.traits.sealed:
            raise UsageError(
                "only a sealed artifact can contain proofs",
                field="output",
                hint="Write a .pam.jsonl, .pam or .pam.cbor file.",
            )
        return export_part(bank, outlet, asked, Part(take, FileScope(kind="disclosure")))
