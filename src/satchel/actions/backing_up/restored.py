"""What a restore is asked to do, and what it did."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.ledger.epochs import BankStanding
from satchel.seal.signing.key import SigningKey
from satchel.transfer.copies import Relation

Progress = Callable[[int, int], None]
"""Is told of records: made, then brought and compared; and of how many there are in both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreOptions:
    """What a restore is asked to do."""

    source: str | None = None
    """The destination that the backup is in; the first one of the configuration by default."""

    backup: str | None = None
    """Which, by its name or the start of it; the newest sound one by default."""

    at: str | None = None
    """A moment, canonical: the store as it was then, also between two backups."""

    banks: tuple[str, ...] = ()
    """Which, by name or id; all when empty."""

    agents: tuple[str, ...] = ()
    """Ids of agents: their banks and their files, besides ``banks``."""

    workspace: Path | None = None
    """A folder for the files of the one agent that is named; nothing is configured then."""

    session: str | None = None
    """One conversation of one bank, and nothing else: its id, the start of that, or its name."""

    files: bool = True
    """Whether memory files are put back as well, when no bank is named, and files of agents."""

    into: str | None = None
    """The address of the store; the configured one by default."""

    over: bool = False
    """Whether banks and files that are there give way."""

    accept_loss: bool = False
    """Whether this machine gives up what it saw of a bank and the backup lacks."""

    signers: tuple[str, ...] = ()
    """Keys that are believed for this backup besides those that are trusted here."""

    owner: Callable[[], SigningKey] | None = None
    """Gives the owner's key, which decides that something is given up; asked only then."""

    dry_run: bool = False
    progress: Progress | None = None


class RestoredBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one bank, or would."""

    bank: str
    name: str | None = None
    size: int
    """Records in its log."""

    root: str
    relation: Relation
    """How the backup stood to what was there."""

    carried: int = 0
    erased_again: int = 0
    """Records that had been erased since the backup, and are again."""

    standing: BankStanding | None = None
    given_up: bool = False
    """Whether what this machine saw beyond it was given up, which the log says."""

    safety: str | None = None
    """Where what was there is kept."""

    notes: list[str] = []


class RestoredFiles(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Memory files that were put back, or would be."""

    key: str
    aside: str | None = None
    """Where what was there is now."""


class RestoredAgent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of what an agent is besides its memory, or would."""

    id: str
    folder: str | None = None
    """Where its files are; None where it has none."""

    files: int = 0
    same: bool = False
    """Whether all of them were there already."""

    aside: str | None = None
    """Where the folder is now that was there before."""

    configured: bool = False
    """Whether the configuration did not name the agent, and does now."""

    notes: list[str] = []


class RestoredSession(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one conversation, or would."""

    session: str
    """Its id, in the backup and where it was put."""

    name: str | None = None
    bank: str | None
    """Id of the bank that it went into; None for one that a dry run would make."""

    bank_name: str | None = None
    made: bool = False
    """Whether the bank was made for it."""

    messages: int
    """Those that it has in the backup; of a fork, with those before it."""

    added: int = 0
    """Records that were not there."""

    returned: int = 0
    """Records that were deleted there, and are back."""

    there: int = 0
    """Records that were there anyway."""

    later: int = 0
    """Messages that the conversation has beyond the backup; they stay."""

    notes: list[str] = []


class Restored(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a restore did, or would do."""

    source: str
    backup: str
    taken: str
    """When the backup was taken."""

    at: str | None = None
    target: str
    banks: list[RestoredBank]
    files: list[RestoredFiles] = []
    agents: list[RestoredAgent] = []
    session: RestoredSession | None = None
    receipts: list[str] = []
    """Ids of the signed receipts, one for each bank."""

    notes: list[str] = []
    dry_run: bool = False
