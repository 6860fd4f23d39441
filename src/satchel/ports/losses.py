"""Losses of a transfer, counted and named; nothing is dropped without an entry here."""

from collections import Counter
from dataclasses import dataclass, field

from satchel.errors import InputError

_EXAMPLES = 3
_PLACES = 1000
_KINDS, _OTHER = 30, "other"
_BAD = {
    "input.malformed": "malformed",
    "input.limit": "over a limit",
    "value.refused": "contains a value no record can have",
}


@dataclass(slots=True)
class Loss:
    """One kind of loss."""

    name: str
    """The lost member, or kind of record."""

    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    """Up to three IDs or names of affected records."""


@dataclass(slots=True)
class RefusedRecord:
    """A record that could not be read, and was skipped."""

    line: int | None
    field: str | None
    code: str
    """The code of its error."""

    message: str

    @property
    def place(self) -> str:
        """Its position for a user: ``line 7``, ``results/3``."""
        line = f"line {self.line}" if self.line is not None else ""
        return ", ".join(filter(None, (line, f"field {self.field}" if self.field else "")))


@dataclass(slots=True)
class Report:
    """What a reader or writer reports."""

    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    """The first thousand skipped records; ``losses`` counts all."""

    left_out: int = 0
    """Number of skipped records."""

    ignored: Counter[str] = field(default_factory=Counter)
    """Records without memory, by kind: no loss, reported in one note."""

    def lost(self, name: str, reason: str, *, example: str = "", count: int = 1) -> None:
        """Count a loss.

        Args:
            name: The member, or the kind of record.
            reason: Why, in a few words; losses of one name and reason are counted together.
            example: An ID or name of the record, for the user.
            count: How many.
        """
        loss = self.losses.setdefault((name, reason), Loss(name, reason))
        loss.count += count
        if example and len(loss.examples) < _EXAMPLES:
            loss.examples.append(example)

    def refuse(self, error: InputError) -> None:
        """Count a skipped bad record."""
        refused = RefusedRecord(error.line, error.field, error.code, error.message)
        self.lost("record", _BAD.get(error.code, error.code), example=refused.place)
        self.left_out += 1
        if len(self.refused) < _PLACES:
            self.refused.append(refused)

    def ignore(self, kind: str, *, count: int = 1) -> None:
        """Count a record without memory, such as the number of tokens of an answer.

        It is no loss; one note counts all of them.
        """
        before = self._ignored_note()
        self.ignored[kind if kind in self.ignored or len(self.ignored) < _KINDS else _OTHER] += (
            count
        )
        if before in self.notes:
            self.notes[self.notes.index(before)] = self._ignored_note()
        else:
            self.notes.append(self._ignored_note())

    def _ignored_note(self) -> str:
        named = ", ".join(f"{count:,} {kind}" for kind, count in self.ignored.items())
        return f"ignored, as it holds no memory: {named}"

    @property
    def first_refused(self) -> str | None:
        """Add a note on the first skipped record, if any."""
        if not self.refused:
            return None
        one = self.refused[0]
        where = f"line {one.line}" if one.line is not None else f"record {one.field}"
        return f"All records were skipped as malformed, the first at {where}: {one.message}."

    def note(self, text: str) -> None:
        """Add a note that is no loss."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def total(self) -> int:
        """Number of losses."""
        return sum(loss.count for loss in self.losses.values())
