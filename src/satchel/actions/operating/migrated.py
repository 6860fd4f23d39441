"""What a migration is asked to do, and what became of each bank."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from satchel.actions.configured.activating import Activation
from satchel.ports.report import Loss
from satchel.seal.signing.key import SigningKey
from satchel.transfer.receipts.account import Account

_FAILED, _DIFFERS = 5, 1

Told = Callable[["MigratedBank"], None]
"""Is told of each bank when it is done, in no order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateOptions:
    """What a migration is asked to do."""

    banks: tuple[str, ...] = ()
    """Which, as ``find_bank`` takes them; all when empty."""

    jobs: int = 4
    """How many banks at a time."""

    new: Path | None = None
    """The configuration file that counts afterwards; None to leave the one that does."""

    active: Path | None = None
    """The file that is read when nobody names another."""

    accept_loss: tuple[str, ...] = ()
    """Fields that may be lost on the way to or from a product; ``all`` for whatever there is."""

    leaves_others: bool = False
    """Whether to switch to a store that lacks banks of the old one."""

    dry_run: bool = False
    owner: Callable[[], SigningKey] | None = None
    """Gives the key that owns banks that are made; for what comes from a provider."""

    told: Told | None = None
    progress: Callable[[int, int], None] | None = None
    """Called with the records that were copied and read back, and all of them twice."""


class MigratedBank(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one bank."""

    bank: str
    name: str | None = None
    relation: str | None = None
    """How the copy that was read stood to the other one before."""

    size: int = 0
    """Records in its log."""

    root: str | None = None
    carried: int = 0
    """Records that were carried now; fewer than ``size`` where an earlier run carried some."""

    vectors: int = 0
    blobs: int = 0
    read_back: dict[str, int] = {}
    """Records of each type, read again from where they went, each proved."""

    verified: bool = False
    """Whether it was read back whole, with the same head."""

    losses: list[Loss] = []
    """What the target has no place for; for a provider."""

    receipt: str | None = None
    """Id of the receipt; ``satchel receipt show`` prints it."""

    account: Account | None = None
    """What the receipt says."""

    default: bool = False
    """Whether it is the default bank of the store that was written."""

    notes: list[str] = []
    problem: str | None = None
    code: str | None = None
    """Of the problem."""

    exit_status: int = 0


class Migrated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a migration did."""

    source: str
    target: str
    banks: list[MigratedBank]
    dry_run: bool = False
    switched: Activation | None = None
    """What became of the active configuration; None where it was left."""

    switch_wanted: bool = False
    """Whether the new configuration was to become the active one."""

    left: list[str] = []
    """Banks of the old store that were not asked for, and that the new one does not have."""

    notes: list[str] = []

    @property
    def failed(self) -> list[MigratedBank]:
        """The banks that are not done."""
        return [one for one in self.banks if one.problem is not None]

    @property
    def exit_status(self) -> int:
        """0 when all is done, 5 when a bank cannot be written or read, 1 otherwise."""
        statuses = {one.exit_status for one in self.failed}
        is_left = self.switch_wanted and not self.dry_run and self.switched is None
        return _FAILED if _FAILED in statuses else _DIFFERS if statuses or is_left else 0
