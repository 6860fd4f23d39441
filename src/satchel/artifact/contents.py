"""Steps 6 to 8: every record, the graph they make, and the proofs that they were logged."""

import base64
import binascii
import gc
import multiprocessing
import os
import signal
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3

from satchel.artifact.body import (
    BATCH_BYTES,
    COMPONENTS,
    PROOF_SECTIONS,
    TYPED_SECTIONS,
    Body,
    RootHash,
    lines_of,
)
from satchel.artifact.encodings import Artifact
from satchel.artifact.verification import (
    IdIndex,
    IdReport,
    Lineage,
    Outcome,
    Role,
    VerificationFinding,
)
from satchel.crypto import keys
from satchel.crypto.canonical import Limits, check_record, decode_canonical
from satchel.crypto.keys import (
    ENDING,
    OWNING,
    SUCCEEDED,
    KeyState,
    PayloadType,
    SignatureCheck,
    check,
    is_key,
    parse_signatures,
    signed_part,
)
from satchel.crypto.log import Head, LeafProof, verify_audit_path
from satchel.crypto.sealed_records import (
    Sealed,
    decode_record,
    digest,
    has_valid_id,
    hash_without_id,
    verify_entries,
)
from satchel.errors import MalformedError, SatchelError
from satchel.model.records import (
    Bank,
    Blob,
    Config,
    Entry,
    Erasure,
    Model,
    Receipt,
    Redaction,
    Semantic,
    Token,
)
from satchel.model.values import ID_PREFIX, resolved
from satchel.runtime.scratch import ScratchMap

_ADMISSION, _ADOPTED = "writer_added", "adopted"
SPEAKING = ENDING | OWNING | {_ADMISSION, _ADOPTED}
"""The actions of config records that change who may sign."""


class BankKeys:
    """The keys that may sign for one bank.

    Args:
        bank: ID of the bank; None for a file without a bank.
        limits: The bounds.
    """

    def __init__(self, bank: str | None, limits: Limits) -> None:
        self.is_founded = False
        """Whether the file has the bank record."""

        self.heirs: dict[str, str] = {}
        """Owners' keys that replaced another, and the key that each replaced."""

        self.adopter: str | None = None
        """The key of the last adoption; anybody can sign one, so the reader decides."""

        self._bank = bank
        self._limits = limits
        self._keys = KeyState(frozenset(), frozenset())
        self._records: list[str] = []
        """IDs of the config records in effect, by their number."""

    def read_bank(self, bank: Bank) -> None:
        """Read the bank record; those of other banks have no effect."""
        if bank.id == self._bank:
            self.is_founded = True
            self._keys = self._keys._replace(owners=frozenset(bank.owner_keys))

    def read_config(self, model: Config, line: bytes) -> None:
        """Read a config record, in log order; an invalid one has no effect."""
        payload = model.payload
        if model.action not in SPEAKING or payload.get("bank") != self._bank:
            return
        by = _signers(PayloadType.CONFIG, line, self._limits)
        before, position = self._keys, len(self._records)
        self._records.append(model.id or "")
        decision = (model.action, payload)
        key = payload.get("key")
        if model.action in ENDING:
            self._keys = keys.keys_after(before, position, decision, by)
            if model.action == SUCCEEDED and self._keys.owners != before.owners:
                self.heirs[str(payload["new"])] = str(payload["old"])
        elif model.action in OWNING:
            self._keys = keys.owners_after(before, decision, by)
        elif not is_key(key):
            return
        elif model.action == _ADOPTED:
            if key in by:
                self._keys = KeyState(frozenset({key}), frozenset(), before.ended, before.forked)
                self.adopter = key
        elif before.has_enough(by) and before.last_end(key) is None:
            self._keys = before._replace(writers=before.writers | {key})

    def admits(self, key: str) -> bool:
        """Return whether heads signed by a key are valid."""
        return key in self._keys.owners | self._keys.writers

    def redaction_problem(
        self, redaction: Redaction, line: bytes, seq: int, at: Callable[[str], int | None]
    ) -> str | None:
        """Return why the signature of a logged redaction is invalid; None if it is valid.

        A redaction without a signature is covered by the head, as in earlier versions.

        Args:
            redaction: The record.
            line: Its canonical bytes.
            seq: Its log position.
            at: Returns the verified log position of a config record of the file; None if it is not
                verified.
        """
        if not redaction.signatures:
            return None
        valid = _signers(PayloadType.REDACTION, line, self._limits)
        if len(valid) != len(redaction.signatures):
            return "its signature does not match"
        for key in valid:
            end = self._keys.last_end(key)
            if end is None:
                continue
            position = at(self._records[end.place])
            if end.action == keys.REVOKED and (position is None or position < seq):
                return f"it is signed by {key}, which was revoked"
            if position is not None and position < seq:
                return f"it is signed by {key}, which had been replaced"
        return None


