"""Sidecars: what the format of an output cannot hold, in a file next to it.

A sidecar has a head that names the output, and a line for each record. The head contains the digest
of the output and of the lines, so that a changed sidecar, or one of another output, is detected. A
line has the fingerprints of its record in the output and the changes that restore it, or a record
that is not in the output, or the mark of a record that the format added, which is removed.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, BinaryIO, ClassVar, Literal, NamedTuple

import msgspec
from blake3 import blake3

from satchel.crypto.canonical import Limits, canonical_checked, plain
from satchel.crypto.sealed_records import (
    Sealed,
    as_model,
    digest,
    known_members,
    open_record,
    random_nonce,
    seal,
)
from satchel.errors import InputError, LimitError, MalformedError
from satchel.model.records import Count, Edge, Model
from satchel.model.values import resolved
from satchel.ports.drafts import RestoredRecord, placeholder_of
from satchel.ports.format import Format, Info, Location, ReadContext, Target, WriteContext
from satchel.ports.record_set import RecordSet
from satchel.receipts.comparison import (
    MARK_BYTES,
    Pairing,
    RecordIdentity,
    identify_record,
    print_of,
)
from satchel.receipts.receipt import CARRIED, lines_of
from satchel.runtime.files import InputPath, open_input
from satchel.runtime.scratch import ScratchMap, Spool

_MARK_BYTES = 8


class ObjectChange(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Changes from one object to another."""

    to: dict[str, Any] = {}
    """Members to set."""

    was: dict[str, str] = {}
    """Marks of members before; one that is not in ``to`` is removed."""

    within: dict[str, "ObjectChange"] = {}
    """Changes of members that are objects on both sides."""

    def __bool__(self) -> bool:
        return bool(self.to or self.was or self.within)


def change_of(before: dict[str, Any], after: dict[str, Any]) -> ObjectChange:
    """Return the changes from ``before`` to ``after``, both of canonical values."""
    change = ObjectChange({}, {}, {})
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if name in before and name in after:
            if canonical_checked(old) == canonical_checked(new):
                continue
            if isinstance(old, dict) and isinstance(new, dict):
                change.within[name] = change_of(old, new)
                continue
        if name in before:
            change.was[name] = _mark(old)
        if name in after:
            change.to[name] = new
    return change


def apply_change(now: dict[str, Any], change: ObjectChange) -> dict[str, Any]:
    """Return an object with changes applied, except to members that differ from before."""
    changed = dict(now)
    for name in change.to.keys() | change.was.keys():
        mark = _mark(now[name]) if name in now else None
        if mark != change.was.get(name):
            continue
        if name in change.to:
            changed[name] = change.to[name]
        else:
            del changed[name]
    for name, inner in change.within.items():
        part = now.get(name)
        if isinstance(part, dict):
            changed[name] = apply_change(part, inner)
    return changed


def _mark(value: Any) -> str:
    return blake3(canonical_checked(value)).hexdigest(length=_MARK_BYTES)


VERSION: Literal[1] = 1
"""Version of sidecars."""

SUFFIX = ".satchel.jsonl"
"""Suffix that is appended to the name of an output."""

WITHOUT = "Put the right sidecar next to the file, or continue without it: --ignore-sidecar."

_HEAD_BYTES = 4096
_ROOM = 4
"""How much longer a line may be than a record: it also has fingerprints and marks."""


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The file of the sidecar."""

    digest: str
    """``blake3:`` and 64 hex digits of its decrypted bytes; of a folder, of its packed files."""

    bytes: Count


class SidecarHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a sidecar."""

    satchel_sidecar: int
    """Version of the sidecar."""

    format: str
    """Format of the output."""

    output: Output
    lines: Count
    digest: str
    """``blake3:`` and 64 hex digits of all following lines."""


class SidecarLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line after the head."""

    known: tuple[str, str | None, str | None, str | None] | None = None
    """Fingerprints of a record of the output in hex: of everything, without its origin, of its ID
    there, of its words."""

    type: str | None = None
    """Type of the record in the output."""

    id: str | None = None
    """ID of the original record; none for one that the format added."""

    nonce: str | None = None
    change: ObjectChange = ObjectChange()
    record: dict[str, Any] | None = None
    """A whole record that is not in the output."""

    @property
    def fingerprints(self) -> tuple[bytes | None, ...]:
        """The fingerprints as bytes."""
        return tuple(None if one is None else bytes.fromhex(one) for one in self.known or ())


_decode_head = msgspec.json.Decoder(resolved(SidecarHead)).decode
_decode_line = msgspec.json.Decoder(resolved(SidecarLine)).decode
_encode = msgspec.json.Encoder(order="sorted").encode


def marks_of(identity: RecordIdentity) -> tuple[str, str | None, str | None, str | None]:
    """Return the fingerprints of a record for a line."""
    return identity.print.hex(), _hex(identity.bare), _hex(identity.key), _hex(identity.words)


def _hex(mark: bytes | None) -> str | None:
    return None if mark is None else mark.hex()


def line_of(body: bytes) -> SidecarLine:
    """Return a parsed line that was checked before."""
    return _decode_line(body)


class SidecarLines:
    """The lines of a new sidecar, buffered until all of them are known."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._sum = blake3()
        self.count = 0

    def add(self, line: SidecarLine) -> None:
        """Add a line."""
        body = _encode(line) + b"\n"
        self._sum.update(body)
        self._spool.write(body)
        self.count += 1

    def write(self, sink: BinaryIO, format_: str, output: Output) -> None:
        """Write the sidecar."""
        head = SidecarHead(
            satchel_sidecar=VERSION,
            format=format_,
            output=output,
            lines=self.count,
            digest=f"blake3:{self._sum.hexdigest()}",
        )
        sink.write(canonical_checked(msgspec.to_builtins(head)) + b"\n")
        sink.writelines(self._spool.chunks())

    def close(self) -> None:
        """Free the space."""
        self._spool.close()


def head_of(file: InputPath) -> SidecarHead:
    """Return the first line of a sidecar.

    Raises:
        MalformedError: If it is not a sidecar, or of an unknown version.
        UnreadableError: If it cannot be read.
    """
    with open_input(file) as stream:
        return _head(stream)


