"""Taking in what a place holds: drafts become sealed records, and errors say where."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from satchel.errors import InputError
from satchel.memory.records import Model
from satchel.ports.format import Format, Reading
from satchel.ports.place import Place
from satchel.seal.records import Sealed
from satchel.seal.sealing import Nonces, random_nonce
from satchel.seal.sealing_batches import seal_many

_FIRST, _MOST = 8, 256
"""Records that are sealed together: few at first, so that the first come soon."""


def taken(
    adapter: Format, place: Place, reading: Reading, *, nonces: Nonces = random_nonce
) -> Iterator[Sealed]:
    """Yield the records of a place, in its order, each sealed.

    Args:
        adapter: The format of the place.
        place: Where to read.
        reading: The bounds, and where losses and the fields around the records go.
        nonces: Where the nonces of drafts come from.

    Raises:
        InputError: If a record has no canonical form or is over a bound; names file and line, and
            the record, counted from 0.
    """
    return (record for record, _ in drawn(adapter, place, reading, nonces=nonces))


def drawn(
    adapter: Format,
    place: Place,
    reading: Reading,
    *,
    nonces: Nonces = random_nonce,
    through: Callable[[Sequence[Model]], Sequence[Model]] | None = None,
) -> Iterator[tuple[Sealed, Model]]:
    """Yield what ``taken`` does, each record with its typed value.

    The value is the draft that the record was made of, without id and nonce, or the record's own.

    Args:
        adapter: The format of the place.
        place: Where to read.
        reading: As for ``taken``.
        nonces: Where the nonces of drafts come from.
        through: What drafts go through, some hundred at a time, before they are sealed.

    Raises:
        InputError: As ``taken``.
    """
    number = 0
    for items in _together(adapter.read(place, reading)):
        drafts: Sequence[Model] = [item for item in items if not isinstance(item, Sealed)]
        if through is not None:
            drafts = through(drafts)
        made = zip(seal_many(drafts, nonces=nonces, limits=reading.limits), drafts, strict=True)
        for item in items:
            try:
                found = (item, item.model) if isinstance(item, Sealed) else next(made)
            except InputError as error:
                error.field = f"{number}/{error.field}" if error.field else str(number)
                line = _line_of(number, adapter, place, reading)
                raise error.located(file=place.name, line=line) from None
            yield found
            number += 1


def _together(items: Iterator[Model | Sealed]) -> Iterator[list[Model | Sealed]]:
    """Yield what a reader gives, some at a time; its error comes after what came before it."""
    size, problem = _FIRST, None
    while problem is None:
        some = list[Model | Sealed]()
        try:
            for item in islice(items, size):
                some.append(item)
        except InputError as error:
            problem = error
        if not some and problem is None:
            return
        yield some
        size = min(_MOST, 2 * size)
    raise problem


def _line_of(number: int, adapter: Format, place: Place, reading: Reading) -> int | None:
    """Return the line on which a record starts; the reader is further by now, so it reads again."""
    again = Reading(limits=reading.limits)
    with suppress(InputError):
        for _ in islice(adapter.read(Place(place.path), again), number + 1):
            pass
        return again.line()
    return None
