"""Making the sidecar of an output: what is to be changed in what it reads back as."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, BinaryIO

import msgspec

from satchel.errors import InputError
from satchel.memory.records import Model
from satchel.ports.records import RecordSet
from satchel.seal.encoding.domain import plain
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.records import Sealed, digest
from satchel.seal.sealing import random_nonce
from satchel.transfer.receipts.pairing import Pairing, Said, said_by
from satchel.transfer.receipts.planned import lines_of
from satchel.transfer.sidecars.changes import change_of
from satchel.transfer.sidecars.lines import Line, Lines, Output, marks_of

BY = ("print", "bare", "key", "words")
"""By what a record is known, the surest first."""

_LINKS = frozenset({"parent_ids", "source_event_ids"})
_GIVEN = frozenset({"id", "nonce"})


class Unsealed:
    """Gives what a reader yields as records that say the same each time they are read.

    A draft has neither id nor nonce. What was sealed by the reader itself is named, where others
    are linked to it, by its id at its origin.

    Args:
        keeps_ids: Whether ids are those that the records had before.
    """

    def __init__(self, *, keeps_ids: bool) -> None:
        self._names: dict[str, str] | None = None if keeps_ids else {}

    def __call__(self, item: Model | Sealed) -> Sealed:
        """Return an item as a record; one that says nothing where it has no canonical form."""
        if not isinstance(item, Sealed):
            tag = str(item.__struct_config__.tag)
            try:
                return Sealed("", tag, canonical_checked(plain(item)))
            except InputError:  # which is said where it is sealed
                return Sealed("", tag, b"{}")
        if self._names is None:
            return item
        value = value_of(item.body)
        self._names[item.id] = str((value.get("origin") or {}).get("id"))
        for name in _LINKS & value.keys():
            value[name] = [self._names.get(one, one) for one in value[name]]
        return Sealed(item.id, item.type, canonical_checked(value))


class Making:
    """The lines of a sidecar, until the digest of its output is known; its holder closes it.

    Args:
        planned: What the output was to have.
        found: What it reads back as.
        keeps_ids: Whether that has the ids that it had before.
    """

    def __init__(
        self, planned: RecordSet, found: Iterator[Model | Sealed], *, keeps_ids: bool
    ) -> None:
        self._lines = Lines()
        with ExitStack() as stack:
            stack.callback(self._lines.close)
            pairing = stack.enter_context(Pairing())
            pairing.add(0, (said_by(_named(kind, line)) for kind, line in lines_of(planned)))
            pairing.add(1, map(said_of, map(Unsealed(keeps_ids=keeps_ids), found)))
            pairing.pair(BY)
            pairing.pair_by_turn(surely=True)
            self._add(pairing)
            pairing.close()
            stack.pop_all()

    def _add(self, pairing: Pairing) -> None:
        needed = False
        for pair in pairing.pairs():
            needed = pair.one != pair.other or needed
            self._lines.add(_line(_whole(value_of(pair.one)), pair.other))
        for _, kind, body in pairing.alone(1):
            said = said_by(Sealed(value_of(body).get("id", ""), kind, body), draft=True)
            self._lines.add(Line(known=marks_of(said), type=kind))
            needed = True
        for _, _, body in pairing.alone(0):
            self._lines.add(Line(record=_whole(value_of(body))))
            needed = True
        self.is_needed = needed
        """Whether the output has not all of it by itself."""

    def write(self, sink: BinaryIO, format_: str, output: Output) -> None:
        """Write the sidecar."""
        self._lines.write(sink, format_, output)

    def close(self) -> None:
        """Give the space back."""
        self._lines.close()


def said_of(record: Sealed) -> Said:
    """Return what a record that was read is known by."""
    return said_by(record, draft=True)


def _line(wanted: dict[str, Any], there: bytes) -> Line:
    before = value_of(there)
    said = said_by(Sealed(before.get("id", ""), before["type"], there), draft=True)
    one, other = (
        {name: part for name, part in value.items() if name not in _GIVEN}
        for value in (before, wanted)
    )
    return Line(
        known=marks_of(said),
        type=before["type"],
        id=wanted["id"],
        nonce=wanted["nonce"],
        change=change_of(one, other),
    )


def _whole(value: dict[str, Any]) -> dict[str, Any]:
    """Return a record; in the place of a redacted form a memory of its own that says the same.

    Under the id of the form it would need the proof of a redaction, which no sidecar has.
    """
    if "nonce" in value:
        return value
    made = {**value, "nonce": random_nonce()}
    del made["id"]
    return {**made, "id": digest(canonical_checked(made))}


def _named(kind: str, line: bytes) -> Sealed:
    return Sealed(value_of(line).get("id", ""), kind, line)


def value_of(body: bytes) -> dict[str, Any]:
    """Return what canonical bytes say."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
