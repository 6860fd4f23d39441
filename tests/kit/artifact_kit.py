"""Sealed files in memory, valid and invalid ones."""

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any

from satchel.artifact.body import RECORD_SECTIONS, Body, BodyBuilder, build
from satchel.artifact.encodings import Encoding, sign_statement, write_artifact
from satchel.crypto.canonical import DEFAULT_LIMITS, canonical
from satchel.crypto.keys import SigningKey
from satchel.crypto.log import Head, audit_path, record_leaf, root_of, sign_head
from satchel.crypto.sealed_records import Sealed, digest, seal
from satchel.model.records import Bank, Semantic

TIME = "2025-03-04T05:06:07.000000Z"
Part = Sealed | Mapping[str, Any] | bytes


def entry(text: str, *parents: Sealed | str, **members: Any) -> Sealed:
    """Return a sealed entry with its parents."""
    ids = tuple(parent if isinstance(parent, str) else parent.id for parent in parents)
    return seal(Semantic(text=text, parent_ids=ids, **members))


def line(part: Part) -> bytes:
    """Return the canonical bytes of a record or an object; bytes are returned unchanged."""
    if isinstance(part, bytes):
        return part
    return part.body if isinstance(part, Sealed) else canonical(dict(part))


def sections(*records: Sealed, **more: Iterable[Part]) -> dict[str, list[Part]]:
    """Return records in their sections, and more items in named sections."""
    found: dict[str, list[Part]] = {}
    for record in records:
        found.setdefault(RECORD_SECTIONS[record.type], []).append(record)
    for name, parts in more.items():
        found.setdefault(name, []).extend(parts)
    return found


def sealed_file(
    held: Mapping[str, Iterable[Part]],
    *keys: SigningKey,
    encoding: Encoding = Encoding.JSONL,
    claims: Mapping[str, Any] | None = None,
    **members: Any,
) -> bytes:
    """Return a file.

    Args:
        held: The items of each section.
        keys: The signing keys.
        encoding: The encoding of the file.
        claims: Members of the statement that replace the correct ones, unchecked.
        members: Further members of the statement.
    """
    sink = io.BytesIO()
    with closing(BodyBuilder()) as builder:
        for name, parts in held.items():
            for part in parts:
                builder.add(name, line(part))
        totals = builder.write(sink)
    size = sink.tell()
    statement = build(
        body_hash=totals.body_hash,
        root_hash=totals.root_hash,
        counts=totals.counts,
        extra={"created_at": TIME, **members},
    )
    statement |= dict(claims or {})
    body = Body(sink, 0, size, DEFAULT_LIMITS, first_line=None)
    out = io.BytesIO()
    write_artifact(out, encoding, body, statement, sign_statement(statement, keys))
    return out.getvalue()


class MemoryLog:
    """A bank's log in memory."""

    def __init__(self, owner: SigningKey) -> None:
        self.owner = owner
        self.bank = seal(Bank(owner_keys=(owner.did,), created_at=TIME))
        self.rows: list[tuple[str, str]] = []
        self.append(self.bank)

    def append(self, *records: Sealed) -> None:
        """Append records."""
        self.rows += [(record.type, record.id) for record in records]

    def leaves(self, size: int | None = None) -> list[bytes]:
        """Return the leaf hashes."""
        return [
            record_leaf(self.bank.id, seq, kind, identity, TIME)
            for seq, (kind, identity) in enumerate(self.rows[:size])
        ]

    def head(
        self, size: int | None = None, epoch: int = 0, key: SigningKey | None = None
    ) -> dict[str, Any]:
        """Return the signed head of the first ``size`` records."""
        signer, rows = key or self.owner, self.rows[:size]
        counts: dict[str, int] = {}
        for kind, _ in rows:
            counts[kind] = counts.get(kind, 0) + 1
        head = Head(
            v=1,
            bank=self.bank.id,
            epoch=epoch,
            size=len(rows),
            root="blake3:" + root_of(self.leaves(size)).hex(),
            counts=counts,
            at=TIME,
            key=signer.did,
        )
        return sign_head(head, signer)

    def logged(self, size: int | None = None, **head: Any) -> dict[str, Any]:
        """Return the members of a statement that name the bank and its head."""
        return {"bank": self.bank.id, "head": self.head(size, **head)}

    def proof(self, record: Sealed | str, size: int | None = None) -> dict[str, Any]:
        """Return the inclusion proof of a record."""
        identity = record if isinstance(record, str) else record.id
        seq = next(i for i, row in enumerate(self.rows) if row[1] == identity)
        path = [part.hex() for part in audit_path(self.leaves(size), seq)]
        kind = self.rows[seq][0]
        return {"at": TIME, "id": identity, "path": path, "seq": seq, "type": kind}


def redacted(record: Sealed, **members: Any) -> dict[str, Any]:
    """Return the redacted form of an entry: without its nonce, with other values."""
    return {name: part for name, part in record.value.items() if name != "nonce"} | members


def hash_of(form: Mapping[str, Any]) -> str:
    """Return H(JCS(form))."""
    return digest(canonical(dict(form)))


def signers(count: int) -> Sequence[SigningKey]:
    """Return keys that are the same in every run."""
    return [SigningKey.from_seed(bytes([100 + number]) * 32) for number in range(count)]