def false_signatures(kind: PayloadType, line: bytes, limits: Limits) -> list[str]:
    """Return the problems of the signatures inside a record; empty if all are valid."""
    try:
        return [f"{one.key} {one.problem}" for one in _checked(kind, line, limits) if not one.valid]
    except MalformedError as error:
        return [error.message]


def _signers(kind: PayloadType, line: bytes, limits: Limits) -> frozenset[str]:
    """Return the keys whose signatures of a record are valid."""
    try:
        return frozenset(one.key for one in _checked(kind, line, limits) if one.valid)
    except MalformedError:
        return frozenset()


def _checked(kind: PayloadType, line: bytes, limits: Limits) -> list[SignatureCheck]:
    value: Any = decode_canonical(line)
    signatures = parse_signatures(value.get("signatures", []), limits.signatures)
    # A token is also signed outside its record, so its signature covers the payload alone.
    covered = value["payload"] if kind is PayloadType.TOKEN else signed_part(value)
    return check(kind, covered, signatures)


WORTH_IT = 8 * 2**20
"""Bytes of a body from which parallel processes are faster."""

_MOST_WORKERS = 8
_MESSAGE_BYTES = 1 << 19
_AHEAD = 2  # batches waiting for each worker
_pack_row = struct.Struct(">32sBQ").pack


class Task(NamedTuple):
    """Consecutive entries of one section."""

    section: str
    batch: bytes
    """Lines with their ends."""

    number: int
    """Number of the first line, in the body."""

    limits: Limits


class BatchResult(NamedTuple):
    """The verification of a task's entries."""

    rows: bytes
    """For ``IdIndex.add_rows``: their IDs, and the IDs that they refer to."""

    refers: bool
    """Whether one refers to another entry."""

    roots: int
    """Entries without parents."""

    odd: list[int]
    """Positions of entries that need the slow path; the other members do not cover them."""


def verify_task(task: Task) -> BatchResult:
    """Verify a task's entries as far as the fast path can."""
    lines = lines_of(task.batch)
    verified = verify_entries(task.section, lines, task.batch, task.limits)
    first, roots = task.number, len(verified.proved)
    rows = [_pack_row(raw, Role.ENTRY, first + position) for _, raw, position in verified.proved]
    for model, _, position in verified.proved:
        if model.parent_ids:
            roots -= 1
            rows += [
                _pack_row(_raw(identity), Role.NEEDED, first + position)
                for identity in model.parent_ids
            ]
        if isinstance(model, Semantic):
            events = model.source_event_ids
            rows += [
                _pack_row(_raw(identity), Role.MENTIONED, first + position) for identity in events
            ]
    return BatchResult(b"".join(rows), len(rows) > len(verified.proved), roots, verified.odd)


def _raw(identity: str) -> bytes:
    return bytes.fromhex(identity[7:])


