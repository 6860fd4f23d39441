"""Memories without text at their source, as a receipt reports them."""

from satchel.memory.parts import Origin
from satchel.memory.records import Model
from satchel.ports.contents import OF_ROWS, is_empty
from satchel.ports.report import Report
from satchel.transfer.receipts.account import told

_MOST_NAMED = 3


class EmptyTexts:
    """What of one pass over a source says nothing.

    Where the text of a row was looked for, an empty one may be the wrong one: that is a loss. All
    else arrives as it is, and a note counts it.

    Args:
        report: Takes the loss and the note.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._count = 0
        self._examples = list[str]()

    def see(self, identity: str, draft: Model) -> None:
        """Look at a memory on its way."""
        if not is_empty(draft):
            return
        origin = getattr(draft, "origin", None) or Origin()
        example = origin.id or identity
        if origin.provider in OF_ROWS:
            reason = "its text is empty; another member may contain it (--text-member)"
            self._report.lost("text", reason, example=example)
        else:
            self._count += 1
            self._examples += [told(example)] * (self._count <= _MOST_NAMED)

    def end(self) -> None:
        """Report what was counted."""
        if self._count:
            named = ", ".join(self._examples)
            self._report.note(f"memories without text at their source: {self._count:,} ({named})")
