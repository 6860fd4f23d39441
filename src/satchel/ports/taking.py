"""Taking in what a place holds: drafts become sealed records, and errors say where."""

from collections.abc import Iterator

from satchel.errors import InputError
from satchel.ports.format import Format, Reading
from satchel.ports.place import Place
from satchel.seal.records import Sealed
from satchel.seal.sealing import Nonces, random_nonce, seal


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
    for number, item in enumerate(adapter.read(place, reading)):
        if isinstance(item, Sealed):
            yield item
            continue
        try:
            record = seal(item, nonces=nonces, limits=reading.limits)
        except InputError as error:
            error.field = f"{number}/{error.field}" if error.field else str(number)
            raise error.located(file=place.name, line=reading.line()) from None
        yield record
