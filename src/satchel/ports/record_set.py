"""Sets of sealed records that writers read more than once, and counts of what is lost."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self

from msgspec import structs

from satchel.artifact.body import (
    COMPONENTS,
    RECORD_SECTIONS,
    TYPED_SECTIONS,
    Body,
    BodyTotals,
    Span,
)
from satchel.artifact.encodings import SdkFileError, open_artifact
from satchel.crypto.canonical import Limits
from satchel.crypto.json_reader import NUMBERS, with_numbers
from satchel.crypto.keys import Signature
from satchel.crypto.redaction import open_redacted_form
from satchel.crypto.sealed_records import Sealed, digest, open_record, open_shape
from satchel.errors import InputError, MalformedError, SatchelError
from satchel.runtime.files import InputPath
from satchel.runtime.scratch import ScratchMap

TRANSFER_RECORDS = frozenset({"source", "receipt"})
"""Types of records about an import or export; formats that cannot hold them omit them."""

_EXAMPLES = 3
_PLACES = 1000
_KINDS, _OTHER = 30, "other"
_BAD = {
    "input.malformed": "malformed",
    "input.limit": "over a limit",
    "value.refused": "contains a value no record can have",
}


@dataclass(slots=True)
class Loss:
    """One kind of loss."""

    name: str
    """The lost member, or kind of record."""

    reason: str
    count: int = 0
    examples: list[str] = field(default_factory=list)
    """Up to three IDs or names of affected records."""


@dataclass(slots=True)
class RefusedRecord:
    """A record that could not be read, and was skipped."""

    line: int | None
    field: str | None
    code: str
    """The code of its error."""

    message: str

    @property
    def place(self) -> str:
        """Its position for a user: ``line 7``, ``results/3``."""
        line = f"line {self.line}" if self.line is not None else ""
        return ", ".join(filter(None, (line, f"field {self.field}" if self.field else "")))


@dataclass(slots=True)
class Report:
    """What a reader or writer reports."""

    losses: dict[tuple[str, str], Loss] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    """The first thousand skipped records; ``losses`` counts all."""

    left_out: int = 0
    """Number of skipped records."""

    ignored: Counter[str] = field(default_factory=Counter)
    """Records without memory, by kind: no loss, reported in one note."""

    def lost(self, name: str, reason: str, *, example: str = "", count: int = 1) -> None:
        """Count a loss.

        Args:
            name: The member, or the kind of record.
            reason: Why, in a few words; losses of one name and reason are counted together.
            example: An ID or name of the record, for the user.
            count: How many.
        """
        loss = self.losses.setdefault((name, reason), Loss(name, reason))
        loss.count += count
        if example and len(loss.examples) < _EXAMPLES:
            loss.examples.append(example)

    def refuse(self, error: InputError) -> None:
        """Count a skipped bad record."""
        refused = RefusedRecord(error.line, error.field, error.code, error.message)
        self.lost("record", _BAD.get(error.code, error.code), example=refused.place)
        self.left_out += 1
        if len(self.refused) < _PLACES:
            self.refused.append(refused)

    def ignore(self, kind: str, *, count: int = 1) -> None:
        """Count a record without memory, such as the number of tokens of an answer.

        It is no loss; one note counts all of them.
        """
        before = self._ignored_note()
        self.ignored[kind if kind in self.ignored or len(self.ignored) < _KINDS else _OTHER] += (
            count
        )
        if before in self.notes:
            self.notes[self.notes.index(before)] = self._ignored_note()
        else:
            self.notes.append(self._ignored_note())

    def _ignored_note(self) -> str:
        named = ", ".join(f"{count:,} {kind}" for kind, count in self.ignored.items())
        return f"ignored, as it holds no memory: {named}"

    @property
    def first_refused(self) -> str | None:
        """Add a note on the first skipped record, if any."""
        if not self.refused:
            return None
        one = self.refused[0]
        where = f"line {one.line}" if one.line is not None else f"record {one.field}"
        return f"All records were skipped as malformed, the first at {where}: {one.message}."

    def note(self, text: str) -> None:
        """Add a note that is no loss."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def total(self) -> int:
        """Number of losses."""
        return sum(loss.count for loss in self.losses.values())


_NUMBERS: Final = f'"{NUMBERS}"'.encode()
_FREE: Final = ("metadata", "properties")
"""Members of records with data that the model does not name."""

_HOLDERS: Final = frozenset({"metadata", "payload", "value", "attributes", "properties"})
"""Members of source records that become one of these."""

NO_PLACE = (
    "the format cannot store who redacted a memory and when; only the remaining text is written"
)


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """A statement and the signatures over it."""

    statement: dict[str, Any]
    signatures: list[Signature]


