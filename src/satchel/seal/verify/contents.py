"""Steps 6 to 8: every record, the graph they make, and the proofs that they were logged."""

from collections.abc import Callable
from contextlib import closing

import msgspec

from satchel.errors import MalformedError, SatchelError
from satchel.memory.entries import Entry, Semantic
from satchel.memory.records import Bank, Config, Erasure, Model, Redaction
from satchel.seal.artifact.body import Body, RootHash, lines_of
from satchel.seal.artifact.opening import Artifact
from satchel.seal.artifact.sections import COMPONENTS, PROOF_SECTIONS, TYPED_SECTIONS
from satchel.seal.encoding.jcs import decode_canonical
from satchel.seal.graph import IdIndex, IdReport, Lineage, Role
from satchel.seal.limits import Limits, check_record
from satchel.seal.log import Head, LeafProof
from satchel.seal.records import PREFIX, Sealed, digest, hash_without_id, id_holds, shape_of
from satchel.seal.signing.envelope import PayloadType, check, parse_signatures, signed_part
from satchel.seal.tree import audit_holds
from satchel.seal.verify.proving import Proof, Prover, Task
from satchel.seal.verify.verification import Finding, Outcome

_MAX_FINDINGS = 100
_ADMITTING = frozenset({"writer_added", "key_succession", "owner_added", "threshold_set"})


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
        self._threshold = 1
        self.heirs: dict[str, str] = {}
        """Owners' keys that took the place of another, and which."""
        self.admitted_keys: set[str] = set()
        self._artifact = artifact
        self._limits = limits
        self._head = head
        self._lineage = lineage
        self._redactions: dict[str, str] = {}
        self._ids = IdIndex()
        self._proved = IdIndex()
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

    def _record(self, line: bytes, number: int) -> None:
        model = shape_of(line)
        check_record(model, len(line), self._limits)
        identity = model.id
        if identity is None:
            raise MalformedError("a record needs an id", field="id")
        if model.__struct_config__.tag != TYPED_SECTIONS[self._section]:
            wrong = f"a {model.__struct_config__.tag} in section {self._section}"
            self._note(Outcome.TAMPERED, wrong, number, identity)
        if model.nonce is None:
            raw = self._redacted(model, identity, line, number)
        else:
            raw = hash_without_id(line, identity)
            if identity != PREFIX + raw.hex():
                raw = _raw(identity)
                self._note(Outcome.TAMPERED, "the id is not that of the content", number, identity)
        if isinstance(model, Entry):
            self._entry(model, identity, raw, number)
        else:
            self._ids.add_raw(raw, Role.OTHER, number)
            self._other(model, line, number)

    def _entry(self, model: Entry, identity: str, raw: bytes, number: int) -> None:
        self._ids.add_raw(raw, Role.ENTRY, number)
        if self._head is not None:
            self._proved.add_raw(raw, Role.NEEDED, number)
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
            raise MalformedError("a record needs a nonce", field="nonce")
        raw = _raw(identity)
        self._redacted_seen = True
        if self._redactions.get(identity) != digest(line):
            self._note(
                Outcome.TAMPERED,
                "a redacted form without the redaction that allows it",
                number,
                identity,
            )
        return raw

    def _other(self, model: Model, line: bytes, number: int) -> None:
        if isinstance(model, Redaction):
            self._redactions[model.entry] = model.result
        elif isinstance(model, Erasure):
            self._ids.add(model.entry, Role.TOMBSTONE, number)
            if self._lineage is not None:
                self._lineage.add(model.entry, (), "erased")
        elif isinstance(model, Bank) and model.id == self._artifact.statement.bank:
            self.owner_keys.update(model.owner_keys)
        elif isinstance(model, Config) and model.action in _ADMITTING:
            self._admit(model, line)

    def _admit(self, model: Config, line: bytes) -> None:
        """Note a writer key, or an owner's heir, that an owner of the bank signed for.

        Owners come first in a body, and what they said in the order of the log.
        """
        signed = signed_part(decode_canonical(line))
        signatures = parse_signatures(list(model.signatures), self._limits.signatures)
        found = check(PayloadType.CONFIG, signed, signatures)
        by = {one.key for one in found if one.valid}
        payload = model.payload
        if payload.get("bank") != self._artifact.statement.bank:
            return
        key, old, new = payload.get("key"), str(payload.get("old")), payload.get("new")
        number = payload.get("threshold")
        if len(by & self.owner_keys) < self._threshold:
            return
        if model.action == "threshold_set":
            self._threshold = number if isinstance(number, int) and number > 0 else 1
        elif model.action == "owner_added":
            self.owner_keys |= {key} & by if isinstance(key, str) else set()
        elif isinstance(key, str):
            self.admitted_keys.add(key)
        elif isinstance(new, str) and old in self.owner_keys and {old, new} <= by:
            self.owner_keys.add(new)
            self.heirs[new] = old

    def _free(self, line: bytes, number: int) -> None:
        value = decode_canonical(line)
        if not isinstance(value, dict):
            raise MalformedError("a record must be an object")
        identity = value.get("id")
        if isinstance(value.get("nonce"), str) and isinstance(identity, str):
            if not id_holds(Sealed(identity, str(value.get("type")), line)):
                self._note(Outcome.TAMPERED, "the id is not that of the content", number, identity)
            else:
                self._ids.add(identity, Role.OTHER, number)

    def _proof(self, line: bytes, number: int) -> None:
        try:
            proof = msgspec.convert(decode_canonical(line), LeafProof)
        except msgspec.ValidationError as error:
            raise MalformedError(f"not a proof: {error}") from None
        if self._section == "withheld":
            self._ids.add(proof.id, Role.ENTRY, number)
            if self._lineage is not None:
                self._lineage.add(proof.id, (), "withheld")
        else:
            self._proved.add(proof.id, Role.ENTRY, number)
        self.proofs += 1
        head = self._head
        if head is None:
            self._note(Outcome.TAMPERED, "a proof without a log head to prove against", number)
        elif not audit_holds(
            proof.leaf(head.bank), proof.seq, head.size, proof.path_bytes(), _raw(head.root)
        ):
            self._note(Outcome.TAMPERED, "the proof does not lead to the head", number, proof.id)

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
