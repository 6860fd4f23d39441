"""Making the sidecar of an output: what is to be changed in what it reads back as."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from satchel.memory.records import Model
from satchel.ports.records import RecordSet
from satchel.seal.encoding.domain import plain
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.records import Sealed
from satchel.transfer.receipts.planned import lines_of
from satchel.transfer.sidecars.changes import change_of
from satchel.transfer.sidecars.lines import Line, Lines, Output, marks_of
from satchel.transfer.sidecars.pairing import Pairing, Said, said_by

BY = ("print", "bare", "key", "words")
"""By what a record is known, the surest first."""

_GIVEN = frozenset({"id", "nonce"})


def unsealed(item: Model | Sealed) -> Sealed:
    """Return what a reader gives as a record; a draft without id and nonce.

    Raises:
        ValueRefusedError: If it has no canonical form.
    """
    if isinstance(item, Sealed):
        return item
    return Sealed("", str(item.__struct_config__.tag), canonical_checked(plain(item)))


class Making:
    """The lines of a sidecar, until the digest of its output is known; its holder closes it.

    Args:
        planned: What the output was to have.
        found: What it reads back as.
    """

    def __init__(self, planned: RecordSet, found: Iterator[Model | Sealed]) -> None:
        self._lines = Lines()
        with Pairing() as pairing:
            pairing.add(0, (said_by(_named(kind, line)) for kind, line in lines_of(planned)))
            pairing.add(1, (said_of(item) for item in found))
            pairing.pair(BY)
            pairing.pair_by_turn(surely=True)
            self._add(pairing)

    def _add(self, pairing: Pairing) -> None:
        needed = False
        for pair in pairing.pairs():
            needed = pair.one != pair.other or needed
            wanted = value_of(pair.one)
            if "nonce" in wanted:  # a redacted one is taken into no other bank
                self._lines.add(_line(wanted, pair.other))
        for _, kind, body in pairing.alone(1):
            said = said_by(Sealed(value_of(body).get("id", ""), kind, body), draft=True)
            self._lines.add(Line(known=marks_of(said), type=kind))
            needed = True
        for _, _, body in pairing.alone(0):
            wanted = value_of(body)
            if "nonce" in wanted:
                self._lines.add(Line(record=wanted))
                needed = True
        self.is_needed = needed
        """Whether the output has not all of it by itself."""

    def write(self, sink: BinaryIO, format_: str, output: Output) -> None:
        """Write the sidecar."""
        self._lines.write(sink, format_, output)

    def close(self) -> None:
        """Give the space back."""
        self._lines.close()


def said_of(item: Model | Sealed) -> Said:
    """Return what something that a reader gives is known by.

    Raises:
        ValueRefusedError: If it has no canonical form.
    """
    return said_by(unsealed(item), draft=True)


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


def _named(kind: str, line: bytes) -> Sealed:
    return Sealed(value_of(line).get("id", ""), kind, line)


def value_of(body: bytes) -> dict[str, Any]:
    """Return what canonical bytes say."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return found
