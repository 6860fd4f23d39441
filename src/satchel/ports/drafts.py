"""Drafts: what a reader yields, checked, linked and sealed into records; errors name the row.

Vector databases and key-value stores hold rows that any program fills. Where no reader knows
which member is the text, a row must not become an empty memory: it is refused, and the error
lists the members that could be the text.

A draft has no id, so a reader that knows links (``Reading.linked``) writes a *placeholder*
instead of one: a hash of the other record's type, owner and original id. It yields link targets
before the records that link to them; sealing replaces the placeholders by ids.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from typing import Any, cast

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import Limits, encode_sorted
from satchel.crypto.sealed_records import Nonces, Sealed, random_nonce, seal, seal_many
from satchel.errors import InputError, MalformedError
from satchel.model.records import Edge, Entry, Model, SessionEvent
from satchel.model.values import Origin, Scope, is_id
from satchel.ports.format import Format, Location, ReadContext
from satchel.ports.vectors import text_mark
from satchel.runtime.scratch import ScratchMap

TEXT_MEMBER = "text member"
"""The member of ``origin.as_written`` that names the member of the row that held the text."""

OF_ROWS = frozenset({"chroma", "qdrant", "langgraph"})
"""Providers whose rows any program fills, so that their text has to be found."""

_USUAL = {"qdrant": "text"}
"""The default member for the text, by provider."""

_CONTENTS = (
    *("text", "data", "observation", "context", "subject", "predicate", "object"),
    *("name", "description", "parameters", "body", "preconditions"),
    *("goals", "subgoals", "scratch", "pending_actions"),
    *("persona", "preferences", "communication_style", "policies", "custom_instructions"),
)
_MOST_NAMED = 5


def is_empty(draft: Model) -> bool:
    """Return whether a memory is empty: no text, and no other content of its type."""
    if not isinstance(draft, Entry) or _says_something(draft.text):
        return False
    return not any(map(_says_something, (getattr(draft, name, None) for name in _CONTENTS)))


def is_unsaid(draft: Model) -> bool:
    """Return whether a memory has no content at all, not even an empty text."""
    return (
        isinstance(draft, Entry) and draft.text is None and draft.data is None and is_empty(draft)
    )


def _says_something(part: Any) -> bool:
    if isinstance(part, str):
        return not part.isspace() and part != ""
    return part is not None and part not in ((), {}, [])


def require_content(draft: Model) -> None:
    """Refuse an empty memory.

    Raises:
        MalformedError: If it is empty; names the members that could be its text.
    """
    if not isinstance(draft, Entry) or not is_unsaid(draft):
        return
    names = [
        name for name, part in draft.metadata.items() if type(part) is str and part.strip() != ""
    ]
    names.sort(key=lambda name: -len(draft.metadata[name]))
    named = ", ".join(f"`{name}`" for name in names[:_MOST_NAMED])
    skip = "--skip-bad skips and counts such records."
    hint = f"If one of {named} is the text: --text-member {names[0]}. " if names else ""
    raise MalformedError("it contains no text", hint=hint + skip)


def with_text_of(draft: Model, name: str) -> Model:
    """Return a memory with a member of its row as its text.

    The former text becomes a member of the metadata again, where it was one of the row.

    Args:
        draft: The memory.
        name: The member; a memory without it is returned unchanged.
    """
    if not isinstance(draft, Entry) or draft.origin is None:
        return draft
    from_data = draft.text is None and isinstance(draft.data, dict)
    rest = dict(draft.data if from_data and isinstance(draft.data, dict) else draft.metadata)
    text = rest.get(name)
    if type(text) is not str:
        return draft
    as_written = dict(draft.origin.as_written)
    before = as_written.get(TEXT_MEMBER, _USUAL.get(draft.origin.provider or ""))
    if draft.text is not None:
        if type(before) is not str or before in rest:
            return draft  # its text was no member of a row
        rest[before] = draft.text
    del rest[name]
    as_written[TEXT_MEMBER] = name
    old = text_mark(draft.text or "")
    for member, part in as_written.items():
        if isinstance(part, dict) and part.get("of") == old:
            as_written[member] = {**part, "of": text_mark(text)}
    values = {field: getattr(draft, field) for field in draft.__struct_fields__}
    values |= {"text": text, "metadata": rest, "origin": _with(draft.origin, as_written)}
    values |= {"data": None} if from_data else {}
    return type(draft)(**values)


def _with(origin: Origin, kept: dict[str, Any]) -> Origin:
    return msgspec.structs.replace(origin, as_written=kept)


_PREFIX = "blake3:"


def placeholder(record_type: str, scope: Scope | None, origin: Origin) -> str:
    """Return the placeholder for the ID of a record.

    Args:
        record_type: Its type.
        scope: Its owner.
        origin: Its origin, with an ID.
    """
    owner = None if scope is None else [scope.user, scope.agent, scope.run, scope.app]
    parts = ["placeholder", record_type, origin.provider, origin.source, owner, origin.id]
    return _PREFIX + blake3(encode_sorted(parts)).hexdigest()


def placeholder_of(item: Any) -> str | None:
    """Return the placeholder for a draft; None if no other record can link to it."""
    origin = getattr(item, "origin", None)
    if isinstance(item, Edge) or origin is None or origin.id is None:
        return None
    tag, scope = str(item.__struct_config__.tag), getattr(item, "scope", None)
    return placeholder(tag, scope, origin)


class PlaceholderIds:
    """The IDs that replace placeholders, for one input."""

    def __init__(self) -> None:
        self._ids = ScratchMap()

    def learn(self, draft: Model, identity: str) -> None:
        """Add the ID of a record; of two with the same original ID, the first counts."""
        name = placeholder_of(draft)
        if name is not None:
            self._ids.add(_raw(name), _raw(identity))

    def resolved(self, draft: Model) -> Model:
        """Return a draft with IDs in place of placeholders; parents without an ID are dropped.

        Raises:
            MalformedError: If an end of an edge was skipped as bad.
        """
        if isinstance(draft, Edge):
            source, target = self._id(draft.source), self._id(draft.target)
            if source is None or target is None:
                side = "source" if source is None else "target"
                raise MalformedError(f"its {side} was skipped", field=side)
            return msgspec.structs.replace(draft, source=source, target=target)
        if isinstance(draft, Entry) and draft.parent_ids:
            found = filter(None, map(self._id, draft.parent_ids))
            parents = tuple(dict.fromkeys(found))
            return cast("Model", msgspec.structs.replace(draft, parent_ids=parents))
        if isinstance(draft, SessionEvent):
            return event_with(draft, self._replacement)
        return draft

    def close(self) -> None:
        """Free the temporary space."""
        self._ids.close()

    def _replacement(self, name: str) -> str:
        return self._id(name) or name

    def _id(self, name: str) -> str | None:
        found = self._ids.get(_raw(name))
        return None if found is None else _PREFIX + found.hex()


def names_others(item: Any) -> bool:
    """Return whether a draft may link to records of its own type."""
    if isinstance(item, SessionEvent):
        return item.parent is not None or item.session is not None
    return isinstance(item, Entry) and bool(item.parent_ids)


def event_with(event: SessionEvent, replacement: Callable[[str], str]) -> SessionEvent:
    """Return an event of a conversation with the IDs of other events replaced.

    Args:
        event: The event.
        replacement: Maps an ID to its replacement, or to itself.
    """
    changed: dict[str, Any] = {
        name: replacement(identity)
        for name in ("session", "parent")
        if (identity := getattr(event, name)) is not None and is_id(identity)
    }
    if isinstance(event.state, dict):
        changed["state"] = _pointers_with(event.state, replacement)
    return msgspec.structs.replace(event, **changed)


def _pointers_with(state: dict[str, Any], replacement: Callable[[str], str]) -> dict[str, Any]:
    """Return the state of an event with its IDs replaced."""
    for name in ("state", "source", "checkpoint"):
        identity = state.get(name)
        if isinstance(identity, str) and is_id(identity):
            state = {**state, name: replacement(identity)}
    latest = state.get("latest")
    if isinstance(latest, dict):
        ids = {
            kind: replacement(target) if isinstance(target, str) and is_id(target) else target
            for kind, target in latest.items()
        }
        state = {**state, "latest": ids}
    return state


def _raw(name: str) -> bytes:
    return bytes.fromhex(name.removeprefix(_PREFIX))


class RestoredRecord(Sealed):
    """A record that keeps its identity, in place of the draft that it was read as.

    Args:
        record: The record.
        draft: The draft that other records of the input link to.
    """

    def __init__(self, record: Sealed, draft: Model | Sealed) -> None:
        super().__init__(record.id, record.type, record.body)
        self.draft = draft


_FIRST, _MOST, _MOST_EVENTS = 8, 256, 64
"""Batch sizes for sealing: small at first, so that the first records arrive early."""


def read_records(
    adapter: Format, location: Location, reading: ReadContext, *, nonces: Nonces = random_nonce
) -> Iterator[Sealed]:
    """Yield the records of a location, in order, sealed.

    Args:
        adapter: The format of the location.
        location: Where to read.
        reading: The limits; receives losses and the fields outside the records.
        nonces: Source of the nonces of drafts.

    Raises:
        InputError: If a record has no canonical form or exceeds a limit; names file, line and
            record (counted from 0). With ``reading.skip_bad``, the record is counted in the report
            instead.
    """
    return (record for record, _ in read_with_drafts(adapter, location, reading, nonces=nonces))


def read_with_drafts(
    adapter: Format,
    location: Location,
    reading: ReadContext,
    *,
    nonces: Nonces = random_nonce,
    through: Callable[[Sequence[Model]], Sequence[Model]] | None = None,
) -> Iterator[tuple[Sealed, Model]]:
    """Yield the records of a location, in order, sealed, each with its typed value.

    The value is the draft of the record, without ID and nonce, or the record's own value.

    Args:
        adapter: The format of the location.
        location: Where to read.
        reading: As for ``read_records``.
        nonces: Source of the nonces of drafts.
        through: Transforms drafts before they are sealed, some hundred at a time.

    Raises:
        InputError: As ``read_records``.
    """
    number = 0
    with closing(PlaceholderIds()) as links:
        for items, lines in _together(adapter.read(location, reading), reading):
            drafts: Sequence[Model] = [item for item in items if not isinstance(item, Sealed)]
            if reading.text_member is not None:
                drafts = [with_text_of(draft, reading.text_member) for draft in drafts]
            if through is not None:
                drafts = through(drafts)
            batch = _SealedBatch(drafts, nonces, reading.limits, links if reading.linked else None)
            for item, line in zip(items, lines, strict=True):
                try:
                    pair = (item, item.model) if isinstance(item, Sealed) else batch.next()
                    if _requires_content(reading) and not isinstance(item, Sealed):
                        require_content(pair[1])
                except InputError as error:
                    error.field = f"{number}/{error.field}" if error.field else str(number)
                    error.located(file=location.name, line=line)
                    if error.line is None and not reading.skip_bad:
                        error.located(line=_line_of(number, adapter, location, reading))
                    reading.refuse(error)
                else:
                    if isinstance(item, RestoredRecord) and not isinstance(item.draft, Sealed):
                        links.learn(item.draft, item.id)
                    yield pair
                number += 1


def _requires_content(reading: ReadContext) -> bool:
    return reading.requires_content and not reading.has_text_member


class _SealedBatch:
    """Drafts that are sealed in one batch; after a refused one, one by one."""

    def __init__(
        self, drafts: Sequence[Model], nonces: Nonces, limits: Limits, links: PlaceholderIds | None
    ) -> None:
        self._nonces = nonces
        self._limits = limits
        self._links = links
        # An event may link to the one before it, which has its ID only after sealing.
        self._alone = self._is_chain = links is not None and _are_events(drafts)
        self._drafts: list[Model | InputError] = (
            list(drafts)
            if links is None or self._is_chain
            else [_resolved(one, links) for one in drafts]
        )
        whole = [one for one in self._drafts if not isinstance(one, InputError)]
        self._together = seal_many(whole, nonces=nonces, limits=limits)
        self._next = 0

    def next(self) -> tuple[Sealed, Model]:
        """Return the next record and its draft, or raise its error; then the one after it."""
        draft = self._drafts[self._next]
        self._next += 1
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
    """Yield batches of a reader's records; an error comes after the records before it.

    Each batch has the line numbers, where the reader knows them. Linked records of a batch are all
    of one type, so link targets are sealed before them; a memory that may link to its own type
    begins a batch, and events are sealed one by one.
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
    """Return whether a record may link to one of the same batch."""
    if not reading.linked:
        return False
    if type(item) is not type(first):
        return True
    return reading.chained and not isinstance(item, SessionEvent) and names_others(item)


def _line_of(number: int, adapter: Format, location: Location, reading: ReadContext) -> int | None:
    """Return the line where a record starts, by reading the input again."""
    again = ReadContext(limits=reading.limits)
    with suppress(InputError):
        for _ in islice(
            adapter.read(Location(location.path, held=location.held), again), number + 1
        ):
            pass
        return again.line()
    return None
