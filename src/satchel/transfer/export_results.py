"""What an export is asked to do, and what it did."""

from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.artifact.statement import SourceAgent
from satchel.crypto.encryption import NOBODY, Lock
from satchel.crypto.keys import SigningKey
from satchel.errors import UsageError
from satchel.model.values import Component, read_time
from satchel.ports.format import Format
from satchel.ports.losses import Loss
from satchel.receipts.account import ReceiptBody
from satchel.receipts.plans import TransferPlan
from satchel.transfer.export_file import chosen_format
from satchel.transfer.export_records import WHOLE, MemorySelection, Progress
from satchel.transfer.live_products import connector_for

OTHERWISE = "pam"
"""The format of a file whose name does not say it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What an export is asked to do."""

    format: str | None = None
    """From the output's name when not given, or else ``OTHERWISE``."""

    selection: MemorySelection = WHOLE
    key: SigningKey | None = None
    """Signs an artifact; None writes it unsigned."""

    lock: Lock = NOBODY
    """Whom the file is encrypted to; nobody means in plain."""

    overwrite: bool = False
    fail_on_loss: bool = False
    scrub_secrets: bool = False
    """Replace secrets by tokens; otherwise they are only counted."""

    entities: bool = True
    """Whether entities go along, in formats that can do without them."""

    embeddings: bool = False
    """Whether vectors go along, the bank's own and those that came with memories, where there is a
    place for them."""

    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost; ``all`` for whatever there is."""

    receipt: Path | None = None
    """Where a copy of the receipt goes; it must not be there yet."""

    sidecar: bool = False
    """Write what the format cannot hold into a file beside the output."""

    keeps_receipt: bool = True
    """False where it is a step of something larger, whose receipt tells of it."""

    dry_run: bool = False
    """Say what would be written and lost, and write nothing."""

    source_agent: SourceAgent | None = None
    progress: Progress | None = None


class Export(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an export did: read, written, read back, lost."""

    bank: str
    name: str | None = None
    epoch: int
    size: int
    """Records in the bank's log when it was read."""

    root: str
    selection: MemorySelection
    output: str
    format: str
    records: dict[str, int]
    """Objects in each section, as read from the bank."""

    entries: int
    losses: list[Loss]
    notes: list[str]
    secrets: dict[str, int] = {}
    """What looks like keys, tokens, passwords and cards, by kind."""

    secrets_kept: int = 0
    """How many of them went out as they are."""

    dry_run: bool = False
    written: int | None = None
    """Memories that a live product took; None for a file."""

    known: int | None = None
    """Those that it had already, saying the same."""

    output_digest: str | None = None
    output_bytes: int | None = None
    sidecar: str | None = None
    """The file beside the output that holds what its format cannot."""

    signed_by: str | None = None
    read_back: str | None = None
    """The verdict on a sealed output, read again from the disk."""

    plan: TransferPlan | None = None
    """What would be done, of a dry run."""

    receipt: str | None = None
    """Id of the receipt; ``satchel receipt show`` prints it."""

    account: ReceiptBody | None = None
    """What the receipt says."""

    unaccepted: int = 0
    """How much was lost, or would be, that nobody said may be lost."""

    @property
    def lost(self) -> int:
        """How many things did not make it."""
        return sum(loss.count for loss in self.losses)


def export_format(output: Path, name: str | None) -> tuple[str, Format]:
    """Return the format that an export writes: by name, else by suffix, else an artifact.

    Raises:
        UsageError: If it cannot be written.
    """
    return chosen_format(output, name, otherwise=OTHERWISE)


def is_signed(output: Path, name: str | None) -> bool:
    """Tell whether an export is signed, where it is not asked to be without.

    Raises:
        UsageError: If it cannot be written.
    """
    if connector_for(str(output), name) is not None:
        return False
    return export_format(output, name)[1].info.traits.sealed


def selection(  # noqa: PLR0913 - each filter on its own
    *,
    components: tuple[str, ...] = (),
    tags: tuple[str, ...] = (),
    since: str | None = None,
    until: str | None = None,
    owner: str | None = None,
    as_of: int | None = None,
    ids: tuple[str, ...] = (),
) -> MemorySelection:
    """Return which memory is meant, from what a person says.

    Args:
        components: Names of components.
        tags: Tags; one of them is enough.
        since: First moment, as a date or time.
        until: Last moment, not included.
        owner: A user, or an agent.
        as_of: A size of the log.
        ids: IDs of current memories, or prefixes of them.

    Raises:
        UsageError: If a component or a moment is none, or IDs are of another time than now.
    """
    unknown = sorted(set(components) - set(Component))
    if unknown:
        raise UsageError(
            f"unknown type {unknown[0]!r}",
            field="component",
            hint=f"Known: {', '.join(Component)}.",
        )
    if as_of is not None and as_of < 1:
        raise UsageError("the number of records must be at least 1", field="as_of")
    if as_of is not None and ids:
        raise UsageError("IDs select current memories only: drop as_of", field="as_of")
    return MemorySelection(
        components=tuple(sorted(set(components))),
        tags=tuple(sorted(set(tags))),
        since=_moment(since, "since"),
        until=_moment(until, "until"),
        owner=owner,
        as_of=as_of,
        ids=tuple(sorted(set(ids))),
    )


def _moment(text: str | None, field: str) -> str | None:
    if text is None:
        return None
    found = read_time(text)
    if found is None:
        raise UsageError(
            f"{text!r} is not a date or time", field=field, hint="Write it as 2026-01-31."
        )
    return found
