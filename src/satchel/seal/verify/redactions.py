"""Redacted forms of a file, and whether the log of the bank allows each of them.

The id of a form is not that of its bytes, so only the bank can say that it may stand there: by a
``redaction`` record that is proved to be in its log, under a head that the bank's keys signed.
Source: docs/spec/7-disclosure-redaction-erasure.md, 7.2.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from satchel.disk.databases.keyed import Keyed
from satchel.memory.records import Model, Redaction
from satchel.seal.log import LeafProof
from satchel.seal.records import digest
from satchel.seal.verify.authority import BankKeys
from satchel.seal.verify.verification import Outcome
from satchel.type_info import resolved

_MOST_BYTES = 32 * 4096
"""Of the ids of the redactions of one entry."""

_decode = msgspec.json.Decoder(resolved(Redaction)).decode


class _Form(NamedTuple):
    digest: str
    type: str
    number: int


class _Place(NamedTuple):
    seq: int
    type: str


class Judgement(NamedTuple):
    """What is wrong with one redacted form."""

    outcome: Outcome
    message: str
    id: str
    number: int


class Redactions:
    """The redactions and redacted forms of one file; kept on disk where there are many."""

    def __init__(self) -> None:
        self._records = Keyed()
        self._of_entry = Keyed()
        self._forms = Keyed()
        self._places = Keyed()
        self._wanted = Keyed()

    def record(self, model: Redaction, line: bytes) -> None:
        """Take a redaction record."""
        identity = _raw(model.id)
        self._records.put(identity, line)
        self._of_entry.extend(_raw(model.entry), identity, most=_MOST_BYTES)
        self.want(model.id)
        self.want(model.entry)

    def want(self, identity: str | None) -> None:
        """Remember the place of a record, when its proof is there."""
        self._wanted.put(_raw(identity), b"")

    def names(self, identity: str) -> bool:
        """Tell whether a redaction of an entry was taken."""
        return _raw(identity) in self._of_entry

    def form(self, model: Model, line: bytes, number: int) -> bool:
        """Take a redacted form; false where no redaction of the file is of these bytes."""
        identity, found = _raw(model.id), digest(line)
        form = _Form(found, str(model.__struct_config__.tag), number)
        self._forms.put(identity, msgspec.json.encode(form))
        return any(redaction.result == found for redaction, _ in self._said(identity))

    def proof(self, proof: LeafProof) -> None:
        """Take an audit path that leads to the head."""
        identity = _raw(proof.id)
        if identity in self._wanted:
            self._places.put(identity, msgspec.json.encode(_Place(proof.seq, proof.type)))

    def place(self, identity: str) -> int | None:
        """Return the proved place of a record in the log; None for one that is not proved."""
        found = self._place(_raw(identity))
        return None if found is None else found.seq

    def judge(self, keys: BankKeys) -> Iterator[Judgement]:
        """Yield what is wrong with the forms, once everything was taken."""
        for identity in self._forms:
            form = msgspec.json.decode(self._forms.get(identity) or b"", type=resolved(_Form))
            wrong = self._wrong(identity, form, keys)
            if wrong is not None:
                yield Judgement(*wrong, f"blake3:{identity.hex()}", form.number)

    def _wrong(self, identity: bytes, form: _Form, keys: BankKeys) -> tuple[Outcome, str] | None:
        logged = list[tuple[int, Redaction]]()
        for redaction, line in self._said(identity):
            place = self._place(_raw(redaction.id))
            if place is None:
                continue
            problem = keys.problem_of(redaction, line, place.seq, self.place)
            if problem is not None:
                return Outcome.TAMPERED, f"the redaction is not valid: {problem}"
            logged.append((place.seq, redaction))
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
        last = max(logged, key=lambda one: one[0])[1]
        if last.result != form.digest:
            return Outcome.TAMPERED, "differs from the last redaction that the bank logged"
        return None

    def _said(self, identity: bytes) -> Iterator[tuple[Redaction, bytes]]:
        ids = self._of_entry.get(identity) or b""
        for start in range(0, len(ids), 32):
            line = self._records.get(ids[start : start + 32])
            if line is not None:
                yield _decode(line), line

    def _place(self, identity: bytes) -> _Place | None:
        found = self._places.get(identity)
        return None if found is None else msgspec.json.decode(found, type=resolved(_Place))

    def close(self) -> None:
        """Give the space on disk back."""
        for each in (self._records, self._of_entry, self._forms, self._places, self._wanted):
            each.close()


def _raw(identity: str | None) -> bytes:
    return bytes.fromhex((identity or "")[7:])