class TaskPool:
    """Distributes tasks to processes and returns results in the same order.

    Args:
        size: Size of the body in bytes.
    """

    def __init__(self, size: int) -> None:
        self._workers = _worker_count(size)
        self._pool: ProcessPoolExecutor | None = None
        self._pending: deque[tuple[Task, Future[BatchResult]]] = deque()
        if self._workers > 1:
            self._pool = ProcessPoolExecutor(
                self._workers,
                mp_context=multiprocessing.get_context("fork"),
                initializer=_start_worker,
            )

    @property
    def batch_bytes(self) -> int:
        """Best size of a task: worth a message to a process."""
        return BATCH_BYTES if self._pool is None else _MESSAGE_BYTES

    def add(self, task: Task) -> Iterator[tuple[Task, BatchResult]]:
        """Add a task, and yield the results that are ready if too many tasks are waiting."""
        if self._pool is None:
            yield task, verify_task(task)
            return
        try:
            future = self._pool.submit(verify_task, task)
        except BrokenProcessPool:
            yield from self.rest()
            yield task, verify_task(task)
            return
        self._pending.append((task, future))
        if len(self._pending) > self._workers * _AHEAD:
            yield self._next()

    def rest(self) -> Iterator[tuple[Task, BatchResult]]:
        """Yield the remaining results."""
        while self._pending:
            yield self._next()

    def close(self) -> None:
        """End the processes."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def _next(self) -> tuple[Task, BatchResult]:
        task, future = self._pending.popleft()
        try:
            return task, future.result()
        except BrokenProcessPool:  # a worker was killed; its work is done here
            return task, verify_task(task)


def _worker_count(size: int) -> int:
    alone = threading.active_count() == 1
    forks = "fork" in multiprocessing.get_all_start_methods()
    if size < WORTH_IT or not alone or not forks:
        return 1
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


def _start_worker() -> None:
    """Ignore interrupts, which the parent handles, and collect no cycles: records have none."""
    gc.disable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)


_MOST_BYTES = 32 * 4096
"""Maximum bytes of the IDs of one entry's redactions."""

_decode = msgspec.json.Decoder(resolved(Redaction)).decode


class _Form(NamedTuple):
    digest: str
    type: str
    number: int


class _Place(NamedTuple):
    seq: int
    type: str


class RedactionProblem(NamedTuple):
    """A problem of one redacted form."""

    outcome: Outcome
    message: str
    id: str
    number: int


class Redactions:
    """The redactions and redacted forms of one file, on disk if there are many."""

    def __init__(self) -> None:
        self._records = ScratchMap()
        self._of_entry = ScratchMap()
        self._forms = ScratchMap()
        self._places = ScratchMap()
        self._wanted = ScratchMap()

    def record(self, model: Redaction, line: bytes) -> None:
        """Add a redaction record."""
        identity = _raw_form(model.id)
        self._records.put(identity, line)
        self._of_entry.extend(_raw_form(model.entry), identity, most=_MOST_BYTES)
        self.want(model.id)
        self.want(model.entry)

    def want(self, identity: str | None) -> None:
        """Request the log position of a record, if its proof is in the file."""
        self._wanted.put(_raw_form(identity), b"")

    def names(self, identity: str) -> bool:
        """Return whether an entry has a redaction."""
        return _raw_form(identity) in self._of_entry

    def form(self, model: Model, line: bytes, number: int) -> bool:
        """Add a redacted form; return False if no redaction of the file has its hash."""
        identity, line_digest = _raw_form(model.id), digest(line)
        form = _Form(line_digest, str(model.__struct_config__.tag), number)
        self._forms.put(identity, msgspec.json.encode(form))
        return any(
            redaction.result == line_digest for redaction, _ in self._redactions_of(identity)
        )

    def proof(self, proof: LeafProof) -> None:
        """Add a valid audit path."""
        identity = _raw_form(proof.id)
        if identity in self._wanted:
            self._places.put(identity, msgspec.json.encode(_Place(proof.seq, proof.type)))

    def place(self, identity: str) -> int | None:
        """Return the verified log position of a record; None if it is not verified."""
        found = self._place(_raw_form(identity))
        return None if found is None else found.seq

    def judge(self, keys: BankKeys) -> Iterator[RedactionProblem]:
        """Yield the problems of the forms, after everything was added."""
        for identity in self._forms:
            form = msgspec.json.decode(self._forms.get(identity) or b"", type=resolved(_Form))
            wrong = self._problem(identity, form, keys)
            if wrong is not None:
                yield RedactionProblem(*wrong, f"blake3:{identity.hex()}", form.number)

    def _problem(self, identity: bytes, form: _Form, keys: BankKeys) -> tuple[Outcome, str] | None:
        logged = list[tuple[int, Redaction]]()
        for redaction, line in self._redactions_of(identity):
            position = self._place(_raw_form(redaction.id))
            if position is None:
                continue
            problem = keys.redaction_problem(redaction, line, position.seq, self.place)
            if problem is not None:
                return Outcome.TAMPERED, f"the redaction is not valid: {problem}"
            logged.append((position.seq, redaction))
        entry = self._place(identity)
        if entry is not None and entry.type != form.type:
            return (
                Outcome.TAMPERED,
                f"a redacted memory of type {form.type}, logged as {entry.type}",
            )
        if not logged or entry is None:
            return (
                Outcome.INCOMPLETE,
                "the file has no proof that the bank redacted this memory",
            )
        last = max(logged, key=lambda item: item[0])[1]
        if last.result != form.digest:
            return Outcome.TAMPERED, "differs from the last redaction that the bank logged"
        return None

    def _redactions_of(self, identity: bytes) -> Iterator[tuple[Redaction, bytes]]:
        ids = self._of_entry.get(identity) or b""
        for start in range(0, len(ids), 32):
            line = self._records.get(ids[start : start + 32])
            if line is not None:
                yield _decode(line), line

    def _place(self, identity: bytes) -> _Place | None:
        found = self._places.get(identity)
        return None if found is None else msgspec.json.decode(found, type=resolved(_Place))

    def close(self) -> None:
        """Release the space on disk."""
        for each in (self._records, self._of_entry, self._forms, self._places, self._wanted):
            each.close()


