"""What did not survive, counted and named; nothing is dropped without a line here."""

from dataclasses import dataclass, field

_EXAMPLES = 3


@dataclass(slots=True)
class Loss:
    """One kind of thing that could not be carried."""

    name: str
    """The member, or the kind of record, that was left behind."""

    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    """Up to three ids or names of records it happened to."""


@dataclass(slots=True)
class Report:
    """What a reader or writer tells about its work."""

    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def lost(self, name: str, reason: str, *, example: str = "", count: int = 1) -> None:
        """Count something that was left behind.

        Args:
            name: The member, or the kind of record.
            reason: Why, in a few words; part of what is counted together.
            example: An id or name of the record, for the person to look at.
            count: How many.
        """
        loss = self.losses.setdefault((name, reason), Loss(name, reason))
        loss.count += count
        if example and len(loss.examples) < _EXAMPLES:
            loss.examples.append(example)

    def note(self, text: str) -> None:
        """Say something worth knowing that is no loss."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def total(self) -> int:
        """How many things were lost."""
        return sum(loss.count for loss in self.losses.values())
