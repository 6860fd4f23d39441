"""Taking in what a place holds: drafts become sealed records, and errors say where."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice

from satchel.errors import InputError
from satchel.memory.records import Model
from satchel.ports.format import Format, Reading
from satchel.ports.linking.placeholders import Links, names_others
from satchel.ports.place import Place
from satchel.seal.limits import Limits
from satchel.seal.records import Sealed
from satchel.seal.sealing import Nonces, random_nonce, seal
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
            the record, counted from 0. With ``reading.skip_bad`` it is counted in the report.
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
    with closing(Links()) as links:
        for items, lines in _together(adapter.read(place, reading), reading):
            drafts: Sequence[Model] = [item for item in items if not isinstance(item, Sealed)]
            if through is not None:
                drafts = through(drafts)
            made = _Made(drafts, nonces, reading.limits, links if reading.linked else None)
            for item, line in zip(items, lines, strict=True):
                try:
                    found = (item, item.model) if isinstance(item, Sealed) else made.next()
                except InputError as error:
                    error.field = f"{number}/{error.field}" if error.field else str(number)
                    error.located(file=place.name, line=line)
                    if error.line is None and not reading.skip_bad:
                        error.located(line=_line_of(number, adapter, place, reading))
                    reading.refuse(error)
                else:
                    yield found
                number += 1


class _Made:
    """Drafts that are sealed together; behind one that is refused, each by itself."""

    def __init__(
        self, drafts: Sequence[Model], nonces: Nonces, limits: Limits, links: Links | None
    ) -> None:
        self._nonces = nonces
        self._limits = limits
        self._links = links
        self._drafts: list[Model | InputError] = (
            list(drafts) if links is None else [_resolved(one, links) for one in drafts]
        )
        whole = [one for one in self._drafts if not isinstance(one, InputError)]
        self._together = seal_many(whole, nonces=nonces, limits=limits)
        self._place = 0
        self._alone = False

    def next(self) -> tuple[Sealed, Model]:
        """Return the next record and its draft, or raise; then the one behind it."""
        draft = self._drafts[self._place]
        self._place += 1
        if isinstance(draft, InputError):
            raise draft
        found = self._sealed(draft)
        if self._links is not None:
            self._links.learn(draft, found.id)
        return found, draft

    def _sealed(self, draft: Model) -> Sealed:
        if self._alone:
            return seal(draft, nonces=self._nonces, limits=self._limits)
        try:
            return next(self._together)
        except InputError:
            self._alone = True
            raise


def _resolved(draft: Model, links: Links) -> Model | InputError:
    try:
        return links.resolved(draft)
    except InputError as error:
        return error


def _together(
    items: Iterator[Model | Sealed], reading: Reading
) -> Iterator[tuple[list[Model | Sealed], list[int | None]]]:
    """Yield what a reader gives, some at a time; its error comes after what came before it.

    With it come the lines of it, where the reader knows them. Where records are linked, all in a
    batch are of one type, so what they are linked to is sealed before them; what may be linked to
    its own type begins a batch.
    """
    size, problem, ahead = _FIRST, None, list[Model | Sealed]()
    while problem is None:
        some, lines = ahead, list[int | None]([None] * len(ahead))
        ahead = []
        try:
            for item in islice(items, size):
                if some and _is_apart(item, some[0], reading):
                    ahead.append(item)
                    break
                some.append(item)
                lines.append(reading.line() if reading.by_line else None)
        except InputError as error:
            problem = error
        if not some and problem is None:
            return
        yield some, lines
        size = min(_MOST, 2 * size)
    raise problem


def _is_apart(item: Model | Sealed, first: Model | Sealed, reading: Reading) -> bool:
    """Tell whether a record may name one that would be sealed together with it."""
    if not reading.linked:
        return False
    return type(item) is not type(first) or (reading.chained and names_others(item))


def _line_of(number: int, adapter: Format, place: Place, reading: Reading) -> int | None:
    """Return the line on which a record starts; the reader is further by now, so it reads again."""
    again = Reading(limits=reading.limits)
    with suppress(InputError):
        for _ in islice(adapter.read(Place(place.path, held=place.held), again), number + 1):
            pass
        return again.line()
    return None
