"""Common parts of the three encodings of a sealed artifact."""

from collections.abc import Iterator
from typing import BinaryIO, ClassVar

from satchel.artifact.encodings import Encoding, gzip_sink, sign_statement, write_artifact
from satchel.crypto.sealed_records import Sealed
from satchel.model.records import Model
from satchel.model.values import Component
from satchel.ports.format import Info, Location, ReadContext, Target, Traits, WriteContext
from satchel.ports.record_set import RecordSet, SignedStatement, open_record_set

TRAITS = Traits(components=frozenset(Component), exact=True, sealed=True, keeps_ids=True)
"""An artifact can hold everything, and is verified before it is read."""

SPEC = "docs/spec/3-artifact.md"
CHECKED = "2026-11-21"


class PamFormat:
    """An artifact in one encoding.

    Records with a statement keep it and its signatures: the encoding changes, the seal does not.
    Others get a new statement, signed with ``writing.keys``.
    """

    encoding: ClassVar[Encoding]
    info: ClassVar[Info]

    def read(self, location: Location, reading: ReadContext) -> Iterator[Model | Sealed]:
        """Yield the sealed records."""
        with open_record_set(location.file, reading.limits) as records:
            yield from records

    def write(self, records: RecordSet, target: Target, writing: WriteContext) -> None:
        """Write the records with their seal, or with a new one."""
        under = records.sealed
        if under is None:
            statement = writing.header.statement(records.totals)
            under = SignedStatement(statement, sign_statement(statement, writing.keys))
        with target.open() as sink:
            if writing.compress:
                with gzip_sink(sink) as stream:
                    self._write(stream, records, under)
            else:
                self._write(sink, records, under)

    def _write(self, sink: BinaryIO, records: RecordSet, under: SignedStatement) -> None:
        write_artifact(sink, self.encoding, records.body, under.statement, under.signatures)
