"""Steps 6 to 8: every record, the graph they make, and the proofs that they were logged."""

import base64
import binascii
from collections.abc import Callable
from contextlib import closing

import msgspec
from blake3 import blake3

from satchel.disk.databases.keyed import Keyed
from satchel.errors import MalformedError, SatchelError
from satchel.memory.entries import Entry, Semantic
from satchel.memory.records import Bank, Blob, Config, Erasure, Model, Receipt, Redaction, Token
from satchel.seal.artifact.body import Body, RootHash, lines_of
from satchel.seal.artifact.opening import Artifact
from satchel.seal.artifact.sections import COMPONENTS, PROOF_SECTIONS, TYPED_SECTIONS
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.graph import IdIndex, IdReport, Lineage, Role
from satchel.seal.limits import Limits, check_record
from satchel.seal.log import Head, LeafProof
from satchel.seal.records import PREFIX, Sealed, digest, hash_without_id, id_holds, shape_of
from satchel.seal.signing.envelope import PayloadType
from satchel.seal.tree import audit_holds
from satchel.seal.verify.authority import BankKeys, false_signatures
from satchel.seal.verify.proving import Proof, Prover, Task
from satchel.seal.verify.redactions import Redactions
from satchel.seal.verify.verification import Finding, Outcome
from satchel.type_info import resolved

