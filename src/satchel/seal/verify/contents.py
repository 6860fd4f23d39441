"""Steps 6 to 8: every record, the graph they make, and the proofs that they were logged."""

import msgspec

from satchel.errors import MalformedError, SatchelError
from satchel.memory.entries import Entry, Semantic
from satchel.memory.records import Bank, Config, Erasure, Model, Redaction
from satchel.seal.artifact.body import Body, Line, RootHash
from satchel.seal.artifact.opening import Artifact
from satchel.seal.artifact.sections import COMPONENTS, PROOF_SECTIONS, TYPED_SECTIONS
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.graph import IdIndex, IdReport, Lineage, Role
from satchel.seal.limits import Limits
from satchel.seal.log import Head, LeafProof
from satchel.seal.records import Sealed, digest, id_holds, open_shape
from satchel.seal.tree import audit_holds
from satchel.seal.verify.verification import Finding, Outcome

_MAX_FINDINGS = 100
_BATCH = 1 << 16


class Contents:
    """Reads every record of a body once and keeps what steps 6, 7 and 8 need.

    Args:
        artifact: The opened file.
        limits: The bounds.
        head: The log head, when the file has one.
        lineage: Where to note each entry and its parents; None unless a chain is wanted.
    """

    def __init__(
        self, artifact: Artifact, limits: Limits, head: Head | None, lineage: Lineage | None
    ) -> None:
        self.findings: list[Finding] = []
        self.more_findings = 0
        self.counts: dict[str, int] = {}
        self.root_hash = ""
        self.roots = 0
        """Entries without parents."""

        self.proofs = 0
        self.owner_keys: set[str] = set()
        self.admitted_keys: set[str] = set()
        self._artifact = artifact
        self._limits = limits
        self._head = head
        self._lineage = lineage
        self._redactions: dict[str, str] = {}
        self._ids = IdIndex()
        self._proved = IdIndex()
        self._redacted_seen = False

    def read(self, body: Body) -> None:
        """Read everything; what is wrong is noted, only a broken structure raises."""
        root, held, size, section = RootHash(), list[bytes](), 0, ""
        for line in body.lines():
            if line.section != section or size > _BATCH:
                _feed(root, section, held)
                section, held, size = line.section, [], 0
                self.counts.setdefault(section, 0)
            held.append(line.data)
            size += len(line.data)
            self.counts[section] += 1
            try:
                self._line(line)
            except SatchelError as error:
                self._note(Outcome.MALFORMED, error.message, line, field=error.field)
        _feed(root, section, held)
        self.root_hash = root.finish()

    def provenance(self) -> IdReport:
        """Compare the ids with the parents."""
        return self._ids.finish()

    def unproved(self) -> IdReport:
        """Compare the entries with the proofs."""
        return self._proved.finish()

    def close(self) -> None:
        """Give the space on disk back."""
        self._ids.close()
        self._proved.close()

    @property
    def cycle_possible(self) -> bool:
        """Whether ids alone do not rule a cycle out: some entries are redacted forms."""
        return self._redacted_seen

    def _line(self, line: Line) -> None:
        expected = TYPED_SECTIONS.get(line.section)
        if line.section in PROOF_SECTIONS:
            self._proof(line)
        elif expected is None:
            self._free(line)
        else:
            record, model = open_shape(line.data, limits=self._limits)
            if record.type != expected:
                self._note(
                    Outcome.TAMPERED, f"a {record.type} in section {line.section}", line, record.id
                )
            self._record(record, model, line)

    def _record(self, record: Sealed, model: Model, line: Line) -> None:
        if model.nonce is None and isinstance(model, Entry):
            self._redacted(record, line)
        elif model.nonce is None:
            raise MalformedError("a record needs a nonce", field="nonce")
        elif not id_holds(record):
            self._note(Outcome.TAMPERED, "the id is not that of the content", line, record.id)
        if isinstance(model, Entry):
            self._entry(record, model, line)
        else:
            self._ids.add(record.id, Role.OTHER, line.number)
            self._other(model, line)

    def _entry(self, record: Sealed, model: Entry, line: Line) -> None:
        self._ids.add(record.id, Role.ENTRY, line.number)
        if self._head is not None:
            self._proved.add(record.id, Role.NEEDED, line.number)
        self.roots += not model.parent_ids
        for parent in model.parent_ids:
            self._ids.add(parent, Role.NEEDED, line.number)
        if isinstance(model, Semantic):
            for event in model.source_event_ids:
                self._ids.add(event, Role.MENTIONED, line.number)
        if self._lineage is not None:
            note = "redacted" if model.nonce is None else "whole"
            self._lineage.add(record.id, model.parent_ids, note)

    def _redacted(self, record: Sealed, line: Line) -> None:
        self._redacted_seen = True
        if self._redactions.get(record.id) != digest(line.data):
            self._note(
                Outcome.TAMPERED,
                "a redacted form without the redaction that allows it",
                line,
                record.id,
            )

    def _other(self, model: Model, line: Line) -> None:
        if isinstance(model, Redaction):
            self._redactions[model.entry] = model.result
        elif isinstance(model, Erasure):
            self._ids.add(model.entry, Role.TOMBSTONE, line.number)
            if self._lineage is not None:
                self._lineage.add(model.entry, (), "erased")
        elif isinstance(model, Bank) and model.id == self._artifact.statement.bank:
            self.owner_keys.update(model.owner_keys)
        elif isinstance(model, Config) and model.action == "writer_added":
            key = model.payload.get("key")
            self.admitted_keys.update([key] if isinstance(key, str) else [])

    def _free(self, line: Line) -> None:
        value = decode_canonical(line.data)
        if not isinstance(value, dict):
            raise MalformedError("a record must be an object")
        identity = value.get("id")
        if isinstance(value.get("nonce"), str) and isinstance(identity, str):
            if not id_holds(Sealed(identity, str(value.get("type")), line.data)):
                self._note(Outcome.TAMPERED, "the id is not that of the content", line, identity)
            else:
                self._ids.add(identity, Role.OTHER, line.number)

    def _proof(self, line: Line) -> None:
        try:
            proof = msgspec.convert(decode_canonical(line.data), LeafProof)
        except msgspec.ValidationError as error:
            raise MalformedError(f"not a proof: {error}") from None
        if line.section == "withheld":
            self._ids.add(proof.id, Role.ENTRY, line.number)
            if self._lineage is not None:
                self._lineage.add(proof.id, (), "withheld")
        else:
            self._proved.add(proof.id, Role.ENTRY, line.number)
        self.proofs += 1
        head = self._head
        if head is None:
            self._note(Outcome.TAMPERED, "a proof without a log head to prove against", line)
        elif not audit_holds(
            proof.leaf(head.bank), proof.seq, head.size, proof.path_bytes(), _raw(head.root)
        ):
            self._note(Outcome.TAMPERED, "the proof does not lead to the head", line, proof.id)

    def _note(
        self,
        outcome: Outcome,
        message: str,
        line: Line,
        identity: str | None = None,
        *,
        field: str | None = None,
    ) -> None:
        if len(self.findings) >= _MAX_FINDINGS:
            self.more_findings += 1
            return
        self.findings.append(
            Finding(
                outcome=outcome,
                message=f"{line.section}: {message}",
                line=self._artifact.body.line_of(line.number),
                field=field,
                id=identity,
            )
        )


def _feed(root: RootHash, section: str, held: list[bytes]) -> None:
    if held and section in COMPONENTS:
        root.feed(section, b"\n".join(held) + b"\n")


def _raw(identity: str) -> bytes:
    return bytes.fromhex(identity[7:])
