"""Looking whether erased texts are gone: what still says them, and what has bytes of them."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from satchel.actions.erasing.fragments import Fragments
from satchel.actions.erasing.inside import Inside
from satchel.ports.rows import Filter
from satchel.ports.store import Extent, LaidOpen, Store
from satchel.transfer.receipts.account import Scanned

_ALL = Filter(retired=True, held=True)
_MOST_SAID, _MOST_AT = 20, 5

ALWAYS_OUT_OF_REACH = (
    "backups, file system snapshots, and unused disk blocks",
    "data already sent to models and services",
)
"""What no program on this machine can look at."""

Looked = Callable[[int], None]
"""Told how many bytes more were looked at."""


class StillSaid(NamedTuple):
    """What records that stay say, too."""

    records: int
    """How many at least: one is counted for a piece that no other one before it has."""

    examples: list[str]
    """Bank and id of the first of them."""


class Found(NamedTuple):
    """What a look at everything gave."""

    scanned: list[Scanned]
    unreached: list[str]


def still_said(store: Store, fragments: Fragments, looked: Looked) -> StillSaid:
    """Return which records of a store still say a piece of what was erased.

    Such a piece is not looked for any further: that it is there is no remnant.
    """
    records, examples = 0, list[str]()
    with store.reading() as reader:
        for bank in reader.banks():
            for row in reader.scan(bank, _ALL):
                if not len(fragments):
                    break
                body = row.body or b""
                looked(len(body))
                found = fragments.in_bytes(body)
                fragments.drop(found)
                if found:
                    records += 1
                    if len(examples) < _MOST_SAID:
                        examples.append(f"{bank} {row.id}")
    return StillSaid(records, examples)


def scan(
    store: Store, extents: Iterable[Extent], fragments: Fragments, looked: Looked, inside: Inside
) -> list[Scanned]:
    """Look through the raw bytes of a store, and of others that hold something, each once.

    Args:
        store: The store.
        extents: The bytes of the others; those that are packed or encrypted are looked into.
        fragments: What to look for.
        looked: Told of bytes.
        inside: Looks into them, and notes what cannot be.
    """
    found, seen = list[Scanned](), set[str]()
    own = store.laid_open() if isinstance(store, LaidOpen) else ()
    for some in (own, extents):
        for extent in some:
            if extent.name not in seen:
                seen.add(extent.name)
                found.append(_look(extent, fragments, looked))
                if some is not own:
                    found += (_look(one, fragments, looked) for one in inside.within(extent))
    return found


def unreached(store: Store, others: Iterable[str]) -> list[str]:
    """Return in words what was not looked through."""
    own = store.out_of_reach() if isinstance(store, LaidOpen) else ["the store's own memory"]
    return list(dict.fromkeys([*own, *others, *ALWAYS_OUT_OF_REACH]))


def _look(extent: Extent, fragments: Fragments, looked: Looked) -> Scanned:
    size = 0

    def counted() -> Iterable[bytes]:
        nonlocal size
        for piece in extent.pieces():
            size += len(piece)
            looked(len(piece))
            yield piece

    count, at = 0, list[int]()
    for place in fragments.places_in(counted()):
        count += 1
        if len(at) < _MOST_AT:
            at.append(place)
    return Scanned(name=extent.name, bytes=size, found=count, at=at)