def _head(stream: BinaryIO) -> SidecarHead:
    line = stream.readline(_HEAD_BYTES)
    try:
        head = _decode_head(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise MalformedError("not a sidecar", line=1, hint=WITHOUT) from None
    if head.satchel_sidecar != VERSION:
        raise MalformedError(
            f"a sidecar of version {head.satchel_sidecar}",
            line=1,
            field="satchel_sidecar",
            hint="It was written by a newer version of Satchel; upgrade.",
        )
    return head


def read_lines(file: InputPath, limits: Limits) -> Iterator[tuple[SidecarLine, bytes]]:
    """Yield the lines of a sidecar after the head, each with its bytes.

    They are verified only after the last one: do not use any before.

    Raises:
        MalformedError: If a line is malformed, or the lines do not match the digest.
        LimitError: If a line is too long, or there are too many.
        UnreadableError: If it cannot be read.
    """
    most, hasher, count = _ROOM * limits.entry_bytes, blake3(), 0
    with open_input(file) as stream:
        head = _head(stream)
        while body := stream.readline(most + 1):
            count += 1
            if len(body) > most or count > limits.records:
                raise LimitError("too large for a sidecar", line=count + 1)
            hasher.update(body)
            yield _line(body, count + 1), body
        if count != head.lines or head.digest != f"blake3:{hasher.hexdigest()}":
            raise MalformedError(
                "the sidecar was changed or truncated", line=count + 1, field="digest", hint=WITHOUT
            )


def _line(body: bytes, number: int) -> SidecarLine:
    try:
        line = _decode_line(body)
        marks = line.fingerprints
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise MalformedError(
            f"not a line of a sidecar: {error}", line=number, hint=WITHOUT
        ) from None
    whole = line.record is not None
    if whole == bool(marks) or bool(marks) != (line.type is not None):
        raise MalformedError("not a line of a sidecar", line=number, hint=WITHOUT)
    if any(one is not None and len(one) != MARK_BYTES for one in marks) or (
        (line.id is None) != (line.nonce is None)
    ):
        raise MalformedError("not a line of a sidecar", line=number, hint=WITHOUT)
    return line


BY = ("print", "bare", "key", "words")
"""Fingerprints of a record, most specific first."""

_LINKS = frozenset({"parent_ids", "source_event_ids"})
_GIVEN = frozenset({"id", "nonce"})


class UnsealedRecords:
    """Converts what a reader yields to records that are the same in each pass.

    A draft has neither ID nor nonce. Links to records that the reader sealed itself use their IDs
    at the origin.

    Args:
        keeps_ids: Whether records keep their IDs.
    """

    def __init__(self, *, keeps_ids: bool) -> None:
        self._names: dict[str, str] | None = None if keeps_ids else {}

    def __call__(self, item: Model | Sealed) -> Sealed:
        """Return an item as a record; an empty one if it has no canonical form."""
        if not isinstance(item, Sealed):
            tag = str(item.__struct_config__.tag)
            try:
                return Sealed("", tag, canonical_checked(plain(item)))
            except InputError:  # reported when it is sealed
                return Sealed("", tag, b"{}")
        if self._names is None:
            return item
        value = value_of(item.body)
        self._names[item.id] = str((value.get("origin") or {}).get("id"))
        for name in _LINKS & value.keys():
            value[name] = [self._names.get(one, one) for one in value[name]]
        return Sealed(item.id, item.type, canonical_checked(value))


class SidecarBuilder:
    """Builds the lines of a sidecar, before the digest of its output is known.

    Args:
        planned: The records of the transfer.
        items: The records read back from the output.
        keeps_ids: Whether those keep their IDs.
    """

    def __init__(
        self, planned: RecordSet, items: Iterator[Model | Sealed], *, keeps_ids: bool
    ) -> None:
        self._lines = SidecarLines()
        with ExitStack() as stack:
            stack.callback(self._lines.close)
            pairing = stack.enter_context(Pairing())
            pairing.add(
                0, (identify_record(_named(kind, line)) for kind, line in lines_of(planned))
            )
            pairing.add(1, map(identify_draft, map(UnsealedRecords(keeps_ids=keeps_ids), items)))
            pairing.pair(BY)
            pairing.pair_by_turn(surely=True)
            self._add(pairing)
            pairing.close()
            stack.pop_all()

    def _add(self, pairing: Pairing) -> None:
        needed = False
        for pair in pairing.pairs():
            needed = pair.one != pair.other or needed
            self._lines.add(_sidecar_line(_whole(value_of(pair.one)), pair.other))
        for _, kind, body in pairing.alone(1):
            said = identify_record(Sealed(value_of(body).get("id", ""), kind, body), draft=True)
            self._lines.add(SidecarLine(known=marks_of(said), type=kind))
            needed = True
        for _, _, body in pairing.alone(0):
            self._lines.add(SidecarLine(record=_whole(value_of(body))))
            needed = True
        self.is_needed = needed
        """Whether the output lacks something."""

    def write(self, sink: BinaryIO, format_: str, output: Output) -> None:
        """Write the sidecar."""
        self._lines.write(sink, format_, output)

    def close(self) -> None:
        """Free the space."""
        self._lines.close()


def identify_draft(record: Sealed) -> RecordIdentity:
    """Return the fingerprints of a record that was read."""
    return identify_record(record, draft=True)


def _sidecar_line(planned: dict[str, Any], body: bytes) -> SidecarLine:
    before = value_of(body)
    identity = identify_record(Sealed(before.get("id", ""), before["type"], body), draft=True)
    old, new = (
        {name: part for name, part in value.items() if name not in _GIVEN}
        for value in (before, planned)
    )
    return SidecarLine(
        known=marks_of(identity),
        type=before["type"],
        id=planned["id"],
        nonce=planned["nonce"],
        change=change_of(old, new),
    )


def _whole(value: dict[str, Any]) -> dict[str, Any]:
    """Return a record; for a redacted form, a new memory with the same content.

    With the ID of the form it would need the proof of a redaction, which a sidecar does not have.
    """
    if "nonce" in value:
        return value
    record = {**value, "nonce": random_nonce()}
    del record["id"]
    return {**record, "id": digest(canonical_checked(record))}


def _named(kind: str, line: bytes) -> Sealed:
    return Sealed(value_of(line).get("id", ""), kind, line)


def value_of(body: bytes) -> dict[str, Any]:
    """Return the value of canonical bytes."""
    found: dict[str, Any] = msgspec.json.decode(body)
    return found


_NONCE_BYTES = 16
_CONTEXT = "satchel 2026 nonce of a changed record"


class SidecarChanges(NamedTuple):
    """Counts of changes to the records of an output since its sidecar was written."""

    same: int = 0
    changed: int = 0
    new: int = 0
    gone: int = 0


class SidecarFormat:
    """A format whose records are restored with the sidecar of the file.

    Args:
        adapter: The format.
        name: Its name.
        sidecar: The sidecar, open while records are read.
        called: Name of the sidecar for messages.
        digest: Digest of the decrypted bytes of the file.

    Raises:
        MalformedError: If it is not a sidecar, or is of a file in another format.
    """

    info: ClassVar[Info]

    def __init__(
        self, adapter: Format, name: str, sidecar: InputPath, called: str, digest: str
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
        """Whether the file is unchanged since the sidecar was written."""

        self._keeps_ids = adapter.info.traits.keeps_ids
        traits = replace(adapter.info.traits, keeps_ids=True)
        self.info = replace(adapter.info, traits=traits)  # type: ignore[misc]
        self.since = SidecarChanges()
        """Set once the file was read."""

        self.replaces = dict[str, str]()
        """IDs of changed records, with the IDs of the originals."""

        self._pairing: Pairing | None = None
        self._sidecar_only = Spool()
        self._missing = ScratchMap()

    def recognizes(self, location: Location) -> bool:
        """Return whether the format recognizes a place."""
        return self._adapter.recognizes(location)

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Write as the format does."""
        self._adapter.write(records, target, writing)

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the restored records.

        Raises:
            MalformedError: If the sidecar is not of this file, or was altered.
            InputError: As the format.
        """
        pairing = self._paired(location, reading)
        made_up = ScratchMap()
        try:
            for pair in pairing.pairs():
                line = line_of(pair.one)
                if line.id is not None and not _is_unchanged(line, pair.other):
                    yield RestoredRecord(
                        self._record(line, pair.other, reading.limits), _model(pair.other)
                    )
            unsealed = UnsealedRecords(keeps_ids=self._keeps_ids)
            for number, item in enumerate(self._adapter.read(location, reading)):
                body, match = unsealed(item).body, pairing.first_of(number)
                if match is not None:
                    restored = self._restored(line_of(match), body, reading.limits)
                    if restored is not None:
                        yield RestoredRecord(restored, item)
                    elif line_of(match).id is None:
                        made_up.add((placeholder_of(item) or "").encode())
                elif _leads_to(item, made_up):
                    reading.report.lost("edge", "its target was generated by the format")
                else:
                    yield item
            yield from self._sidecar_records(reading)
        finally:
            made_up.close()

    def _restored(self, line: SidecarLine, body: bytes, limits: Limits) -> Sealed | None:
        """Return the restored record for one in the file; None for an added or repeated one."""
        if line.id is None or not _is_unchanged(line, body):
            return None
        return self._record(line, body, limits)

    def close(self) -> None:
        """Free the space."""
        self._sidecar_only.close()
        self._missing.close()
        if self._pairing is not None:
            self._pairing.close()

    @property
    def note(self) -> str:
        """Note on how the file was restored."""
        since = self.since
        if self.is_same:
            return f"members that its format cannot hold were restored from {self._called}"
        named = (("changed", since.changed), ("new", since.new), ("gone", since.gone))
        changes = ", ".join(f"{number:,} {word}" for word, number in named if number) or "none"
        return (
            f"the file was changed since {self._called} was written; of its records: {changes}. "
            "Changed records were merged with the sidecar; removed records were not restored"
        )

    def _paired(self, location: Location, reading: ReadContext) -> Pairing:
        """Match lines to records; this also verifies the whole sidecar."""
        if self._pairing is not None:
            return self._pairing
        pairing = self._pairing = Pairing()
        try:
            pairing.add(0, self._lines(reading.limits))
        except InputError as error:
            error.file = self._called
            raise
        first = ReadContext(
            limits=reading.limits,
            skip_bad=reading.skip_bad,
            agent=reading.agent,
            only_ours=reading.only_ours,
            any_version=reading.any_version,
        )
        unsealed = UnsealedRecords(keeps_ids=self._keeps_ids)
        pairing.add(1, map(identify_draft, map(unsealed, self._adapter.read(location, first))))
        pairing.pair(BY)
        self._count(pairing, reading.limits)
        return pairing

    def _lines(self, limits: Limits) -> Iterator[RecordIdentity]:
        for line, body in read_lines(self._sidecar, limits):
            if line.record is not None:
                self._sidecar_only.write(body)
            else:
                print_, bare, key, words = line.fingerprints
                yield RecordIdentity(line.type or "", print_ or b"", bare, key, words, body)

    def _count(self, pairing: Pairing, limits: Limits) -> None:
        same = 0
        for pair in pairing.pairs():
            line = line_of(pair.one)
            if line.id is None:
                continue
            if _is_unchanged(line, pair.other):
                same += 1
            else:
                self.replaces[self._record(line, pair.other, limits).id] = line.id
        missing = [line.id for line in (line_of(one) for _, _, one in pairing.alone(0)) if line.id]
        for identity in missing:
            self._missing.add(identity.encode())
        new = sum(1 for _ in pairing.alone(1))
        self.since = SidecarChanges(same, len(self.replaces), new, len(missing))
        if not self.is_same and same + len(self.replaces) == 0:
            raise MalformedError(
                "the sidecar belongs to another file: none of its records are here",
                file=self._called,
                line=1,
                field="output",
                hint=WITHOUT,
            )

    def _record(self, line: SidecarLine, body: bytes, limits: Limits) -> Sealed:
        """Return the restored record for one in the file, with later changes."""
        value = apply_change(
            {name: part for name, part in value_of(body).items() if name not in ("id", "nonce")},
            line.change,
        )
        if _is_unchanged(line, body):
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
        """Return a record after checking it."""
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

    def _sidecar_records(self, reading: ReadContext) -> Iterator[Sealed]:
        """Yield the records that are only in the sidecar."""
        left = 0
        for body in self._sidecar_only.lines():
            record = self._carried(canonical_checked(line_of(body).record), reading.limits)
            ends = (record.value["source"], record.value["target"]) if record.type == "edge" else ()
            if any(end.encode() in self._missing for end in ends):
                left += 1
            else:
                yield record
        if left:
            reading.report.note(f"links to records missing from the file were skipped: {left:,}")


def _is_unchanged(line: SidecarLine, body: bytes) -> bool:
    value = value_of(body)
    return line.known is not None and line.fingerprints[0] == print_of(value.get("id", ""), body)


def _leads_to(item: Model | Sealed, made_up: ScratchMap) -> bool:
    ends = (item.source, item.target) if isinstance(item, Edge) else ()
    return any(end.encode() in made_up for end in ends)


def _model(body: bytes) -> Model:
    return as_model(value_of(body))
