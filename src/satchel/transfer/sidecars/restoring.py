"""Reading an output with its sidecar: each record as it was, and what others changed since.

A record that reads as it did when the sidecar was made is the one that it was, under its id. One
that somebody changed keeps what the sidecar has beside what was changed, and is a new record in
the place of the old one. What is in the file no longer is not brought back; what is new in it comes
as it is.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple

from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.disk.reading import ToRead
from satchel.disk.spool import Spool
from satchel.errors import InputError, MalformedError
from satchel.memory.records import Edge, Model
from satchel.ports.format import Format, Info, Reading, Writing
from satchel.ports.linking.placeholders import placeholder_of
from satchel.ports.place import Place, Target
from satchel.ports.records import RecordSet
from satchel.ports.taking import Again
from satchel.seal.encoding.jcs import canonical_checked
from satchel.seal.limits import Limits
from satchel.seal.records import Sealed, as_model, known_members, open_record
from satchel.seal.sealing import seal
from satchel.transfer.receipts.pairing import Pairing, Said, print_of
from satchel.transfer.receipts.tally import CARRIED
from satchel.transfer.sidecars.changes import changed
from satchel.transfer.sidecars.lines import WITHOUT, Line, head_of, line_of, read_lines
from satchel.transfer.sidecars.making import BY, Unsealed, said_of, value_of

_NONCE_BYTES = 16
_CONTEXT = "satchel 2026 nonce of a changed record"


class Since(NamedTuple):
    """What became of the records of an output since its sidecar was made."""

    same: int = 0
    changed: int = 0
    new: int = 0
    gone: int = 0


class Restoring:
    """A format whose records come back as the sidecar of the file has them.

    Args:
        adapter: The format.
        name: Its name.
        sidecar: The sidecar; it has to stay readable.
        called: What to call that in messages.
        digest: Of the file that is read, in plain bytes.

    Raises:
        MalformedError: If it is none, or that of a file in another format.
    """

    info: ClassVar[Info]

    def __init__(
        self, adapter: Format, name: str, sidecar: ToRead, called: str, digest: str
    ) -> None:
        self._adapter = adapter
        self._sidecar = sidecar
        self._called = called
        head = head_of(sidecar)
        if head.format != name:
            raise MalformedError(
                f"this is the sidecar of a file in the format {head.format}, not {name}",
                file=called,
                line=1,
                field="format",
                hint=WITHOUT,
            )
        self.is_same = digest == head.output.digest
        """Whether the file is the one that was written with the sidecar."""

        self._keeps_ids = adapter.info.traits.keeps_ids
        traits = replace(adapter.info.traits, keeps_ids=True)
        self.info = replace(adapter.info, traits=traits)  # type: ignore[misc]
        self.since = Since()
        """Known once it was read."""

        self.replaces = dict[str, str]()
        """The ids of changed records, each with that of the record that it was."""

        self._pairing: Pairing | None = None
        self._beside = Spool()
        self._gone = Keyed()

    def recognises(self, place: Place) -> bool:
        """Tell what the format does."""
        return self._adapter.recognises(place)

    def write(self, records: RecordSet, target: Target, writing: Writing) -> None:
        """Write what the format writes."""
        self._adapter.write(records, target, writing)

    def read(self, place: Place, reading: Reading) -> Iterator[Model | Sealed]:
        """Yield the records as they were.

        Raises:
            MalformedError: If the sidecar is not of this file, or was changed.
            InputError: As the format.
        """
        pairing = self._paired(place, reading)
        made_up = Keyed()
        try:
            for pair in pairing.pairs():
                line = line_of(pair.one)
                if line.id is not None and not _is_as_it_was(line, pair.other):
                    yield Again(self._record(line, pair.other, reading.limits), _model(pair.other))
            unsealed = Unsealed(keeps_ids=self._keeps_ids)
            for number, item in enumerate(self._adapter.read(place, reading)):
                body, found = unsealed(item).body, pairing.first_of(number)
                if found is not None:
                    one = self._as_it_was(line_of(found), body, reading.limits)
                    if one is not None:
                        yield Again(one, item)
                    elif line_of(found).id is None:
                        made_up.add((placeholder_of(item) or "").encode())
                elif _leads_to(item, made_up):
                    reading.report.lost("edge", "its target was generated by the format")
                else:
                    yield item
            yield from self._beside_it(reading)
        finally:
            made_up.close()

    def _as_it_was(self, line: Line, body: bytes, limits: Limits) -> Sealed | None:
        """Return what one in the file stands for; None where it is none, or came before."""
        if line.id is None or not _is_as_it_was(line, body):
            return None
        return self._record(line, body, limits)

    def close(self) -> None:
        """Give the space back."""
        self._beside.close()
        self._gone.close()
        if self._pairing is not None:
            self._pairing.close()

    @property
    def told(self) -> str:
        """What became of the file, for whoever reads."""
        since = self.since
        if self.is_same:
            return f"members that its format cannot hold were restored from {self._called}"
        named = (("changed", since.changed), ("new", since.new), ("gone", since.gone))
        found = ", ".join(f"{number:,} {word}" for word, number in named if number) or "none"
        return (
            f"the file was changed since {self._called} was written; of its records: {found}. "
            "Changed records were merged with the sidecar; removed records were not restored"
        )

    def _paired(self, place: Place, asked: Reading) -> Pairing:
        """Find out which line speaks of which record; the sidecar is known to be whole then."""
        if self._pairing is not None:
            return self._pairing
        pairing = self._pairing = Pairing()
        try:
            pairing.add(0, self._lines(asked.limits))
        except InputError as error:
            error.file = self._called
            raise
        first = Reading(
            limits=asked.limits,
            skip_bad=asked.skip_bad,
            agent=asked.agent,
            only_ours=asked.only_ours,
            any_version=asked.any_version,
        )
        unsealed = Unsealed(keeps_ids=self._keeps_ids)
        pairing.add(1, map(said_of, map(unsealed, self._adapter.read(place, first))))
        pairing.pair(BY)
        self._count(pairing, asked.limits)
        return pairing

    def _lines(self, limits: Limits) -> Iterator[Said]:
        for line, body in read_lines(self._sidecar, limits):
            if line.record is not None:
                self._beside.write(body)
            else:
                print_, bare, key, words = line.said
                yield Said(line.type or "", print_ or b"", bare, key, words, body)

    def _count(self, pairing: Pairing, limits: Limits) -> None:
        same = 0
        for pair in pairing.pairs():
            line = line_of(pair.one)
            if line.id is None:
                continue
            if _is_as_it_was(line, pair.other):
                same += 1
            else:
                self.replaces[self._record(line, pair.other, limits).id] = line.id
        gone = [line.id for line in (line_of(one) for _, _, one in pairing.alone(0)) if line.id]
        for identity in gone:
            self._gone.add(identity.encode())
        new = sum(1 for _ in pairing.alone(1))
        self.since = Since(same, len(self.replaces), new, len(gone))
        if not self.is_same and same + len(self.replaces) == 0:
            raise MalformedError(
                "the sidecar belongs to another file: none of its records are here",
                file=self._called,
                line=1,
                field="output",
                hint=WITHOUT,
            )

    def _record(self, line: Line, there: bytes, limits: Limits) -> Sealed:
        """Return the record that one in the file stands for; with what was changed in it since."""
        value = changed(
            {name: part for name, part in value_of(there).items() if name not in ("id", "nonce")},
            line.change,
        )
        if _is_as_it_was(line, there):
            whole = canonical_checked({**value, "id": line.id, "nonce": line.nonce})
            return self._carried(whole, limits)
        nonce = blake3(
            f"{line.nonce}".encode() + canonical_checked(value), derive_key_context=_CONTEXT
        ).hexdigest(length=_NONCE_BYTES)
        known = known_members(str(value.get("type")))
        try:
            return seal(
                as_model({name: part for name, part in value.items() if name in known}),
                nonces=lambda: nonce,
                unknown={name: part for name, part in value.items() if name not in known},
                limits=limits,
            )
        except InputError as error:
            raise self._refused(error) from None

    def _carried(self, body: bytes, limits: Limits) -> Sealed:
        """Return a record of memory, after checking all of it."""
        try:
            record, _ = open_record(body, limits=limits)
        except InputError as error:
            raise self._refused(error) from None
        if record.type not in CARRIED:
            raise self._refused(MalformedError("not a memory record", field="type"))
        return record

    def _refused(self, error: InputError) -> InputError:
        error.file, error.hint = self._called, WITHOUT
        return error

    def _beside_it(self, reading: Reading) -> Iterator[Sealed]:
        """Yield the records that are not in the file."""
        left = 0
        for body in self._beside.lines():
            record = self._carried(canonical_checked(line_of(body).record), reading.limits)
            ends = (record.value["source"], record.value["target"]) if record.type == "edge" else ()
            if any(end.encode() in self._gone for end in ends):
                left += 1
            else:
                yield record
        if left:
            reading.report.note(f"links to records missing from the file were skipped: {left:,}")


def _is_as_it_was(line: Line, there: bytes) -> bool:
    value = value_of(there)
    return line.known is not None and line.said[0] == print_of(value.get("id", ""), there)


def _leads_to(item: Model | Sealed, made_up: Keyed) -> bool:
    ends = (item.source, item.target) if isinstance(item, Edge) else ()
    return any(end.encode() in made_up for end in ends)


def _model(body: bytes) -> Model:
    return as_model(value_of(body))
