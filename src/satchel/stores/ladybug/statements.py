"""Running statements on a connection, and looking at what comes back before it is believed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from satchel.errors import StoreError, UnknownBankError
from satchel.stores.ladybug.errors import damaged, translated
from satchel.stores.ladybug.schema import NODE_BITS, Values

AT_ONCE = 1000
"""Rows in one statement."""

_KEY_BITS = 63


class Block:
    """A transaction on a connection of a database.

    The engine has no savepoints, and a statement that fails takes back the whole transaction; so
    what can be refused is looked at before anything is written, and a block in which the engine
    itself failed is over.
    """

    def __init__(self, connection: Any, name: str) -> None:
        self.connection = connection
        self.name = name
        self.over: str | None = None
        """Why nothing more can be done in it."""

    def run(self, cypher: str, values: Values | None = None) -> Any:
        """Run a statement and return its result.

        Raises:
            StoreError: If it fails; then the block is over.
        """
        if self.over is not None:
            raise StoreError(f"the transaction was taken back already: {self.over}", file=self.name)
        try:
            with translated(self.name):
                return self.connection.execute(cypher, values or {})
        except StoreError as error:
            self.over = error.message
            raise


class Statements:
    """What everything that reads or writes the tables does."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self._name = block.name

    def _number(self, bank: str) -> int:
        found = self._all("MATCH (b:Bank {id: $bank}) RETURN b.number", bank=bank)
        if not found:
            raise UnknownBankError(f"there is no bank {bank} here", file=self._name)
        self._start(found[0][0], NODE_BITS)
        return int(found[0][0])

    def _start(self, number: Any, bits: int) -> int:
        """Return the first place of the stretch of a table that belongs to a number."""
        if not isinstance(number, int) or not 0 < number < 1 << (_KEY_BITS - bits):
            raise damaged(self._name, "a number is none that we give")
        return number << bits

    def _each(self, cypher: str, **values: Any) -> Iterator[list[Any]]:
        result = self._block.run(cypher, values)
        with translated(self._name):
            try:
                while result.has_next():
                    yield result.get_next()
            finally:
                result.close()

    def _all(self, cypher: str, **values: Any) -> list[list[Any]]:
        return list(self._each(cypher, **values))

    def _in(self, cypher: str, wanted: Iterable[Any], **values: Any) -> Iterator[list[Any]]:
        """Ask once for some at a time of those that are wanted, which the statement calls ``x``."""
        for part in parts(wanted):
            yield from self._each(f"UNWIND $part AS x {cypher}", part=part, **values)

    def _run(self, cypher: str, **values: Any) -> None:
        self._block.run(cypher, values).close()

    def _many(self, cypher: str, rows: Iterable[Any], **values: Any) -> None:
        """Run once for some at a time of the rows, each of which the statement calls ``x``."""
        for part in parts(rows):
            self._run(f"UNWIND $part AS x {cypher}", part=part, **values)

    def _next(self, table: str) -> int:
        """Return a number for a new row of a table: one that none there has."""
        ((highest,),) = self._all(f"MATCH (n:{table}) RETURN max(n.number)")
        return 1 if highest is None else int(highest) + 1


def parts(values: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield values some at a time."""
    rest = iter(values)
    while part := list(islice(rest, AT_ONCE)):
        yield part


def writable(text: str) -> bool:
    """Tell whether a text can be a value: the engine takes no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def seqs(places: Sequence[int], most: int) -> list[int]:
    """Return those places that a log can have, each once."""
    return [place for place in dict.fromkeys(places) if 0 <= place <= most]
