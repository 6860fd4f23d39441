"""``satchel links`` and ``path``, and the same from Python."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from bank_kit import filled

import satchel as library
from satchel import aio
from satchel.crypto.sealed_records import seal
from satchel.model.records import Edge

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def graph(satchel: Run) -> tuple[str, str]:
    """Remember two memories that an edge connects, and one that leads out of the bank."""
    first = satchel("remember", "likes tea").out.strip()
    second = satchel("remember", "drinks green tea", "--parent", first).out.strip()
    with filled() as bank:
        name = "\x1b[2Jelsewhere\u202e"
        bank.ledger.append([seal(Edge(source=second, target=name, kind="\x1b]0;owned\x07"))])
    return first, second


def test_links_and_ways_are_shown_and_drive_no_terminal(satchel: Run) -> None:
    """Words, types and names from anywhere stand there as signs."""
    first, second = graph(satchel)
    ran = satchel("links", first, "--hops", "2")
    assert ran.status == 0
    assert "drinks green tea" in ran.out
    assert "derives_from" in ran.out
    assert "(placeholder)" in ran.out
    assert "\x1b" not in ran.out
    assert "\u202e" not in ran.out
    way = satchel("path", first, second)
    assert way.out.index("likes tea") < way.out.index("derives_from") < way.out.index("green")
    assert "no path found" in satchel("path", second, second).err
    assert "no links found" in satchel("links", first, "--type", "none").err
    assert "There may be more" in satchel("links", first, "--hops", "2", "--budget", "1").err
    found = satchel("links", first, "--json").json
    assert [each["id"] for each in found["things"]] == [second]


def test_python_has_the_same(satchel: Run) -> None:
    """Plain and awaited."""
    first, second = graph(satchel)
    with library.Satchel.open() as store:
        bank = store.bank()
        near = bank.links(first, type="derives_from")
        assert [each.id for each in near.things] == [second]
        assert [len(way) for way in bank.path(first, second, type=["derives_from"]).ways] == [1]

    async def awaited() -> None:
        async with aio.open() as store:
            bank = await store.bank()
            assert await bank.links(first, type="derives_from") == near
            assert (await bank.path(first, second)).complete

    asyncio.run(awaited())
