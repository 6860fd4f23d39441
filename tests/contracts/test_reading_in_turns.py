"""A body is read by several readers in turns, as a writer does that interleaves two sections."""

from satchel.conformance.strategies import simplest
from satchel.conformance.subject import sealed


def test_two_sections_can_be_read_in_turns() -> None:
    """Each reader goes on where it was, whatever another one read meanwhile."""
    kinds = ("procedural", "semantic")
    with sealed([simplest(kind) for kind in kinds for _ in range(5)]) as records:
        apart = [[record.id for record in records.of(kind)] for kind in kinds]
        in_turns = list(zip(*(records.of(kind) for kind in kinds), strict=True))

    assert [[pair[side].id for pair in in_turns] for side in (0, 1)] == apart