class RecordSet:
    """The records of a body.

    Args:
        body: The body; its file stays open while the set is used.
        totals: Hashes and counts of the body.
        sealed: The statement and signatures, for a body of an artifact.
    """

    def __init__(
        self, body: Body, totals: BodyTotals, sealed: SignedStatement | None = None
    ) -> None:
        self.body: Final = body
        self.totals: Final = totals
        self.sealed: Final = sealed
        self._spans = body.spans()
        self._redacted: ScratchMap | None = None

    def without_redactions(self, report: Report) -> Self:
        """Hide the redactions of memories, and count them as lost: only an artifact can hold them.

        The memories are included with their remaining words; who redacted them, when, and the
        original ID are not.
        """
        self._results()
        span = self._spans.pop("redactions", None)
        if span is not None:
            said = (open_record(line)[0].value["entry"] for line in self.body.within(span))
            for entry in dict.fromkeys(said):
                report.lost("redaction", NO_PLACE, example=entry)
        return self

    def close(self) -> None:
        """Free the space of the redactions."""
        if self._redacted is not None:
            self._redacted.close()

    def __iter__(self) -> Iterator[Sealed]:
        """Yield every record, in body order; objects that are no records are skipped.

        Includes a redacted form if a redaction of the set covers its bytes.
        """
        for section in self._spans:
            if section in TYPED_SECTIONS:
                yield from self._section(section)

    def with_forms(self) -> Iterator[Sealed]:
        """Yield records, and redacted forms after the redaction that each needs.

        Redactions of entries that the set does not have come last.

        Raises:
            InputError: As for iteration; also for a form that no redaction of the set permits.
        """
        waiting = ScratchMap()
        try:
            for section in self._spans:
                if section == "redactions":
                    for record in self._section(section):
                        waiting.put(record.value["entry"].encode(), record.body)
                elif section in TYPED_SECTIONS:
                    for record in self._section(section):
                        said = waiting.get(record.id.encode()) if section in COMPONENTS else None
                        if said is not None and record.value.get("nonce") is None:
                            waiting.discard(record.id.encode())
                            yield open_record(said)[0]
                        yield record
            for entry in waiting:
                yield open_record(waiting.get(entry) or b"")[0]
        finally:
            waiting.close()

    def of(self, record_type: str) -> Iterator[Sealed]:
        """Yield the records of one type."""
        yield from self._section(RECORD_SECTIONS[record_type])

    def count(self, record_type: str) -> int:
        """Return the number of records of a type."""
        span = self._spans.get(RECORD_SECTIONS[record_type])
        return 0 if span is None else span.count

    @property
    def counts(self) -> dict[str, int]:
        """The number of objects of each section, sections without records included."""
        return {name: span.count for name, span in self._spans.items()}

    def _results(self) -> ScratchMap:
        """Return the hashes of the forms that the redactions of the set permit."""
        if self._redacted is None:
            self._redacted = ScratchMap()
            span = self._spans.get("redactions")
            for line in self.body.within(span) if span is not None else ():
                value = open_record(line)[0].value
                self._redacted.put(f"{value['entry']} {value['result']}".encode(), b"")
        return self._redacted

    def _section(self, section: str) -> Iterator[Sealed]:
        span = self._spans.get(section)
        if span is not None:
            for index, line in enumerate(self.body.within(span)):
                try:
                    record = self._opened(line)
                except InputError as error:
                    raise self._located(error, section, span, index) from None
                if _NUMBERS in record.body:
                    _write_numbers(record)
                yield record

    def _opened(self, line: bytes) -> Sealed:
        """Return a record, or a redacted form if its hash is permitted."""
        try:
            return open_record(line)[0]
        except MalformedError as error:
            if error.field != "nonce":
                raise
        result = digest(line)
        shape, _ = open_shape(line)
        if f"{shape.id} {result}".encode() not in self._results():
            raise MalformedError("a redacted memory without its redaction record", field="nonce")
        return open_redacted_form(line, result)[0]

    def _located(self, error: InputError, section: str, span: Span, index: int) -> SatchelError:
        line = self.body.line_of(span.first_line + index)
        if line is None:
            error.field = f"{section}/{index}" + (f"/{error.field}" if error.field else "")
        return error.located(line=line)


def _write_numbers(record: Sealed) -> None:
    """Return a record with its numbers as the source wrote them, such as ``1.0`` for ``1``.

    Applies to the fields outside an import's records, and to metadata, which other formats can hold
    as well.
    """
    container = record.value.get("container")
    if isinstance(container, dict) and NUMBERS in container:
        rest = {name: part for name, part in container.items() if name != NUMBERS}
        _set_member(record, "container", with_numbers(rest, container[NUMBERS]))
    as_written = (record.value.get("origin") or {}).get("as_written") or {}
    for member in _FREE:
        free = record.value.get(member)
        if isinstance(free, dict) and isinstance(as_written.get(NUMBERS), dict):
            _set_member(record, member, with_numbers(dict(free), _inside(as_written[NUMBERS])))


def _inside(numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers of a source record's free members, by JSON pointer."""
    numbers_inside = dict[str, Any]()
    for pointer, text in numbers.items():
        holder, slash, rest = pointer.removeprefix("/").partition("/")
        if holder in _HOLDERS:
            numbers_inside[slash + rest] = text
    return numbers_inside


def _set_member(record: Sealed, member: str, value: dict[str, Any]) -> None:
    record.value[member] = value
    record.model = structs.replace(record.model, **{member: value})


@contextmanager
def open_record_set(path: InputPath, limits: Limits) -> Iterator[RecordSet]:
    """Open the records of an artifact, with its statement and signatures.

    Only the structure is verified; verify the file first.

    Raises:
        InputError: If it cannot be read, or is not a complete artifact.
        UnknownFormatError: If it is not an artifact.
    """
    with ExitStack() as stack:
        try:
            artifact = stack.enter_context(open_artifact(path, limits))
        except SdkFileError:
            raise MalformedError(
                "not a Satchel artifact, but a file of the published SDK",
                file=str(path),
                byte=0,
                hint="Use --from pam_sdk.",
            ) from None
        statement = artifact.statement
        totals = BodyTotals(statement.body_hash, statement.root_hash, statement.counts)
        under = SignedStatement(artifact.statement_value, artifact.signatures)
        found = RecordSet(artifact.body, totals, under)
        stack.callback(found.close)
        yield found
