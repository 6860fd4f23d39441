"""How an import decides, and what it decided, counted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec


class ConflictPolicy(StrEnum):
    """What to do with a record when the bank has another version of the same thing."""

    SKIP = "skip"
    OVERWRITE = "overwrite"
    RENAME = "rename"
    ERROR = "error"


class ImportCounts(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What an import does to one bank, counted."""

    read: int = 0
    """Records that arrived for the bank."""

    added: int = 0
    """Memories that are new to it; ``overwritten``, ``renamed`` and ``merged`` are among them."""

    known: int = 0
    """Imported before, or here already: left as they are."""

    redacted: int = 0
    """Of these: came whole, and are redacted here, which they stay."""

    returned: int = 0
    """Of these: came redacted before, from elsewhere, and are whole again."""

    twice: int = 0
    """In the file more than once; one of them counts."""

    forgotten: int = 0
    """Memories that were imported before and forgotten here; they stay forgotten."""

    skipped: int = 0
    """Other versions of what the bank has, left out."""

    overwritten: int = 0
    """Memories added or restored in the place of another version, of the bank or of the file."""

    renamed: int = 0
    """Memories added beside another version, under an id of their own."""

    restored: int = 0
    """Memories that had been retired here and are current again."""

    near: int = 0
    """Memories that say what another one says, left out."""

    merged: int = 0
    """Memories added in the place of one that says the same."""

    vanished: int = 0
    """Memories that the source has no longer, deleted here too."""

    past: int = 0
    """Older versions, and what was deleted at the source: they come retired."""

    others: int = 0
    """Edges, nodes, sessions and the like that are new to it."""

    conversations: int = 0
    """Of these: conversations."""

    messages: int = 0
    """Of these: messages of conversations."""

    others_known: int = 0
    """The same, imported before, or here already."""

    others_twice: int = 0
    others_skipped: int = 0
    others_overwritten: int = 0
    others_renamed: int = 0
    others_vanished: int = 0

    unjoined: int = 0
    """Edges that lead to what the bank has no longer, left out."""

    left: dict[str, int] = {}
    """Records of kinds that stay with the log they come from, by kind."""

    @property
    def beside(self) -> int:
        """How many of the others are neither conversations nor messages."""
        return self.others - self.conversations - self.messages

    @property
    def others_changed(self) -> int:
        """How many edges and the like of the bank are not current any more."""
        return self.others_overwritten + self.others_vanished

    @property
    def others_left(self) -> int:
        """How many records that are no memories are left as they are, or left out."""
        beside = self.others_known + self.others_twice + self.others_skipped
        return beside + self.unjoined + sum(self.left.values())

    @property
    def others_in_conflict(self) -> int:
        """How many edges and the like the bank has another version of."""
        return self.others_skipped + self.others_overwritten + self.others_renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """How an import decides."""

    on_conflict: ConflictPolicy = ConflictPolicy.SKIP
    mirror: bool = False
    """Whether the bank is to lose what the source has lost; other versions overwrite then."""

    keeps_ids: bool = False
    """Whether the records come with their ids, so that they may be here already."""

    twins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Ids of what arrives and says the same as something else, with the ids of that."""

    merge: bool = False
    """Whether it takes the place of that; otherwise it is left out."""

    linked: bool = False
    """Whether what arrives may name other things that arrive: parents, ends of edges."""

    replaces: Mapping[str, str] = field(default_factory=dict)
    """Ids of what arrives and somebody made of a record, with the id of that."""

    bank: str = ""
    """Id of the bank that a verified file is of; empty where nobody vouches for one."""

    going_on: str = ""
    """Id of the source record of the import that is gone on with."""

    @property
    def mode(self) -> ConflictPolicy:
        """What to do with other versions."""
        return ConflictPolicy.OVERWRITE if self.mirror else self.on_conflict
