"""Disclose entries of a bank with everything that they derive from, and a proof for each.

The recipient can verify without the bank that each was logged under the signed head. Ancestors are
included, so that each chain can be followed to its roots; a withheld ancestor appears with its ID,
position and proof, without its content. What derives from an entry is never included. Source:
docs/spec/7-disclosure-redaction-erasure.md, 7.1.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from satchel.artifact.body import FileScope, SourceAgent
from satchel.bank.machine_keys import lock_for, signer_of
from satchel.bank.memory import find_memory
from satchel.bank.open_bank import OpenBank
from satchel.config.options import (
    NOT_FOR_MODELS,
    RESPONSE,
    EncryptionOptions,
    Overwrite,
    PathOptions,
    PathPermission,
    Receipt,
    SigningOptions,
    file_to_write,
)
from satchel.crypto.keys import ENDING, OWNING
from satchel.crypto.keys import SigningKey as Key
from satchel.errors import LimitError, RetiredMemoryError, SigningKeyError, UsageError
from satchel.ledger.authority import ADMISSION, DECISIONS
from satchel.ledger.projection import VerifiedRecord
from satchel.ledger.view import View
from satchel.model.records import Config, Entry
from satchel.model.values import now
from satchel.ports.operations import Absent, Option, PathText, operation, texts
from satchel.ports.rows import Filter
from satchel.runtime.output import Outlet
from satchel.transfer.export_records import (
    Export,
    ExportCounts,
    ExportDestination,
    ExportOptions,
    export_format,
)
from satchel.transfer.exports import ExportPart, export_part

MOST = 100_000
"""Maximum number of entries and ancestors of one disclosure."""

_TOGETHER, _EXAMPLES = 256, 3
_ABOUT_KEYS = DECISIONS | ENDING | OWNING | {ADMISSION}
_ABOUT_THE_LOG = Filter(types=frozenset({"bank", "config"}))


def disclose(
    view: View,
    chosen: Iterable[VerifiedRecord],
    outgoing: ExportDestination,
    withhold: frozenset[str] = frozenset(),
) -> ExportCounts:
    """Add entries, their ancestors and the proofs that all were logged to a builder.

    Args:
        view: View of the bank.
        chosen: The entries; they need not be current.
        outgoing: Destination of the records.
        withhold: IDs of ancestors to withhold.

    Raises:
        LimitError: If there are too many ancestors.
        VerificationError: If a record is not what was logged.
    """
    disclosing = _DisclosureTask(view, outgoing, withhold)
    for logged in view.scan(_ABOUT_THE_LOG):
        model = logged.model
        if not isinstance(model, Config) or model.action in _ABOUT_KEYS:
            outgoing.builder.add(logged.record)
            if isinstance(model, Config) and model.action in ENDING:
                disclosing.endings.append(logged.record.id)
    disclosing.add(chosen)
    disclosing.finish()
    return disclosing.found


class _DisclosureTask:
    """A traversal of the ancestors that visits each once."""

    def __init__(self, view: View, outgoing: ExportDestination, withhold: frozenset[str]) -> None:
        self.found = ExportCounts()
        self.endings = list[str]()
        """IDs of the records that ended keys."""

        self._redacts = False
        self._view = view
        self._builder = outgoing.builder
        self._withhold = withhold
        self._seen = set[str]()
        self._now = now()

    def add(self, chosen: Iterable[VerifiedRecord]) -> None:
        """Add entries and their ancestors, one generation at a time."""
        some = {logged.record.id: logged for logged in chosen}
        self._note(some)
        while some:
            parents = dict.fromkeys(
                parent
                for logged in some.values()
                if isinstance(logged.model, Entry)
                for parent in logged.model.parent_ids
                if parent not in self._seen
            )
            self._add(some)
            self._note(parents)
            visible, hidden = dict[str, VerifiedRecord](), list[str]()
            for ids in _groups(list(parents)):
                existing = self._view.get([name for name in ids if name not in self._withhold])
                visible |= {
                    name: logged for name, logged in existing.items() if not logged.row.hold
                }
                hidden += [name for name in ids if name not in visible]
            self._withhold_ids(hidden)
            some = visible

    def _note(self, ids: Iterable[str]) -> None:
        self._seen.update(ids)
        if len(self._seen) > MOST:
            raise LimitError(
                f"more than {MOST:,} entries and ancestors",
                hint="Withhold some, which ends their chains, or export the bank.",
            )

    def _add(self, some: dict[str, VerifiedRecord]) -> None:
        for ids in _groups(list(some)):
            proofs = self._view.proofs(ids)
            for identity in ids:
                logged = some[identity]
                expires = logged.row.expires_at
                self._builder.add(logged.record)
                if isinstance(logged.model, Entry) and logged.model.nonce is None:
                    redaction = self._view.redaction(identity)
                    assert redaction is not None  # noqa: S101 - a redacted form is valid only with it
                    self._builder.add(redaction.record)
                    self._prove([redaction.record.id])
                    self._redacts = True
                self._builder.add_item("proofs", msgspec.to_builtins(proofs[identity]))
                self.found.entries += 1
                self.found.expired += expires is not None and expires <= self._now

    def finish(self) -> None:
        """Add proofs of the records that ended keys: which redactions were signed before."""
        if self._redacts:
            self._prove(self.endings)

    def _prove(self, ids: list[str]) -> None:
        for some in _groups(ids):
            for proof in self._view.proofs(some).values():
                self._builder.add_item("proofs", msgspec.to_builtins(proof))

    def _withhold_ids(self, hidden: list[str]) -> None:
        for ids in _groups(hidden):
            proofs = self._view.proofs(ids)
            for identity in ids:
                if identity in proofs:
                    self._builder.add_item("withheld", msgspec.to_builtins(proofs[identity]))
                    self.found.withheld += 1
                    continue
                self.found.absent += 1
                if len(self.found.absent_examples) < _EXAMPLES:
                    self.found.absent_examples.append(identity)


def _groups(ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(ids), _TOGETHER):
        yield ids[start : start + _TOGETHER]


def disclose_to(
    bank: OpenBank,
    entries: Sequence[str],
    output: Path | Outlet,
    options: ExportOptions | None = None,
    *,
    withhold: Sequence[str] = (),
) -> Export:
    """Write entries and all their ancestors to an artifact, each with its proof.

    The proofs refer to the signed head of the bank's log, which is included with the records that
    name the log's owners. Nothing that derives from the entries is included, and no status: a proof
    shows that something was recorded, not that it is still current.

    Args:
        bank: The bank.
        entries: IDs or prefixes of at least six digits; they need not be current.
        output: The artifact.
        options: As for an export, with the key that signs the artifact.
        withhold: IDs of ancestors to include without their content.

    Raises:
        UsageError: If no entry is given, or the output is not an artifact.
        SigningKeyError: If there is no key.
        UnknownMemoryError: If there is no such entry.
        RetiredMemoryError: If an entry is quarantined.
        LimitError: If there are too many ancestors.
        SatchelError: As ``export``.
    """
    bank, requested = bank.asked("disclose"), options or ExportOptions()
    if not entries:
        raise UsageError("no memory given", field="entry")
    if requested.key is None and not requested.dry_run:
        raise SigningKeyError("a disclosure must be signed")

    def take(view: View, outgoing: ExportDestination) -> ExportCounts:
        chosen = [find_memory(view, text, "entry") for text in entries]
        if any(logged.row.hold for logged in chosen):
            raise RetiredMemoryError("it is quarantined", field="entry")
        hidden = frozenset(find_memory(view, text, "withhold").record.id for text in withhold)
        if hidden & {logged.record.id for logged in chosen}:
            raise UsageError("an entry cannot be both disclosed and withheld", field="withhold")
        return disclose(view, chosen, outgoing, hidden)

    with file_to_write(bank.settings, output) as outlet:
        if not export_format(outlet.path, requested.format)[1].info.traits.sealed:
            raise UsageError(
                "only a sealed artifact can contain proofs",
                field="output",
                hint="Write a .pam.jsonl, .pam or .pam.cbor file.",
            )
        return export_part(bank, outlet, requested, ExportPart(take, FileScope(kind="disclosure")))


@dataclass(frozen=True, slots=True)
class DiscloseOptions(PathOptions, SigningOptions, EncryptionOptions):
    """Which memories to disclose, and the output."""

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
def disclose_memories(
    bank: OpenBank,
    options: DiscloseOptions,
    *,
    owner: Callable[[], Key] | None = None,
    permission: PathPermission | None = None,
    outlet: Outlet | None = None,
) -> Export:
    """Disclose memories and all that they derive from, each with the proof that it was logged.

    The recipient can verify the artifact without the bank: `satchel verify FILE --deep`. What
    derives from the memories is not included, and a withheld ancestor shows only that it exists.

    Args:
        bank: The bank.
        options: Which memories, and the output.
        owner: Returns the key that signs it.
        permission: Allowed paths; by default those of the options.
        outlet: An open file to write in place of the output.

    Raises:
        ContainmentError: If the path is outside the allowed folders.
        UnknownMemoryError: If there is no such memory.
        UsageError: If no memory is given, or the output is not an artifact.
        TargetError: If it cannot be written.
    """
    settings = bank.settings
    key = None if options.dry_run else signer_of(settings, options, owner)
    export_options = ExportOptions(
        key=key,
        lock=lock_for(settings, texts(options.encrypt_to), options.file_passphrase),
        overwrite=options.overwrite,
        receipt=None if options.receipt is None else Path(options.receipt),
        dry_run=options.dry_run,
        source_agent=SourceAgent(name=options.agent) if options.agent else None,
    )
    entries, withhold = texts(options.entry_ids), texts(options.withhold)
    if outlet is not None:
        return disclose_to(bank, entries, outlet, export_options, withhold=withhold)
    allowed = permission or options.permission
    if options.receipt is not None:
        with file_to_write(settings, options.receipt, allowed):
            pass
    with file_to_write(settings, options.output, allowed) as file:
        return disclose_to(bank, entries, file, export_options, withhold=withhold)
