"""Writes the samples of the three encodings of an artifact; run it again and nothing changes.

``python tests/data/formats/make.py`` writes ``good-*`` and ``bad-*`` into ``pam``, ``pam_jsonl``
and ``pam_cbor``. Every name, key and text is invented; the signing key is the seed 00 01 ... 1f.
"""

import gzip
import io
from pathlib import Path
from typing import Any

from satchel.artifact.body import SourceAgent
from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, digest, seal, seeded_nonces
from satchel.model.records import (
    Bank,
    Blob,
    Config,
    Edge,
    Embedding,
    Episodic,
    FileVersion,
    GraphNode,
    Identity,
    Model,
    Procedural,
    Receipt,
    Semantic,
    SessionEvent,
    Source,
    Status,
    Token,
    Working,
)
from satchel.model.values import Entity, Evidence, Origin, Scope, TrustClass

HERE = Path(__file__).parent
FOLDERS = {Encoding.JSON: "pam", Encoding.JSONL: "pam_jsonl", Encoding.CBOR: "pam_cbor"}
KEY = SigningKey.from_seed(bytes(range(32)))
THEN = "2026-05-04T03:02:01.000001Z"


def small() -> tuple[list[Sealed], dict[str, Any]]:
    """Two entries, one drawn from the other."""
    nonces = seeded_nonces(b"small".ljust(32))
    seen = seal(
        Episodic(
            created_at=THEN,
            observation="Rosa asked for the meeting notes in Portuguese.",
            actor="user:rosa",
            event_type="interaction",
        ),
        nonces=nonces,
    )
    fact = seal(
        Semantic(
            parent_ids=(seen.id,),
            created_at=THEN,
            text="Rosa prefers notes in Portuguese.",
            tags=("language", "notes"),
            confidence=0.75,
            source_event_ids=(seen.id,),
            metadata={"memory": "a member that another product uses", "n": [1, 2.5, -1e-7, None]},
        ),
        nonces=nonces,
    )
    return [seen, fact], {}


def everything() -> tuple[list[Sealed], dict[str, Any]]:
    """A record of nearly every type, texts that are hard to carry, and unknown members."""
    nonces = seeded_nonces(b"everything".ljust(32))

    def sealed(record: Model, **unknown: Any) -> Sealed:
        return seal(record, nonces=nonces, unknown=unknown or None)

    fact = sealed(
        Semantic(
            text="京都の夏は暑い。 👩🏽\u200d🚀 \u202eback\u202c \x00 e\u0301",
            subject="Kyoto",
            predicate="is",
            object="hot",
            salience=0.5,
            entities=(Entity(name="Kyoto", entity_type="city", aliases=("京都",)),),
            scope=Scope(user="kenta", namespace=("travel", "asia")),
            sources=(Evidence(kind="message", id="m-1"),),
            origin=Origin(
                provider="elsewhere",
                id="42",
                as_written={"big": {"$int": "18446744073709551616"}},
                trust=TrustClass.EXTERNAL,
            ),
            valid_from=THEN,
            expires_at="2030-01-01T00:00:00.000000Z",
        ),
        future_member={"kept": [True, None, ""]},
    )
    records = [
        sealed(Bank(owner_keys=(KEY.did,), created_at=THEN, name="sample")),
        fact,
        sealed(Identity(persona={"tone": "dry"}, policies=("Never guess.",), language="en")),
        sealed(Procedural(name="restart", body="systemctl restart otter", preconditions=("root",))),
        sealed(Working(goals=("ship",), scratch="", pending_actions=({"call": "deploy"},))),
        sealed(Status(target=fact.id, state="superseded", reason="newer")),
        sealed(Source(at=THEN, provider="elsewhere", format="elsewhere", container={"page": 1})),
        sealed(GraphNode(name="Kyoto", labels=("City",))),
        sealed(Edge(source=fact.id, target="n-1", kind="mentions", weight=0.25)),
        sealed(SessionEvent(event="message", role="user", content=[{"text": "hi"}])),
        sealed(FileVersion(path="notes/a.md", text="# A\r\n", action="created")),
        sealed(Config(action="writer.added", payload={"key": KEY.did})),
        sealed(Embedding(target=fact.id, model="toy", dimensions=2, vector=(0.5, -0.25))),
        sealed(Blob(digest=digest(b"hi"), data="aGk=")),
        sealed(Receipt(action="import", result={"read": 1})),
        sealed(Token(payload={"scope": "*"})),
    ]
    return records, {"workspace": {"open": ["notes/a.md"]}, "zz_future": {"any": "object"}}


def artifact(encoding: Encoding, made: tuple[list[Sealed], dict[str, Any]]) -> bytes:
    """Return a signed artifact."""
    records, items = made
    sink = io.BytesIO()
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        for section, value in items.items():
            builder.add_item(section, value)
        body, totals = builder.finish()
        header = Header(
            source_agent=SourceAgent(name="sample", version="1"),
            extra={"created_at": THEN, "future_statement_member": {"kept": True}},
        )
        statement = header.statement(totals)
        write_artifact(sink, encoding, body, statement, sign_statement(statement, [KEY]))
    return sink.getvalue()


def bad(encoding: Encoding, good: bytes) -> dict[str, bytes]:
    """Return what must be refused."""
    made = {
        "cut": good[: len(good) // 2],
        "trailing": good + b" x",
        "empty": b"",
        "not-utf8": good.replace(b"Rosa asked", b"Rosa \xff\xfe asked", 1),
        "other-id": good.replace(b"Rosa asked", b"Rosa begs:", 1),
    }
    if encoding is not Encoding.CBOR:
        fact = b'"confidence":0.75'
        made |= {
            "duplicate-key": good.replace(fact, fact + b"," + fact, 1),
            "huge-integer": good.replace(fact, b'"confidence":9007199254740992', 1),
            "nan": good.replace(fact, b'"confidence":NaN', 1),
            "lone-surrogate": good.replace(b"Rosa asked", b"Rosa \\ud800", 1),
            "deep": good.replace(fact, b'"confidence":' + b"[" * 70 + b"]" * 70, 1),
            "unknown-critical": good.replace(b'"body_hash"', b'"critical":["x"],"body_hash"', 1),
        }
    return made


def main() -> None:
    """Write everything."""
    for encoding, folder in FOLDERS.items():
        (HERE / folder).mkdir(exist_ok=True)
        for name, made in (("small", small()), ("everything", everything())):
            data = artifact(encoding, made)
            (HERE / folder / f"good-{name}.{encoding}").write_bytes(data)
        data = artifact(encoding, small())
        (HERE / folder / f"good-packed.{encoding}.gz").write_bytes(gzip.compress(data, mtime=0))
        for name, broken in bad(encoding, data).items():
            (HERE / folder / f"bad-{name}.{encoding}").write_bytes(broken)


if __name__ == "__main__":
    main()
