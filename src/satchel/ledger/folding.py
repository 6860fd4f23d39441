"""What status records make of the records they name: the columns ``retired`` and ``hold``."""

from collections.abc import Sequence

from satchel.memory.records import Model, Status
from satchel.ports.rows import Row, after_status
from satchel.ports.store import Change, Reader


def fold(reader: Reader, bank: str, rows: list[Row], models: Sequence[Model]) -> list[Change]:
    """Apply the status records among new rows, in their order.

    Args:
        reader: The store as it is before.
        bank: The bank.
        rows: The new rows; those that others of them change are replaced.
        models: Their typed values.

    Returns:
        What changes in rows that were there before.
    """
    statuses = [
        (row.seq, model)
        for row, model in zip(rows, models, strict=True)
        if isinstance(model, Status)
    ]
    if not statuses:
        return []
    own = {row.id: place for place, row in enumerate(rows)}
    wanted = list({status.target for _, status in statuses} - own.keys())
    before = {row.id: row for row in reader.get(bank, wanted)}
    for seq, status in statuses:
        if status.target in own:
            place = own[status.target]
            rows[place] = after_status(rows[place], status, seq)
        elif status.target in before:
            before[status.target] = after_status(before[status.target], status, seq)
    return [Change(row.seq, row.retired, row.hold) for row in before.values()]
