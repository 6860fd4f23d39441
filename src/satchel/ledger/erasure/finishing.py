"""Finishing an erasure: the blobs that nobody names any more, and what the store still keeps.

An erasure empties its rows in its own commit. What is left to do is noted beside the log in that
same commit, so a program that is killed in between is finished by the next one.
"""

from satchel.ledger.erasure.targets import BLOB, UNFINISHED, blobs_named
from satchel.ports.rows import Filter
from satchel.ports.store import Store, Writer

_ALL = Filter(retired=True, held=True)


def is_unfinished(store: Store, bank: str) -> bool:
    """Tell whether the store may still keep bytes of what was erased from a bank."""
    with store.reading() as reader:
        return UNFINISHED in reader.side(bank, UNFINISHED)


def finish(store: Store, bank: str) -> int:
    """Drop blobs that only erased records named, and rid the store's files of what was erased.

    May be repeated at will; nothing happens where nothing is left to do.

    Returns:
        How many blobs were dropped.

    Raises:
        StoreError: If the store cannot be scrubbed now; what was erased is gone from the bank.
    """
    if not is_unfinished(store, bank):
        return 0
    with store.writing() as writing:
        dropped = _drop_blobs(writing, bank)
    store.scrub()
    with store.writing() as writing:
        writing.put_side(bank, {UNFINISHED: None})
    return dropped


def _drop_blobs(writing: Writer, bank: str) -> int:
    """Drop what no record names any more, of the blobs that erased records named."""
    asked = {name.removeprefix(BLOB) for name in writing.side(bank, BLOB)}
    unnamed = set(asked)
    for row in writing.scan(bank, _ALL) if asked else ():
        unnamed -= blobs_named(row.body or b"")
        if not unnamed:
            break
    for digest in sorted(unnamed):
        writing.blobs.drop(bank, digest)
    writing.put_side(bank, dict.fromkeys((BLOB + digest for digest in asked), None))
    return len(unnamed)
