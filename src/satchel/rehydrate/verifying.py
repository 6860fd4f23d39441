"""Stage 1, verify: that what is read is what was signed; nothing goes on otherwise.

A view of a bank is given only once its head and what this machine witnessed of it hold; each
record that a stage looks at is proved to be in the log of that head. A file is verified whole
before a view of it is made.
"""

from satchel.ledger.view import View
from satchel.rehydrate.asked import Around
from satchel.rehydrate.rehydrated import Stage


def verified(view: View, around: Around) -> Stage:
    """Return what was verified.

    Raises:
        VerificationError: By the view, when a record that is looked at is not what was logged.
    """
    head = view.head
    bank = (
        f"the head of {head.size:,} records is signed and matches the witness; each record is "
        "verified"
    )
    entries = (
        sum(count for kind, count in head.counts.items() if kind in _COMPONENTS)
        if view.is_whole
        else 0
    )
    return Stage(name="verify", detail=around.verified or bank, entries=entries)


_COMPONENTS = frozenset({"episodic", "identity", "procedural", "semantic", "working"})
