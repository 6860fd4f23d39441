"""What an import is going to log, in groups that take bounded memory."""

from collections.abc import Sequence
from contextlib import closing

import pytest

from satchel.crypto.sealed_records import seal
from satchel.model.records import Semantic
from satchel.ports.rows import Row, unplaced_row
from satchel.runtime.scratch import SpoolStreams
from satchel.transfer.import_stage import GROUP, GROUP_BYTES, ImportStage


def _row(text: str) -> Row:
    draft = Semantic(text=text)
    record = seal(draft)
    return unplaced_row(draft, record.id, record.body)


def _sizes(groups: Sequence[Sequence[Row]]) -> list[int]:
    return [sum(len(row.body or b"") for row in group) for group in groups]


@pytest.mark.parametrize("together", [1, 10])
@pytest.mark.parametrize("early", [False, True], ids=["staged", "logged-early"])
def test_a_group_of_long_records_is_limited_by_bytes(*, early: bool, together: int) -> None:
    """4,096 messages of 8 KB would be in memory several times."""
    row, count = _row("tea " * 60_000), 100
    with closing(SpoolStreams()) as strands:
        stage, given = ImportStage(strands), list[Sequence[Row]]()

        def take(rows: Sequence[Row]) -> bool:
            given.append(rows)
            return True

        stage.sink = take if early else None
        for _ in range(count // together):
            stage.add_many([row] * together)
        stage.flush()
        groups = given or [*stage.groups()]

    assert min(_sizes(groups)[:-1]) >= GROUP_BYTES
    assert max(_sizes(groups)) < GROUP_BYTES + len(row.body or b"")
    assert sum(map(len, groups)) == count


def test_a_group_of_short_records_is_limited_by_number() -> None:
    """From the position of an earlier attempt on."""
    row = _row("tea")
    with closing(SpoolStreams()) as strands:
        stage = ImportStage(strands)
        for _ in range(GROUP + 10):
            stage.add(row)
        stage.add_many([])

        assert [len(group) for group in stage.groups()] == [GROUP, 10]
        assert [len(group) for group in stage.groups(after=5)] == [GROUP, 5]
