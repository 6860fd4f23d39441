"""Imports as batches: the records that open them, mark their groups and make them visible."""

from typing import Any

from satchel.errors import UsageError
from satchel.ledger.folding import CLOSED, GROUP, MOST_IN_GROUP, Fold
from satchel.memory.records import Receipt
from satchel.seal.records import Sealed
from satchel.seal.sealing import seal


def group_of(fold: Fold, source: str, count: int, at: str) -> Sealed:
    """Return the receipt that stands before a group of an import's records.

    Args:
        fold: What the log says.
        source: Id of the source record of the import.
        count: How many records follow.
        at: The present moment.

    Raises:
        UsageError: If there is no such import, it is complete, or these are too many at once.
    """
    if count > MOST_IN_GROUP:
        raise UsageError(f"{count} records in one batch exceed the limit of {MOST_IN_GROUP}")
    batch = fold.batch(source)
    if batch is None or batch.closed is not None:
        what = "no such import" if batch is None else "the import is complete:"
        raise UsageError(f"{what} {source}", hint="Append its source record first.")
    return seal(Receipt(action=GROUP, result={"source": source, "records": count}, at=at))


def closing(source: str, at: str, **result: Any) -> Sealed:
    """Return the receipt that makes the records of an import visible, all in one moment.

    Args:
        source: Id of the source record of the import.
        at: The present moment.
        **result: What else the receipt is to say, such as counts.
    """
    return seal(Receipt(action=CLOSED, result={**result, "source": source}, at=at))
