"""An audit: everything a store holds of a bank, compared with the log in one pass.

Reads verify what they return, and the columns that they ask for. An audit verifies all the rest:
each record with its columns, the tree, the indexes of ids, links and words, and the bytes of files.
``examining`` looks further for what is wrong, record by record, for a repair.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter

from satchel.errors import SatchelError, VerificationError
from satchel.ledger.proved import ProvedRows
from satchel.ports.blobs import verified
from satchel.ports.linking.traversal import Linked
from satchel.ports.rows import Row
from satchel.ports.store import BLOCK_BITS, Reader
from satchel.ports.vectors import Generation
from satchel.seal.log import leaf_of
from satchel.seal.proved_tree import grown, leaf_position
from satchel.seal.records import PREFIX
from satchel.seal.tree import Frontier
from satchel.stores._threads import is_searched

_BLOCK = 1 << BLOCK_BITS
_HINT = "The store was changed by another program. See: satchel doctor --deep, and --repair."

Progress = Callable[[int, int], None]
"""Called now and then with the records done and the records there are."""


def audit(reader: Reader, view: ProvedRows, progress: Progress | None = None) -> None:
    """Compare everything that a store holds of a bank with its log.

    Args:
        reader: A view of the store.
        view: The bank in it.
        progress: Told how far it is.

    Raises:
        VerificationError: Naming the first difference.
        StoreError: If something cannot be read.
    """
    bank, size = view.head.bank, view.head.size
    generations = reader.vectors.generations(bank)
    frontier, links, searched = Frontier(), list[Linked](), set[int]()
    for start in range(0, size, _BLOCK):
        places = range(start, min(start + _BLOCK, size))
        stored = sorted(reader.at(bank, places), key=attrgetter("seq"))
        if not _are_logged(reader, bank, frontier, stored, places):
            view.verified_columns(places)  # says which record is another one, if one is
            raise VerificationError(
                f"nodes of the tree over the records {start} to {places[-1]} are wrong", hint=_HINT
            )
        rows = view.require_rows(stored)
        for place in reader.misindexed(bank, rows):
            raise VerificationError(
                f"record {place} cannot be found by its ID or words", hint=_HINT
            )
        searched.update(row.seq for row in rows if row.text and is_searched(row))
        _require_vectors(reader, bank, generations, [row.id for row in rows])
        links += {Linked(row.seq, link) for row in rows for link in row.links}
        if progress is not None:
            progress(places.stop, size)
    if PREFIX + frontier.root.hex() != view.head.root:
        raise VerificationError("the records are not the signed ones", hint=_HINT)
    if sorted(reader.every_link(bank)) != sorted(links):
        raise VerificationError("the link index does not match the records", hint=_HINT)
    if set(reader.word_positions(bank)) != searched:
        raise VerificationError("the word index does not match the records", hint=_HINT)
    if any(generations.values()):
        raise VerificationError("there are vectors without a record", hint=_HINT)
    _require_blobs(reader, bank)


def _are_logged(
    reader: Reader, bank: str, frontier: Frontier, rows: Sequence[Row], places: range
) -> bool:
    """Tell whether rows are at all of some positions, and the stored nodes over them are right."""
    if [row.seq for row in rows] != list(places):
        return False
    first = leaf_position(places.start)
    nodes = grown(frontier, [leaf_of(bank, row.seq, row.type, row.id, row.at) for row in rows])
    stored = reader.nodes(bank, range(first, first + len(nodes)))
    return len(stored) == len(nodes) and all(
        stored.get(place) == node for place, node in enumerate(nodes, first)
    )


def _require_vectors(
    reader: Reader, bank: str, generations: dict[Generation, int], ids: list[str]
) -> None:
    """Require that vectors can be read, and count them; nothing here can tell their numbers."""
    for generation in generations:
        generations[generation] -= len(reader.vectors.get(bank, generation, ids))


def _require_blobs(reader: Reader, bank: str) -> None:
    for digest, size in reader.blobs.listed(bank):
        try:
            read = sum(map(len, verified(reader.blobs.get(bank, digest), digest)))
        except SatchelError as error:
            raise VerificationError(
                f"the bytes of a file cannot be read: {error.message}", field=digest, hint=_HINT
            ) from None
        if read != size:
            raise VerificationError("a file has a different size", field=digest, hint=_HINT)