_MAX_FINDINGS = 100
_MAX_EXAMPLES = 3
_SIGNED: dict[type[Model], PayloadType] = {
    Config: PayloadType.CONFIG,
    Receipt: PayloadType.RECEIPT,
    Redaction: PayloadType.REDACTION,
    Token: PayloadType.TOKEN,
}
"""Records that are signed themselves (SEAL-3.36)."""


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
        self.keys = BankKeys(artifact.statement.bank, limits)
        """Who may sign for the bank, as far as the file shows it."""

        self._artifact = artifact
        self._limits = limits
        self._head = head
        self._lineage = lineage
        self.redactions = Redactions()
        self.unproved_forms = list[str]()
        """Ids of redacted forms that the file does not prove to be the bank's doing."""

        self.falsely_signed = 0
        """Records inside which a signature does not match."""

        self.falsely_signed_examples = list[str]()

        self._erased = Keyed()
        self._ids = IdIndex()
        self._proved = IdIndex()
        self._typed = IdIndex()
        self._proves_types = head is not None and "proofs" in artifact.statement.counts
        self._redacted_seen = False
        self._section = ""

    def read(self, body: Body) -> None:
        """Read everything; what is wrong is noted, only a broken structure raises."""
        root, together = RootHash(), self._head is None and self._lineage is None
        with closing(Prover(body.size if together else 0)) as prover:
            for batch in body.batches(prover.batch_bytes):
                section, text, number, count = batch
                self.counts[section] = self.counts.get(section, 0) + count
                if section in COMPONENTS:
                    root.feed(section, text)
                if section in COMPONENTS and together:
                    for done in prover.add(Task(section, text, number, self._limits)):
                        self._take(*done)
                else:
                    for done in prover.rest():
                        self._take(*done)
                    self._look_at(section, batch.lines, number)
            for done in prover.rest():
                self._take(*done)
        self.root_hash = root.finish()

    def _take(self, task: Task, proof: Proof) -> None:
        """Keep what was proved of a batch, and look carefully at the rest of it."""
        self._ids.add_rows(proof.rows, refers=proof.refers)
        self.roots += proof.roots
        if proof.odd:
            lines = lines_of(task.batch)
            self._section = task.section
            for place in proof.odd:
                self._carefully(self._record, lines[place], task.number + place)

    def _look_at(self, section: str, lines: list[bytes], number: int) -> None:
        self._section, look = section, self._record
        if self._section in PROOF_SECTIONS:
            look = self._proof
        elif self._section not in TYPED_SECTIONS:
            look = self._free
        for place, line in enumerate(lines, number):
            self._carefully(look, line, place)

    def _carefully(self, look: Callable[[bytes, int], None], line: bytes, number: int) -> None:
        try:
            look(line, number)
        except SatchelError as error:
            self._note(Outcome.MALFORMED, error.message, number, field=error.field)

    def judge_redactions(self) -> None:
        """Note each redacted form that the log of the bank is not shown to allow."""
        for found in self.redactions.judge(self.keys):
            if found.outcome is Outcome.INCOMPLETE:
                self.unproved_forms.append(found.id)
            self._note(found.outcome, found.message, found.number, found.id)

    def provenance(self) -> IdReport:
        """Compare the ids with the parents."""
        for entry in self._erased:
            record, number = msgspec.json.decode(
                self._erased.get(entry) or b"", type=tuple[str, int]
            )
            if self.redactions.place(record) is not None:
                self._ids.add_raw(entry, Role.TOMBSTONE, number)
        return self._ids.finish()

    def unproved(self) -> IdReport:
        """Compare the entries with the proofs; what is missing is a proof."""
        return self._proved.finish()

    def unmatched(self) -> IdReport:
        """Compare the proofs with the records; what is missing is a record of that type."""
        return self._typed.finish()

    def close(self) -> None:
        """Give the space on disk back."""
        self.redactions.close()
        self._erased.close()
        self._typed.close()
        self._ids.close()
        self._proved.close()

    @property
    def cycle_possible(self) -> bool:
        """Whether ids alone do not rule a cycle out: some entries are redacted forms."""
        return self._redacted_seen

    def _record(self, line: bytes, number: int) -> None:
        model = shape_of(line)
        check_record(model, len(line), self._limits)
        identity = model.id
        if identity is None:
            raise MalformedError("a record needs an ID", field="id")
        if model.__struct_config__.tag != TYPED_SECTIONS[self._section]:
            wrong = f"a {model.__struct_config__.tag} in section {self._section}"
            self._note(Outcome.TAMPERED, wrong, number, identity)
        if model.nonce is None:
            raw = self._redacted(model, identity, line, number)
        else:
            raw = hash_without_id(line, identity)
            if identity != PREFIX + raw.hex():
                raw = _raw(identity)
                self._note(Outcome.TAMPERED, "the ID does not match the content", number, identity)
            if isinstance(model, Entry) and self.redactions.names(identity):
                whole = "the full memory is beside its redaction"
                self._note(Outcome.TAMPERED, whole, number, identity)
        if self._proves_types:
            typed = _typed(str(model.__struct_config__.tag), raw)
            self._typed.add_raw(typed, Role.ENTRY, number)
        if isinstance(model, Entry):
            self._entry(model, identity, raw, number)
        else:
            self._ids.add_raw(raw, Role.OTHER, number)
            self._other(model, line, number)
            self._signatures(model, line, number)

    def _signatures(self, model: Model, line: bytes, number: int) -> None:
        kind = _SIGNED.get(type(model))
        keys = [] if kind is None else false_signatures(kind, line, self._limits)
        if not keys:
            return
        self.falsely_signed += 1
        if len(self.falsely_signed_examples) < _MAX_EXAMPLES:
            where = self._artifact.body.line_of(number)
            place = model.id if where is None else f"line {where}"
            self.falsely_signed_examples.append(f"{self._section}, {place}: {', '.join(keys)}")

    def _entry(self, model: Entry, identity: str, raw: bytes, number: int) -> None:
        self._ids.add_raw(raw, Role.ENTRY, number)
        if self._head is not None:
            kind = str(model.__struct_config__.tag)
            self._proved.add_raw(_typed(kind, raw), Role.NEEDED, number)
        if not model.parent_ids:
            self.roots += 1
        for parent in model.parent_ids:
            self._ids.add(parent, Role.NEEDED, number)
        if isinstance(model, Semantic):
            for event in model.source_event_ids:
                self._ids.add(event, Role.MENTIONED, number)
        if self._lineage is not None:
            note = "redacted" if model.nonce is None else "whole"
            self._lineage.add(identity, model.parent_ids, note)

    def _redacted(self, model: Model, identity: str, line: bytes, number: int) -> bytes:
        if not isinstance(model, Entry):
            raise MalformedError("a record must have a nonce", field="nonce")
        raw = _raw(identity)
        self._redacted_seen = True
        if not self.redactions.form(model, line, number):
            self._note(
                Outcome.TAMPERED,
                "a redacted memory without its redaction record",
                number,
                identity,
            )
        return raw

    def _other(self, model: Model, line: bytes, number: int) -> None:
        if isinstance(model, Redaction):
            self.redactions.record(model, line)
        elif isinstance(model, Erasure):
            self.redactions.want(model.id)
            self._erased.put(_raw(model.entry), msgspec.json.encode((model.id, number)))
            if self._lineage is not None:
                self._lineage.add(model.entry, (), "erased")
        elif isinstance(model, Bank):
            self.keys.found(model)
        elif isinstance(model, Config):
            self.redactions.want(model.id)
            self.keys.take(model, line)
        elif isinstance(model, Blob) and not _is_blob_whole(model):
            wrong = "the digest does not match the data"
            self._note(Outcome.TAMPERED, wrong, number, model.id)

    def _free(self, line: bytes, number: int) -> None:
        value = decode_canonical(line)
        if not isinstance(value, dict):
            raise MalformedError("a record must be an object")
        identity = value.get("id")
        if isinstance(value.get("nonce"), str) and isinstance(identity, str):
            if not id_holds(Sealed(identity, str(value.get("type")), line)):
                self._note(Outcome.TAMPERED, "the ID does not match the content", number, identity)
            else:
                self._ids.add(identity, Role.OTHER, number)

    def _proof(self, line: bytes, number: int) -> None:
        try:
            proof = msgspec.convert(decode_canonical(line), resolved(LeafProof))
        except msgspec.ValidationError as error:
            raise MalformedError(f"not a proof: {error}") from None
        if self._section == "withheld":
            # Only an entry can be a parent; a record of another type proves none.
            role = Role.ENTRY if proof.type in COMPONENTS else Role.OTHER
            self._ids.add(proof.id, role, number)
            if self._lineage is not None:
                self._lineage.add(proof.id, (), "withheld")
        else:
            typed = _typed(proof.type, _raw(proof.id))
            self._proved.add_raw(typed, Role.ENTRY, number)
            self._typed.add_raw(typed, Role.NEEDED, number)
        self.proofs += 1
        head = self._head
        if head is None:
            self._note(Outcome.TAMPERED, "an inclusion proof without a log head", number)
        elif not audit_holds(
            proof.leaf(head.bank), proof.seq, head.size, proof.path_bytes(), _raw(head.root)
        ):
            self._note(
                Outcome.TAMPERED,
                "the inclusion proof does not match the log head",
                number,
                proof.id,
            )
        elif self._section == "proofs":
            self.redactions.proof(proof)

    def _note(
        self,
        outcome: Outcome,
        message: str,
        number: int,
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
                message=f"{self._section}: {message}",
                line=self._artifact.body.line_of(number),
                field=field,
                id=identity,
            )
        )


def _raw(identity: str) -> bytes:
    return bytes.fromhex(identity[7:])


def _is_blob_whole(blob: Blob) -> bool:
    try:
        data = base64.b64decode(blob.data, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("the data is not base64", field="data") from None
    if base64.b64encode(data).decode() != blob.data:
        raise MalformedError("the data is not canonical base64", field="data")
    return digest(data) == blob.digest


def _typed(kind: str, raw: bytes) -> bytes:
    """Return 32 bytes that stand for an id together with a type of record."""
    return blake3(kind.encode() + b"\0" + raw).digest()
