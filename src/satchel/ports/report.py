"""What did not survive, counted and named; nothing is dropped without a line here."""

from dataclasses import dataclass, field

_EXAMPLES = 3
_REFUSALS = 100


@dataclass(slots=True)
class Loss:
    """One kind of thing that could not be carried."""

    name: str
    """The member, or the kind of record, that was left behind."""

    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    """Up to three ids or names of records it happened to."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that was not taken."""

    place: str
    """Where in the input, as a person finds it: ``line 7``, ``results/3``."""

    reason: str


@dataclass(slots=True)
class Report:
    """What a reader or writer tells about its work."""

    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: int = 0
    """How many records were not taken, where the others were taken all the same."""

    refusals: list[Refusal] = field(default_factory=list)
    """The first hundred of them."""

    def begin(self) -> None:
        """Forget everything; the same is going to be read again."""
        self.losses.clear()
        self.notes.clear()
        self.refusals.clear()
        self.refused = 0

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

    def refuse(self, place: str, reason: str) -> None:
        """Count a record that is not taken, while the others are."""
        self.refused += 1
        if len(self.refusals) < _REFUSALS:
            self.refusals.append(Refusal(place, reason))

    def note(self, text: str) -> None:
        """Say something worth knowing that is no loss."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def total(self) -> int:
        """How many things were lost."""
        return sum(loss.count for loss in self.losses.values())
