"""What a transfer would do, as a value: what a dry run gives."""

from typing import Literal

import msgspec

from satchel.model.records import Count
from satchel.receipts.account import FieldLoss, Kind, Refusal, TransferEnd


class Tenant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose memory something is, and where it goes."""

    sort: Literal["user", "agent", "run", "nobody"]
    name: str
    records: Count
    bank: str | None = None
    """The bank's name; None where nothing goes into a bank."""

    mapped: bool = False
    """Whether a person said that it goes there."""


class TargetPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What would become of one bank, or of the file that is written."""

    name: str
    bank: str | None = None
    """Id of the bank, where it is there."""

    makes: bool = False
    """Whether it would be made."""

    created: Count = 0
    """Records that would be new."""

    changed: Count = 0
    """Memories that would be superseded, deleted, or current again."""

    left_alone: Count = 0
    """Records of the input that are there already, or are left out."""

    conflicts: Count = 0
    """Other versions of what is there."""

    conflict_examples: list[str] = []
    """The things of which there is another version, by their ids at their origin."""


class NearDuplicate(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories that say almost the same, by their ids."""

    one: str
    other: str
    similarity: float


class EmbeddingCost(msgspec.Struct, frozen=True, kw_only=True):
    """What embedding the new memories would take."""

    records: Count
    characters: Count
    tokens: Count
    """An estimate, rather too high."""


class TransferPlan(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a transfer would do; nothing was changed to find it out."""

    version: Literal[1]
    kind: Kind
    tool: str
    input: TransferEnd
    output: TransferEnd
    read: dict[str, Count]
    """Records by type."""

    targets: list[TargetPlan]
    embedding: EmbeddingCost
    seconds: float
    """How long it would take, from the time that reading took here and now."""

    bytes_per_second: Count
    tenants: list[Tenant] = []
    tenants_left: Count = 0
    """How many more owners there are than are named."""

    cannot_hold: list[FieldLoss] = []
    """What would not make it, field by field."""

    refused: Count = 0
    refusals: list[Refusal] = []
    near_duplicates: Count | None = None
    """Memories that say almost what another one says; None where nobody looked for them."""

    near_examples: list[NearDuplicate] = []
    """The first of them, each with the one that it is most like: in the bank, or before it."""

    secrets: dict[str, Count] = {}
    notes: list[str] = []

    @property
    def unaccepted(self) -> int:
        """How much would be lost that nobody said may be lost."""
        return sum(one.count for one in self.cannot_hold if not one.accepted)
