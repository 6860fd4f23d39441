"""Examination of all that a store has of a bank: each record, column, index and node.

A read verifies what it returns. Records that no read requests, and records missing from an index,
are found only here. Nothing is changed; ``ledger.repair`` repairs what can be repaired.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from operator import attrgetter
from typing import NamedTuple

from msgspec.structs import replace

from satchel.crypto.log import (
    Frontier,
    Head,
    VerifiedTree,
    append_leaves,
    leaf_position,
    record_leaf,
)
from satchel.crypto.redaction import open_redacted_form
from satchel.crypto.sealed_records import Sealed, digest, open_record
from satchel.errors import InputError, SatchelError, StoreError, UnknownBankError, VerificationError
from satchel.ledger.heads import node_fetcher, verified_head
from satchel.ledger.projection import FOLDED, Fold, LogFact
from satchel.ledger.proofs import VerifiedRows
from satchel.model.records import Model
from satchel.model.values import ID_PREFIX
from satchel.ports.links import LoggedLink
from satchel.ports.rows import Row, derive_row
from satchel.ports.store import BLOCK_BITS, Reader, Store, verified_pieces
from satchel.ports.vectors import Generation
from satchel.stores.text_search import is_searched

TOGETHER = 256
_MOST_SHOWN = 100

Progress = Callable[[int, int], None]
"""Called regularly with the number of records done and their total."""


class Flaw(StrEnum):
    """A kind of damage."""

    STRUCTURE = "structure"
    """The database file itself is damaged."""

    HEAD = "head"
    """The signed head is invalid; nothing else can be verified."""

    MISSING = "missing"
    """A logged record is missing."""

    LEAF = "leaf"
    """ID, type or time of arrival differ from the logged ones."""

    BODY = "body"
    """The bytes are not those of the record."""

    NODE = "node"
    """A stored node of the tree is wrong; it can be recomputed."""

    COLUMN = "column"
    """A column differs from the log; it can be derived again."""

    RETURNED = "returned"
    """An erased record has its bytes again; they can be removed again."""

    INDEX = "index"
    """A record is not found by its ID, links or words; it can be indexed again."""


class LogFinding(NamedTuple):
    """One problem."""

    flaw: Flaw
    seq: int | None
    """Log position."""

    message: str


@dataclass(slots=True)
class Examination:
    """The result of an examination."""

    bank: str
    size: int = 0
    """Records in the log, according to the head."""

    counts: Counter[Flaw] = field(default_factory=Counter)
    """Number of problems of each kind."""

    shown: list[LogFinding] = field(default_factory=list)
    """The first hundred problems."""

    places: dict[Flaw, list[int]] = field(default_factory=dict)
    """All log positions with a problem, for a repair."""

    @property
    def is_sound(self) -> bool:
        """Whether there is no problem."""
        return not self.counts

    def add_finding(self, flaw: Flaw, message: str, seq: int | None = None) -> None:
        """Add a problem."""
        self.counts[flaw] += 1
        if seq is not None:
            self.places.setdefault(flaw, []).append(seq)
        if len(self.shown) < _MOST_SHOWN:
            self.shown.append(LogFinding(flaw, seq, message))

    def remove_findings(self, flaw: Flaw) -> None:
        """Remove all problems of one kind."""
        self.counts.pop(flaw, None)
        self.places.pop(flaw, None)
        self.shown = [one for one in self.shown if one.flaw is not flaw]


def examine(store: Store, bank: str, *, progress: Progress | None = None) -> Examination:
    """Examine all of a bank: first the log, then what is derived from it.

    Raises:
        UnknownBankError: If the store does not have the bank.
        StoreBusyError: If it cannot be read now.
    """
    examination = Examination(bank)
    for message in store.check():
        examination.add_finding(Flaw.STRUCTURE, message)
    with store.reading() as reader:
        stored = reader.head(bank)
        if stored is None:
            raise UnknownBankError(f"there is no bank {bank} here", file=store.name)
        try:
            head, frontier = verified_head(bank, stored)
        except VerificationError as error:
            examination.add_finding(Flaw.HEAD, error.message)
            return examination
        examination.size = head.size
        tell = progress or (lambda _done, _all: None)
        try:
            log = _Log(reader, head, frontier, examination)
            for places, rows in row_blocks(reader, bank, range(head.size)):
                log.examine_rows(places, rows)
                tell(places.stop, 2 * head.size)
            fold = log.finish()
            if fold is not None:
                derived_links = Counter[LoggedLink]()
                for pairs in derived_blocks(reader, head, fold, range(head.size)):
                    _examine_derived(reader, pairs, examination)
                    derived_links.update(
                        {LoggedLink(own.seq, link) for _, own in pairs for link in own.links}
                    )
                    tell(head.size + pairs[-1][0].seq + 1, 2 * head.size)
                there = Counter(reader.every_link(bank))
                for seq in sorted(
                    {one.place for one in (there - derived_links) + (derived_links - there)}
                ):
                    examination.add_finding(
                        Flaw.INDEX, "the index has other links than the record", seq
                    )
        except StoreError as error:
            examination.add_finding(Flaw.STRUCTURE, error.message)
    return examination


def row_blocks(reader: Reader, bank: str, places: range) -> Iterator[tuple[range, dict[int, Row]]]:
    """Yield the rows of a range of the log by position, some hundred at a time."""
    for start in range(places.start, places.stop, TOGETHER):
        some = range(start, min(start + TOGETHER, places.stop))
        yield some, {row.seq: row for row in reader.at(bank, some)}


def open_body(row: Row, result: str | None = None) -> tuple[Sealed, Model] | None:
    """Return the record in a row if its bytes are intact and have its ID.

    Args:
        row: The row.
        result: The hash of the redacted form, if it was redacted.
    """
    if row.body is None:
        return None
    try:
        record, model = (
            open_record(row.body) if result is None else open_redacted_form(row.body, result)
        )
    except InputError:
        return None
    return (record, model) if record.id == row.id else None


class _Log:
    """The first pass: positions, leaves, bytes and nodes.

    Args:
        reader: A view of the store.
        head: The verified head.
        frontier: Its peaks.
        found: Receives the problems.
    """

    def __init__(
        self, reader: Reader, head: Head, frontier: Frontier, examination: Examination
    ) -> None:
        self._reader = reader
        self._head = head
        self._found = examination
        self._tree = VerifiedTree(frontier, node_fetcher(reader, head.bank))
        self._again = Frontier()
        self._whole = True
        self._wrong_nodes = 0
        self._empty = list[tuple[int, str]]()
        self._damaged = list[tuple[int, str, str]]()
        self._facts = list[LogFact]()

    def examine_rows(self, places: range, rows: dict[int, Row]) -> None:
        """Examine a range; ranges come in order."""
        bank = self._head.bank
        for seq in places:
            if seq not in rows:
                self._found.add_finding(Flaw.MISSING, "a record is missing", seq)
                self._whole = False
        some = [rows[seq] for seq in places if seq in rows]
        leaves = [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in some]
        if self._whole:
            nodes = append_leaves(self._again, leaves)
            self._wrong_nodes += _wrong_nodes(self._reader, bank, places.start, nodes)
        for row, leaf in zip(some, leaves, strict=True):
            if not has_leaf(self._tree, row.seq, leaf):
                self._found.add_finding(
                    Flaw.LEAF, "not the record logged at this position", row.seq
                )
            self._look_at_body(row)

    def finish(self) -> Fold | None:
        """Return the state of the log, if all records that define it are intact."""
        examination, head = self._found, self._head
        if self._whole and ID_PREFIX + self._again.root.hex() == head.root:
            # All leaves are right, so a node that fails to prove one is wrong.
            examination.remove_findings(Flaw.LEAF)
            if self._wrong_nodes:
                examination.add_finding(
                    Flaw.NODE, f"{self._wrong_nodes} stored nodes of the tree are wrong"
                )
        fold = Fold()
        fold.take(self._facts, head.size)
        for seq, identity in self._empty:
            if not fold.is_erased(identity, head.size):
                examination.add_finding(Flaw.BODY, "it is empty, but no erasure is logged", seq)
        for seq, identity, found_there in self._damaged:
            form = fold.redacted(identity, head.size)
            if not fold.is_erased(identity, head.size) and form != found_there:
                examination.add_finding(Flaw.BODY, "the bytes were changed", seq)
        said = sum(head.counts.get(name, 0) for name in FOLDED)
        return fold if len(self._facts) == said else None

    def _look_at_body(self, row: Row) -> None:
        logged = open_body(row)
        if row.body is None:
            self._empty.append((row.seq, row.id))
        elif logged is None:
            self._damaged.append((row.seq, row.id, digest(row.body)))
        elif row.type in FOLDED:
            self._facts.append(LogFact(row.seq, row.id, logged[1]))


def _wrong_nodes(reader: Reader, bank: str, start: int, nodes: list[bytes]) -> int:
    first = leaf_position(start)
    stored = reader.nodes(bank, range(first, first + len(nodes)))
    return sum(stored.get(place) != node for place, node in enumerate(nodes, first))


def has_leaf(tree: VerifiedTree, seq: int, leaf: bytes) -> bool:
    """Return whether a leaf is in the tree at a position."""
    try:
        tree.require({seq: leaf})
    except VerificationError:
        return False
    return True


def derived_blocks(
    reader: Reader, head: Head, fold: Fold, places: range
) -> Iterator[list[tuple[Row, Row]]]:
    """Yield rows as stored and as derived, where bytes are intact or were erased."""
    for _, rows in row_blocks(reader, head.bank, places):
        pairs = []
        for row in sorted(rows.values(), key=attrgetter("seq")):
            result = fold.redacted(row.id, head.size)
            own, logged = row.erased(), open_body(row, result)
            batch, erased = fold.batch_number(row.seq), fold.is_erased(row.id, head.size)
            if result is not None and logged is None and open_body(row) is not None:
                erased = True  # it is whole again, and its form cannot be made from that
            if erased:
                own = replace(own, batch=batch)
            elif logged is not None:
                body = logged[0].body
                own = derive_row(logged[1], seq=row.seq, at=row.at, body=body, batch=batch)
            if erased or logged is not None:
                pairs.append((row, own.changed(fold.standing(row.id, row.seq, head.size))))
        if pairs:
            yield pairs


def _examine_derived(
    reader: Reader, pairs: list[tuple[Row, Row]], examination: Examination
) -> None:
    misindexed = set(reader.misindexed(examination.bank, [own for _, own in pairs]))
    by_id = {row.id: row.seq for row in reader.get(examination.bank, [own.id for _, own in pairs])}
    for stored, own in pairs:
        if own.body is None and stored.body is not None:
            examination.add_finding(
                Flaw.RETURNED, "it was erased or redacted, but has its bytes again", own.seq
            )
        elif stored.columns() != own.columns():
            examination.add_finding(Flaw.COLUMN, "a column differs from the log", own.seq)
        if by_id.get(own.id) != own.seq:
            examination.add_finding(Flaw.INDEX, "it cannot be found by its ID", own.seq)
        elif own.seq in misindexed or not reader.is_indexed(examination.bank, own):
            examination.add_finding(Flaw.INDEX, "it cannot be found by its links or words", own.seq)


_BLOCK = 1 << BLOCK_BITS
_HINT = "The store was changed by another program. See: satchel doctor --deep, and --repair."


def audit(reader: Reader, view: VerifiedRows, progress: Progress | None = None) -> None:
    """Compare all that a store contains of a bank with its log.

    Args:
        reader: A view of the store.
        view: The bank in it.
        progress: Called with the progress.

    Raises:
        VerificationError: Naming the first difference.
        StoreError: If the store cannot be read.
    """
    bank, size = view.head.bank, view.head.size
    generations = reader.vectors.generations(bank)
    frontier, links, searched = Frontier(), list[LoggedLink](), set[int]()
    for start in range(0, size, _BLOCK):
        places = range(start, min(start + _BLOCK, size))
        stored = sorted(reader.at(bank, places), key=attrgetter("seq"))
        if not _are_logged(reader, bank, frontier, stored, places):
            view.verified_columns(places)  # names the record that differs, if one does
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
        links += {LoggedLink(row.seq, link) for row in rows for link in row.links}
        if progress is not None:
            progress(places.stop, size)
    if ID_PREFIX + frontier.root.hex() != view.head.root:
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
    """Return whether rows are at all of these positions, with correct stored nodes."""
    if [row.seq for row in rows] != list(places):
        return False
    first = leaf_position(places.start)
    nodes = append_leaves(
        frontier, [record_leaf(bank, row.seq, row.type, row.id, row.at) for row in rows]
    )
    stored = reader.nodes(bank, range(first, first + len(nodes)))
    return len(stored) == len(nodes) and all(
        stored.get(place) == node for place, node in enumerate(nodes, first)
    )


def _require_vectors(
    reader: Reader, bank: str, generations: dict[Generation, int], ids: list[str]
) -> None:
    """Require that vectors can be read, and count them; their values cannot be verified."""
    for generation in generations:
        generations[generation] -= len(reader.vectors.get(bank, generation, ids))


def _require_blobs(reader: Reader, bank: str) -> None:
    for blob, size in reader.blobs.listed(bank):
        try:
            read = sum(map(len, verified_pieces(reader.blobs.get(bank, blob), blob)))
        except SatchelError as error:
            raise VerificationError(
                f"the bytes of a file cannot be read: {error.message}", field=blob, hint=_HINT
            ) from None
        if read != size:
            raise VerificationError("a file has a different size", field=blob, hint=_HINT)
