"""What a restore did."""

import msgspec

from satchel.ledger.heads import BankStanding
from satchel.replication.copies import Relation


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

    trust: BankStanding | None = None
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


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
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
