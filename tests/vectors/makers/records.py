"""Records of many types with the bytes that are hashed and the id that results."""

import json
from pathlib import Path
from typing import Any

from makers.common import (
    TIME,
    did_key,
    fixed_nonce,
    hash_text,
    jcs,
    make_record,
    record_id,
    signing_key,
    write_json,
)

DID = did_key(bytes(signing_key("first").verify_key))
ENTRY = "blake3:" + "11" * 32
OTHER = "blake3:" + "22" * 32


def entries() -> list[tuple[str, dict[str, Any]]]:
    """Return one entry of each component."""
    return [
        (
            "an episodic entry with a parent",
            make_record(
                "episodic",
                "episodic",
                parent_ids=[ENTRY],
                created_at=TIME,
                observation="The user asked for the train to Kyoto. \u4eac\u90fd",
                actor="user",
                event_type="interaction",
                context={"channel": "chat", "turn": 3},
            ),
        ),
        (
            "a semantic entry with a confidence",
            make_record(
                "semantic",
                "semantic",
                created_at=TIME,
                subject="user",
                predicate="prefers",
                object="window seats",
                confidence=0.97,
                source_event_ids=[ENTRY, OTHER],
                tags=["travel", "seat"],
            ),
        ),
        (
            "a semantic entry of plain text without a time",
            make_record("semantic", "plain", text="Pi is about 3.14159", salience=9.7e-06),
        ),
        (
            "a procedural entry",
            make_record(
                "procedural",
                "procedural",
                name="book_train",
                description="Books a train",
                parameters=["from", {"name": "to", "type": "text"}],
                body="def book(a, b):\n\treturn a + '\u2192' + b\n",
                language="python",
                preconditions=["logged in"],
            ),
        ),
        (
            "a working entry keeps empty things inside",
            make_record(
                "working",
                "working",
                goals=["reach Kyoto"],
                scratch={"notes": [], "map": {}, "x": None},
            ),
        ),
        (
            "an identity entry",
            make_record(
                "identity",
                "identity",
                persona={"name": "Aiko", "\U0001f600": "smiles", "\ufb33": "before"},
                preferences={"units": "metric"},
                communication_style="brief",
                language="ja",
                policies=["never guess"],
            ),
        ),
    ]


def others() -> list[tuple[str, dict[str, Any]]]:
    """Return records that are not entries."""
    owner = [DID]
    return [
        ("a bank", make_record("bank", "bank", created_at=TIME, name="aiko", owner_keys=owner)),
        (
            "a status",
            make_record("status", "status", target=ENTRY, state="superseded", by=OTHER, at=TIME),
        ),
        (
            "a source",
            make_record(
                "source",
                "source",
                provider="mem0",
                format="get_all",
                digest=OTHER,
                trust="imported",
            ),
        ),
        (
            "an edge",
            make_record("edge", "edge", kind="similar_to", source=ENTRY, target=OTHER, weight=1.0),
        ),
        (
            "a graph node",
            make_record("graph_node", "node", labels=["Person"], name="Aiko \u611b\u5b50"),
        ),
        (
            "a session event",
            make_record("session_event", "event", event="message", session="s1", text="hello"),
        ),
        (
            "a file version",
            make_record("file_version", "file", path="notes/a b.md", text="# A\r\n"),
        ),
        (
            "a redaction",
            make_record(
                "redaction",
                "redaction",
                entry=ENTRY,
                result=OTHER,
                fields=["/text"],
                by=DID,
                at=TIME,
            ),
        ),
        (
            "a configuration",
            make_record("config", "config", action="writer_added", payload={"key": DID}, at=TIME),
        ),
        ("an erasure", make_record("erasure", "erasure", entry=ENTRY, reason="asked", by=DID)),
        (
            "a receipt",
            make_record("receipt", "receipt", action="import", result={"read": 2, "lost": []}),
        ),
        ("a token", make_record("token", "token", payload={"audience": DID})),
        (
            "an embedding with a number of each notation",
            make_record(
                "embedding",
                "embedding",
                target=ENTRY,
                model="m",
                dimensions=5,
                vector=[0.5, -1.0, 9.7e-06, 1e-7, 0.1],
            ),
        ),
        ("a blob", make_record("blob", "blob", digest=ENTRY, data="aGVsbG8=", index=0)),
    ]


def unusual() -> list[tuple[str, dict[str, Any]]]:
    """Return records that a careless implementation gives another id."""
    return [
        (
            "members unknown to this version keep their place",
            make_record("semantic", "unknown", text="x", mood="calm", zz_next={"v": 2, "id": 1}),
        ),
        (
            "a foreign record is hashed with its null and empty members",
            make_record("semantic", "foreign", text="x", kind=None, tags=[], metadata={}),
        ),
        (
            "a nested id is content",
            make_record(
                "semantic", "nested", data={"id": ENTRY, "text": "x"}, metadata={"id": "7"}
            ),
        ),
        (
            "an integral float and the integer are one record",
            make_record("semantic", "float", text="x", salience=1.0, metadata={"n": -0.0}),
        ),
        (
            "carried values stay carried",
            make_record(
                "semantic",
                "carried",
                text="x",
                metadata={"big": {"$int": "18446744073709551616"}, "own": {"$$int": "5"}},
            ),
        ),
        (
            "the order and spelling of the input do not matter",
            make_record("semantic", "order", text="caf\u00e9/\u2028", b={"y": 1e-7, "x": [1, 2]}),
        ),
    ]


def wrong() -> list[dict[str, str]]:
    """Return records whose id does not recompute."""
    good = make_record("semantic", "wrong", text="caf\u00e9", kind=None)
    without_null = {key: item for key, item in good.items() if item is not None}
    with_own_id = {**good, "id": hash_text(jcs(good))}
    cases = {
        "the text was changed": {**good, "text": "cafe\u0301"},
        "the nonce was changed": {**good, "nonce": fixed_nonce("another")},
        "a null member was left out": without_null,
        "a member was added": {**good, "tags": ["x"]},
        "the id was hashed with itself": with_own_id,
        "the id is in upper case": {**good, "id": "blake3:" + good["id"][7:].upper()},
        "the id lacks its prefix": {**good, "id": good["id"][7:]},
    }
    return [{"name": name, "input": json.dumps(record)} for name, record in cases.items()]


def write(folder: Path) -> list[Path]:
    """Write ``records.json``."""
    cases = []
    for name, record in [*entries(), *others(), *unusual()]:
        body = {key: item for key, item in record.items() if key != "id"}
        cases.append(
            {
                "name": name,
                # Escaped, spaced and with the id last: a reader must parse, not compare texts.
                "input": json.dumps(record, ensure_ascii=True),
                "hashed": jcs(body).decode(),
                "canonical": jcs(record).decode(),
                "id": record_id(record),
            }
        )
    return [write_json(folder / "records.json", {"cases": cases, "wrong": wrong()})]
