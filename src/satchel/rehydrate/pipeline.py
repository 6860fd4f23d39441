"""The pipeline: verify, filter, rank, compress, format, frame, inject."""

from satchel.ledger.view import View
from satchel.rehydrate.asked import Around, Asked
from satchel.rehydrate.rehydrated import Rehydrated


def rehydrate(view: View, asked: Asked | None = None, around: Around | None = None) -> Rehydrated:
    """Return a bank's memory as text and messages for a model, within a budget.

    Args:
        view: The bank; the part of it that a token covers, where one was presented.
        asked: What is wanted.
        around: What to work with.

    Raises:
        UsageError: If the budget does not even hold the frame.
        VerificationError: If a record is not what was logged.
    """
    raise NotImplementedError  # the stages follow
