"""An audit: everything a store holds of a bank, compared with the log in one pass.

Reads verify what they return, and the columns that they ask for. An audit verifies all the rest:
each record with its columns, the tree, the indexes of ids, links and words, and the bytes of files.
``examining`` looks further for what is wrong, record by record, for a repair.
"""

from collections.abc import Callable, Iterable

from satchel.errors import SatchelError, VerificationError
from satchel.ledger.proved import ProvedRows
from satchel.ports.blobs import verified
from satchel.ports.linking.traversal import Linked
from satchel.ports.rows import Row
from satchel.ports.store import BLOCK_BITS, Reader
from satchel.ports.vectors import Generation
from satchel.seal.log import leaf_of
from satchel.seal.proved_tree import grown, leaf_position
from satchel.seal.tree import Frontier
from satchel.stores._threads import is_searched

_BLOCK = 1 << BLOCK_BITS
_HINT = "The store was changed from outside. See: satchel doctor --deep, and --repair."

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
        rows = view.verified_columns(places, kept=True)
        _require_nodes(reader, bank, frontier, rows)
        found = {row.id: row.seq for row in reader.get(bank, [row.id for row in rows])}
        _require_none((row.seq for row in rows if found.get(row.id) != row.seq), "by its id")
        _require_none(reader.misindexed(bank, rows), "by its words")
        searched.update(row.seq for row in rows if row.text and is_searched(row))
        _require_vectors(reader, bank, generations, [row.id for row in rows])
        links += {Linked(row.seq, link) for row in rows for link in row.links}
        if progress is not None:
            progress(places.stop, size)
    if sorted(reader.every_link(bank)) != sorted(links):
        raise VerificationError("the index of links is not what the records make", hint=_HINT)
    if set(reader.word_positions(bank)) != searched:
        raise VerificationError("the index of words has other records", hint=_HINT)
    if any(generations.values()):
        raise VerificationError("there are vectors of no record", hint=_HINT)
    _require_blobs(reader, bank)


def _require_nodes(reader: Reader, bank: str, frontier: Frontier, rows: list[Row]) -> None:
    first = leaf_position(rows[0].seq)
    nodes = grown(frontier, [leaf_of(bank, row.seq, row.type, row.id, row.at) for row in rows])
    stored = reader.nodes(bank, range(first, first + len(nodes)))
    if any(stored.get(place) != node for place, node in enumerate(nodes, first)):
        raise VerificationError(
            f"nodes of the tree over the records {rows[0].seq} to {rows[-1].seq} are wrong",
            hint=_HINT,
        )


def _require_none(places: Iterable[int], how: str) -> None:
    for place in places:
        raise VerificationError(f"record {place} is not found {how}", hint=_HINT)


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
            raise VerificationError("a file has another size", field=digest, hint=_HINT)
