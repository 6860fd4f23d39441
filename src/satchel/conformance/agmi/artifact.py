"""Memory in one sealed file, verified as a whole at each read."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
from agmi.adapters.base import MemoryAdapter, Record

from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.artifact.verification import Outcome, TrustPolicy
from satchel.artifact.verifier import VerificationRequest, verify_artifact
from satchel.crypto.key_files import StatementHistory
from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Head, LeafProof, audit_path, record_leaf, root_of, sign_head
from satchel.crypto.sealed_records import Sealed, open_record, seal
from satchel.errors import SatchelError, VerificationError
from satchel.model.records import Bank, Semantic
from satchel.model.values import ID_PREFIX, Scope, now, resolved
from satchel.runtime.files import atomic_write

_NAMES = ("first", "other")
_ENTRY = b'"text":"'


class SatchelArtifact(MemoryAdapter):  # type: ignore[misc]  # agmi has no types
    """Two ``.pam.jsonl`` files: the attacked one, and that of another bank.

    Each contains the log positions of its records. A witness apart from the files records what was
    verified, so an older file is refused.
    """

    name = "satchel-artifact"
    detection_point = "read"
    supports_replay = True
    supports_metadata = True
    supports_snapshot = True

    def setup(self) -> None:
        """Start with an empty folder and a new key."""
        self._root = Path(tempfile.mkdtemp(prefix="satchel-agmi-"))
        self._folder = self._root / "store"
        self._folder.mkdir()
        self._owner = SigningKey.generate()
        self._count = 0
        self._banks = [
            seal(Bank(owner_keys=(self._owner.did,), created_at=now(), name=name))
            for name in _NAMES
        ]

    def teardown(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._root)

    def seed(self, n: int) -> None:
        """Write entries, one file after another."""
        self._write(0, n)

    def seed_other(self, n: int) -> None:
        """Write entries to the other bank."""
        self._write(1, n)

    def append_genuine(self) -> None:
        """Write another entry."""
        self._write(0, 1)

    def reload(self) -> None:
        """Do nothing: no state is held between reads."""

    def verify(self) -> bool:
        """Read the file; return whether it was accepted."""
        try:
            return len(self._read(0)[1]) > 1
        except SatchelError as error:
            self.verify_detail = str(error)
            return False

    # -- the attacker ----------------------------------------------------------------------

    def read_all_raw(self) -> list[Record]:
        """Read the entries of the first file as they are on disk."""
        return self._records(0)

    def read_other_raw(self) -> list[Record]:
        """Read the entries of the other file."""
        return self._records(1)

    def write_raw(self, record: Record) -> None:
        """Write an entry at a position, replacing any other."""
        lines = self._lines(0)
        places = _entries(lines)
        if record.seq < len(places):
            lines[places[record.seq]] = record.fields["line"]
        else:
            lines.insert(places[-1] + 1, record.fields["line"])
        self._write_lines(lines)

    def delete_raw(self, seq: int) -> None:
        """Delete an entry's line."""
        lines = self._lines(0)
        del lines[_entries(lines)[seq]]
        self._write_lines(lines)

    def mutate_payload(self, record: Record) -> Record:
        """Change only the text of an entry."""
        record.fields["line"] = record.fields["line"].replace(b"memory", b"MEMORY")
        return record

    def forge_record(self, template: Record) -> Record:
        """Return an entry with a valid ID at the next position."""
        forged = seal(Semantic(text="a forged memory", scope=Scope(user="ada")))
        return Record(seq=template.seq + 1, fields={**template.fields, "line": forged.body})

    def identity_of(self, record: Record) -> str:
        """Return the file and position of an entry."""
        return f"{record.fields['file']}/{record.seq}"

    def payload_of(self, record: Record) -> str:
        """Return the text of an entry."""
        return str(msgspec.json.decode(record.fields["line"])["text"])

    def owner_of(self, record: Record) -> str | None:
        """Return the file of an entry."""
        return str(record.fields["file"])

    def replay_onto(self, victim_seq: int, donor: Record) -> None:
        """Replace an entry's line by that of another genuine entry."""
        self.write_raw(Record(seq=victim_seq, fields=dict(donor.fields)))

    def read_meta(self, seq: int) -> dict[str, Any]:
        """Read the owner of an entry."""
        lines = self._lines(0)
        return {"scope": msgspec.json.decode(lines[_entries(lines)[seq]])["scope"]}

    def write_meta(self, seq: int, meta: dict[str, Any]) -> None:
        """Change the owner of an entry."""
        lines = self._lines(0)
        place = _entries(lines)[seq]
        user = f"{meta['scope']['user']}, {meta['agmi_meta_tampered']}".encode()
        lines[place] = lines[place].replace(b'"user":"ada"', b'"user":"%b"' % user)
        self._write_lines(lines)

    def snapshot_store(self) -> object:
        """Copy the folder."""
        return self._copy_store(self._folder)

    def restore_store(self, token: object) -> None:
        """Restore the copy."""
        self._restore_store(token, self._folder)

    # -- both ------------------------------------------------------------------------------

    def _path(self, which: int) -> Path:
        return self._folder / f"{_NAMES[which]}.pam.jsonl"

    def _lines(self, which: int) -> list[bytes]:
        return self._path(which).read_bytes().split(b"\n")

    def _write_lines(self, lines: list[bytes]) -> None:
        self._path(0).write_bytes(b"\n".join(lines))

    def _records(self, which: int) -> list[Record]:
        lines = self._lines(which)
        return [
            Record(seq=seq, fields={"line": lines[place], "file": _NAMES[which]})
            for seq, place in enumerate(_entries(lines))
        ]

    def _read(self, which: int) -> tuple[list[Sealed], list[LeafProof]]:
        """Return the records of a file and their log positions, after verification of all of it."""
        policy = TrustPolicy(
            keys=frozenset([self._owner.did]),
            seen=StatementHistory(self._root / "seen" / "seen.jsonl"),
        )
        report = verify_artifact(
            self._path(which), policy, VerificationRequest(deep=True, require_fresh=True)
        )
        if report.outcome is not Outcome.GOOD:
            reasons = "; ".join(finding.message for finding in report.findings) or report.outcome
            raise VerificationError(f"{report.outcome}: {reasons}")
        records, proofs = list[Sealed](), list[LeafProof]()
        for line in self._lines(which)[1:-2]:
            value = msgspec.json.decode(line)
            if "nonce" in value:
                records.append(open_record(line)[0])
            elif "path" in value:
                proofs.append(msgspec.convert(value, resolved(LeafProof)))
        return records, sorted(proofs, key=lambda proof: proof.seq)

    def _write(self, which: int, count: int) -> None:
        for _ in range(count):
            held: tuple[list[Sealed], list[LeafProof]] = ([], [])
            if self._path(which).exists():
                held = self._read(which)
            self._count += 1
            text = f"memory {self._count} of bank {which}"
            self._publish(which, *held, seal(Semantic(text=text, scope=Scope(user="ada"))))
            self._read(which)  # an older file is refused from now on

    def _publish(
        self, which: int, records: list[Sealed], proofs: list[LeafProof], new: Sealed
    ) -> None:
        """Write the file again, with one more record."""
        bank, at = self._banks[which], now()
        rows = [(proof.type, proof.id, proof.at) for proof in proofs] or [("bank", bank.id, at)]
        rows.append((new.type, new.id, at))
        leaves = [record_leaf(bank.id, seq, *row) for seq, row in enumerate(rows)]
        head = Head(
            v=1,
            bank=bank.id,
            epoch=0,
            size=len(rows),
            root=ID_PREFIX + root_of(leaves).hex(),
            counts=dict(Counter(kind for kind, _, _ in rows)),
            at=at,
            key=self._owner.did,
        )
        header = Header(extra={"bank": bank.id, "head": sign_head(head, self._owner)})
        with ArtifactBuilder() as builder:
            for record in [*(records or [bank]), new]:
                builder.add(record)
            for seq, (kind, identity, arrived) in enumerate(rows):
                path = [part.hex() for part in audit_path(leaves, seq)]
                proof = {"at": arrived, "id": identity, "path": path, "seq": seq, "type": kind}
                builder.add_item("proofs", proof)
            body, totals = builder.finish()
            statement = header.statement(totals)
            signatures = sign_statement(statement, [self._owner])
            with atomic_write(self._path(which), overwrite=True) as sink:
                write_artifact(sink, Encoding.JSONL, body, statement, signatures)


def _entries(lines: list[bytes]) -> list[int]:
    """Return the line numbers of entries in a file."""
    return [place for place, line in enumerate(lines) if _ENTRY in line]