def _raw_form(identity: str | None) -> bytes:
    return bytes.fromhex((identity or "")[7:])


_MAX_FINDINGS = 100
_MAX_EXAMPLES = 3
_SIGNED: dict[type[Model], PayloadType] = {
    Config: PayloadType.CONFIG,
    Receipt: PayloadType.RECEIPT,
    Redaction: PayloadType.REDACTION,
    Token: PayloadType.TOKEN,
}
"""Records with signatures of their own (SEAL-3.36)."""


class BodyContents:
    """Reads every record of a body once and collects what steps 6, 7 and 8 need.

    Args:
        artifact: The opened file.
        limits: The bounds.
        head: The log head, if the file has one.
        lineage: Receives each entry and its parents; None if no chain is requested.
    """

    def __init__(
        self, artifact: Artifact, limits: Limits, head: Head | None, lineage: Lineage | None
    ) -> None:
        self.findings: list[VerificationFinding] = []
        self.more_findings = 0
        self.counts: dict[str, int] = {}
        self.root_hash = ""
        self.roots = 0
        """Entries without parents."""

        self.proofs = 0
        self.keys = BankKeys(artifact.statement.bank, limits)
        """The keys that may sign for the bank, according to the file."""

        self._artifact = artifact
        self._limits = limits
        self._head = head
        self._lineage = lineage
        self.redactions = Redactions()
        self.unproved_forms = list[str]()
        """IDs of redacted forms without a proof that their bank redacted them."""

        self.falsely_signed = 0
        """Number of records with an invalid signature."""

        self.falsely_signed_examples = list[str]()

        self._erased = ScratchMap()
        self._ids = IdIndex()
        self._proved = IdIndex()
        self._typed = IdIndex()
        self._proves_types = head is not None and "proofs" in artifact.statement.counts
        self._redacted_seen = False
        self._section = ""

    def read(self, body: Body) -> None:
        """Read everything; problems are collected, and only an invalid structure raises."""
        root, together = RootHash(), self._head is None and self._lineage is None
        with closing(TaskPool(body.size if together else 0)) as prover:
            for batch in body.batches(prover.batch_bytes):
                section, text, number, count = batch
                self.counts[section] = self.counts.get(section, 0) + count
                if section in COMPONENTS:
                    root.feed(section, text)
                if section in COMPONENTS and together:
                    for done in prover.add(Task(section, text, number, self._limits)):
                        self._add_batch(*done)
                else:
                    for done in prover.rest():
                        self._add_batch(*done)
                    self._verify_lines(section, batch.lines, number)
            for done in prover.rest():
                self._add_batch(*done)
        self.root_hash = root.finish()

    def _add_batch(self, task: Task, proof: BatchResult) -> None:
        """Add the verified entries of a batch, and verify the others on the slow path."""
        self._ids.add_rows(proof.rows, refers=proof.refers)
        self.roots += proof.roots
        if proof.odd:
            lines = lines_of(task.batch)
            self._section = task.section
            for place in proof.odd:
                self._verify_line(self._record, lines[place], task.number + place)

    def _verify_lines(self, section: str, lines: list[bytes], number: int) -> None:
        self._section, look = section, self._record
        if self._section in PROOF_SECTIONS:
            look = self._proof
        elif self._section not in TYPED_SECTIONS:
            look = self._free
        for place, line in enumerate(lines, number):
            self._verify_line(look, line, place)

    def _verify_line(self, look: Callable[[bytes, int], None], line: bytes, number: int) -> None:
        try:
            look(line, number)
        except SatchelError as error:
            self._note(Outcome.MALFORMED, error.message, number, field=error.field)

    def verify_redactions(self) -> None:
        """Add a problem for each redacted form that the log is not shown to allow."""
        for finding in self.redactions.judge(self.keys):
            if finding.outcome is Outcome.INCOMPLETE:
                self.unproved_forms.append(finding.id)
            self._note(finding.outcome, finding.message, finding.number, finding.id)

    def provenance(self) -> IdReport:
        """Compare the IDs with the parents."""
        for entry in self._erased:
            record, number = msgspec.json.decode(
                self._erased.get(entry) or b"", type=tuple[str, int]
            )
            if self.redactions.place(record) is not None:
                self._ids.add_raw(entry, Role.TOMBSTONE, number)
        return self._ids.finish()

    def unproved(self) -> IdReport:
        """Compare the entries with the proofs; a missing item is a proof."""
        return self._proved.finish()

    def unmatched(self) -> IdReport:
        """Compare the proofs with the records; a missing item is a record of that type."""
        return self._typed.finish()

    def close(self) -> None:
        """Release the space on disk."""
        self.redactions.close()
        self._erased.close()
        self._typed.close()
        self._ids.close()
        self._proved.close()

    @property
    def cycle_possible(self) -> bool:
        """Whether a cycle is possible despite the IDs: some entries are redacted forms."""
        return self._redacted_seen

    def _record(self, line: bytes, number: int) -> None:
        model = decode_record(line)
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
            if identity != ID_PREFIX + raw.hex():
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
            self.keys.read_bank(model)
        elif isinstance(model, Config):
            self.redactions.want(model.id)
            self.keys.read_config(model, line)
        elif isinstance(model, Blob) and not _is_blob_whole(model):
            wrong = "the digest does not match the data"
            self._note(Outcome.TAMPERED, wrong, number, model.id)

    def _free(self, line: bytes, number: int) -> None:
        value = decode_canonical(line)
        if not isinstance(value, dict):
            raise MalformedError("a record must be an object")
        identity = value.get("id")
        if isinstance(value.get("nonce"), str) and isinstance(identity, str):
            if not has_valid_id(Sealed(identity, str(value.get("type")), line)):
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
        elif not verify_audit_path(
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
            VerificationFinding(
                outcome=outcome,
                message=f"{self._section}: {message}",
                line=self._artifact.body.line_of(number),
                field=field,
                id=identity,
            )
        )


def _is_blob_whole(blob: Blob) -> bool:
    try:
        data = base64.b64decode(blob.data, validate=True)
    except (binascii.Error, ValueError):
        raise MalformedError("the data is not base64", field="data") from None
    if base64.b64encode(data).decode() != blob.data:
        raise MalformedError("the data is not canonical base64", field="data")
    return digest(data) == blob.digest


def _typed(kind: str, raw: bytes) -> bytes:
    """Return 32 bytes that represent an ID with a record type."""
    return blake3(kind.encode() + b"\0" + raw).digest()
