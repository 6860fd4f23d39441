"""Writes the samples of this folder; run it again and no byte changes.

The good ones are signed by the key of seed 00..1f or unsigned; each bad one has one thing wrong.
"""

import json
from pathlib import Path
from typing import Any

import cbor2

from satchel.artifact.pam_sdk.layout import root_hash
from satchel.artifact.pam_sdk.writer import dump_cbor, dump_json, make_document, make_entry
from satchel.crypto.keys import SigningKey

HERE = Path(__file__).parent
AT = "2026-04-0{}T09:30:00+00:00"
KEY = SigningKey.from_seed(bytes(range(32)))
ENVELOPE: dict[str, Any] = {
    "created_at": "2026-04-09T12:00:00.250000+00:00",
    "source_agent": {
        "name": "garden-bot",
        "model_family": "model-y",
        "runtime": "python",
        "version": "2.1",
    },
    "metadata": {"project": "garden", "weight": 1.0},
    "capability_tokens": [{"id": "t-1", "permissions": ["read"]}],
}


def garden() -> dict[str, Any]:
    """Return a file with all five components, links between them and awkward values."""
    watered = make_entry(
        "episodic",
        {
            "created_at": AT.format(1),
            "timestamp": "2026-04-01T09:00:00Z",
            "actor": "user",
            "observation": "Tomaten brauchen abends Wasser \u2013 \u6c34\u3084\u308a \U0001f345",
            "salience": 1.0,
            "event_type": "interaction",
            "tags": ["garden", "water"],
        },
    )
    frost = make_entry(
        "episodic",
        {
            "created_at": AT.format(2),
            "timestamp": "last Tuesday, early",
            "actor": "tool:weather",
            "observation": "Frost warning for the night",
            "event_type": "outcome",
        },
    )
    fact = make_entry(
        "semantic",
        {
            "created_at": AT.format(3),
            "subject": "tomatoes",
            "predicate": "need",
            "object": "water",
            "confidence": 0.95,
            "parent_ids": [watered["id"]],
            "source_event_ids": [watered["id"]],
        },
    )
    plan = make_entry(
        "semantic",
        {
            "created_at": AT.format(4),
            "object": "Bring the pots inside",
            "parent_ids": [fact["id"], frost["id"]],
        },
    )
    skill = make_entry(
        "procedural",
        {
            "created_at": AT.format(5),
            "name": "water_beds",
            "description": "Evening round",
            "parameters": [{"name": "litres", "default": 2.0, "max": 2**70, "tiny": 1e-7}],
            "body": "1. fill can\n2. beds 1-4",
            "language": "shell",
            "preconditions": ["no rain"],
            "usage_count": 12,
            "last_used": "2026-03-31T20:00:00Z",
            "parent_ids": [plan["id"]],
        },
    )
    task = make_entry(
        "working",
        {
            "created_at": "the day after",
            "goals": ["Save the tomatoes"],
            "subgoals": [{"goal": "fetch pots", "status": "open"}],
            "scratch": "shed key?",
            "pending_actions": [{"action": "ask", "args": {"of": None, "deep": [[1, 1.0, -0.0]]}}],
            "parent_ids": [plan["id"]],
        },
    )
    self_view = make_entry(
        "identity",
        {
            "created_at": AT.format(7),
            "preferences": {"style": "terse", "$unit": "litre", "limit": None},
            "persona": "Gardener",
            "language": "",
            "policies": ["Never water at noon"],
            "custom_instructions": "Answer in German",
        },
    )
    components = {
        "episodic": [watered, frost],
        "semantic": [plan, fact],
        "procedural": [skill],
        "working": [task],
        "identity": [self_view],
    }
    return make_document(components, ENVELOPE, KEY)


def one(**members: Any) -> dict[str, Any]:
    """Return an unsigned file with one semantic entry."""
    entry = {"created_at": AT.format(1), "subject": "a", "predicate": "b", "object": "c"}
    return make_document({"semantic": [{**entry, **members}]}, {**ENVELOPE, "metadata": {}})


def bad() -> dict[str, bytes]:
    """Return the files that must be refused, by name."""
    plain = dump_json(one())
    squatted = one()
    squatted["semantic"][0]["object"] = "something else"
    deep: Any = []
    for _ in range(70):
        deep = [deep]
    mixture = {**one(), "statement": {}}
    no_tags = one()
    del no_tags["semantic"][0]["tags"]
    nobody = one()
    nobody["semantic"][0]["id"] = ""
    again = one()
    again["semantic"] *= 2
    again["root_hash"] = root_hash([again["semantic"][0]["id"]])
    byte_key = one()
    byte_key["metadata"] = {b"style": "rude", "style": "polite"}
    return {
        "bad-byte-key.pam": cbor2.dumps(byte_key),
        "bad-cut.pam": plain[: len(plain) // 2],
        "bad-deep.pam": dump_json({**one(), "metadata": {"deep": deep}}),
        "bad-empty-id.pam": dump_json(nobody),
        "bad-id-twice.pam": dump_json(again),
        "bad-infinity.pam": plain.replace(b'"metadata": {}', b'"metadata": {"x": 1e400}'),
        "bad-integer-for-float.pam": plain.replace(b'"confidence": 0.5', b'"confidence": 1'),
        "bad-key-twice.pam": plain.replace(b'"subject": "a"', b'"subject": "z", "subject": "a"'),
        "bad-missing-member.pam": dump_json(no_tags),
        "bad-mixture.pam": dump_json(mixture),
        "bad-squatted-id.pam": dump_json(squatted),
        "bad-surrogate.pam": plain.replace(b'"subject": "a"', b'"subject": "\\ud800"'),
        "bad-tag.pam": cbor2.dumps({**one(), "metadata": {"x": cbor2.CBORTag(28, [])}}),
        "bad-trailing.pam": plain + b" {}",
        "bad-trailing.pam.cbor": dump_cbor(one()) + b"\x00",
    }


def good() -> dict[str, bytes]:
    """Return the files that must be read, by name."""
    small = garden()
    del small["procedural"][0]["parameters"][0]["max"]  # CBOR has no such integer without a tag
    small = make_document(
        {name: small[name] for name in ("episodic", "semantic", "procedural", "identity")},
        ENVELOPE,
        KEY,
    )
    reordered = dict(sorted(one().items(), key=lambda member: len(member[0])))
    return {
        "good-cbor-inside.pam": dump_cbor(one(tags=["first byte A0 to BF"])),
        "good-compact.pam": json.dumps(
            garden(), ensure_ascii=False, separators=(",", ":")
        ).encode(),
        "good-dangling-parent.pam": dump_json(one(parent_ids=[root_hash(()), root_hash(())])),
        "good-other-order.pam": dump_json({"pam_version": "1.0", **reordered}),
        "good-signed.pam": dump_json(garden()),
        "good-signed.pam.cbor": dump_cbor(small),
    }


if __name__ == "__main__":
    for name, data in {**good(), **bad()}.items():
        (HERE / name).write_bytes(data)
