"""Taking in what a place holds: drafts become sealed records, and errors say where."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Any

from satchel.crypto.canonical import Limits
from satchel.crypto.sealed_records import Nonces, Sealed, random_nonce, seal, seal_many
from satchel.errors import InputError
from satchel.model.records import Model, SessionEvent
from satchel.ports.content import require_content, with_text_of
from satchel.ports.format import Format, ReadContext
from satchel.ports.place import Place
from satchel.ports.placeholders import PlaceholderIds, names_others


class RestoredRecord(Sealed):
    """A record that was elsewhere before, in the place of the draft that it is read from.

    Args:
        record: The record.
        draft: By which the others of the input name it.
    """

    def __init__(self, record: Sealed, draft: Model | Sealed) -> None:
        super().__init__(record.id, record.type, record.body)
        self.draft = draft


_FIRST, _MOST, _MOST_EVENTS = 8, 256, 64
"""Records that are sealed together: few at first, so that the first come soon."""


def read_records(
    adapter: Format, place: Place, reading: ReadContext, *, nonces: Nonces = random_nonce
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
    return (record for record, _ in read_with_drafts(adapter, place, reading, nonces=nonces))


def read_with_drafts(
    adapter: Format,
    place: Place,
    reading: ReadContext,
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
    with closing(PlaceholderIds()) as links:
        for items, lines in _together(adapter.read(place, reading), reading):
            drafts: Sequence[Model] = [item for item in items if not isinstance(item, Sealed)]
            if reading.text_member is not None:
                drafts = [with_text_of(one, reading.text_member) for one in drafts]
            if through is not None:
                drafts = through(drafts)
            made = _SealedBatch(drafts, nonces, reading.limits, links if reading.linked else None)
            for item, line in zip(items, lines, strict=True):
                try:
                    found = (item, item.model) if isinstance(item, Sealed) else made.next()
                    if _requires_content(reading) and not isinstance(item, Sealed):
                        require_content(found[1])
                except InputError as error:
                    error.field = f"{number}/{error.field}" if error.field else str(number)
                    error.located(file=place.name, line=line)
                    if error.line is None and not reading.skip_bad:
                        error.located(line=_line_of(number, adapter, place, reading))
                    reading.refuse(error)
                else:
                    if isinstance(item, RestoredRecord) and not isinstance(item.draft, Sealed):
                        links.learn(item.draft, item.id)
                    yield found
                number += 1


def _requires_content(reading: ReadContext) -> bool:
    return reading.requires_content and not reading.has_text_member


class _SealedBatch:
    """Drafts that are sealed together; behind one that is refused, each by itself."""

    def __init__(
        self, drafts: Sequence[Model], nonces: Nonces, limits: Limits, links: PlaceholderIds | None
    ) -> None:
        self._nonces = nonces
        self._limits = limits
        self._links = links
        # An event may name the one before it, which has its id only once that is sealed.
        self._alone = self._is_chain = links is not None and _are_events(drafts)
        self._drafts: list[Model | InputError] = (
            list(drafts)
            if links is None or self._is_chain
            else [_resolved(one, links) for one in drafts]
        )
        whole = [one for one in self._drafts if not isinstance(one, InputError)]
        self._together = seal_many(whole, nonces=nonces, limits=limits)
        self._place = 0

    def next(self) -> tuple[Sealed, Model]:
        """Return the next record and its draft, or raise; then the one behind it."""
        draft = self._drafts[self._place]
        self._place += 1
        if self._is_chain and self._links is not None and not isinstance(draft, InputError):
            draft = _resolved(draft, self._links)
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


def _are_events(drafts: Sequence[Any]) -> bool:
    return bool(drafts) and isinstance(drafts[0], SessionEvent)


def _resolved(draft: Model, links: PlaceholderIds) -> Model | InputError:
    try:
        return links.resolved(draft)
    except InputError as error:
        return error


def _together(
    items: Iterator[Model | Sealed], reading: ReadContext
) -> Iterator[tuple[list[Model | Sealed], list[int | None]]]:
    """Yield what a reader gives, some at a time; its error comes after what came before it.

    With it come the lines of it, where the reader knows them. Where records are linked, all in a
    batch are of one type, so what they are linked to is sealed before them; a memory that may be
    linked to others of its type begins a batch, events are sealed one by one.
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
        size = min(_MOST_EVENTS if _are_events(some) else _MOST, 2 * size)
    raise problem


def _is_apart(item: Model | Sealed, first: Model | Sealed, reading: ReadContext) -> bool:
    """Tell whether a record may name one that would be sealed together with it."""
    if not reading.linked:
        return False
    if type(item) is not type(first):
        return True
    return reading.chained and not isinstance(item, SessionEvent) and names_others(item)


def _line_of(number: int, adapter: Format, place: Place, reading: ReadContext) -> int | None:
    """Return the line on which a record starts; the reader is further by now, so it reads again."""
    again = ReadContext(limits=reading.limits)
    with suppress(InputError):
        for _ in islice(adapter.read(Place(place.path, held=place.held), again), number + 1):
            pass
        return again.line()
    return None
