"""The memory that the sample artifacts hold."""

from typing import Any

from makers.common import TIME, make_record

Record = dict[str, Any]


def sections() -> dict[str, list[Record]]:
    """Return the sections of the sample in body order."""
    user = {"user": "u1", "agent": "travel"}
    asked = make_record(
        "episodic",
        "small asked",
        created_at=TIME,
        observation="Aiko asked for a seat by the window. \u7a93\u5074\u306e\u5e2d",
        actor="user",
        event_type="interaction",
        context={"turn": 1, "empty": {}, "none": None},
        scope=user,
    )
    booked = make_record(
        "episodic",
        "small booked",
        parent_ids=[asked["id"]],
        created_at="2025-03-04T05:06:08.250000Z",
        observation="Booked 12A for 99.50",
        actor="agent",
        event_type="outcome",
        metadata={"price": 99.5, "ratio": 9.7e-06, "seats": 1, "big": {"$int": "9007199254740993"}},
    )
    prefers = make_record(
        "semantic",
        "small prefers",
        parent_ids=[asked["id"], booked["id"]],
        created_at="2025-03-04T05:06:09.000000Z",
        subject="Aiko",
        predicate="prefers",
        object="window seats",
        confidence=0.9,
        source_event_ids=[asked["id"]],
        tags=["travel"],
    )
    aisle = make_record("semantic", "small aisle", text="Aiko prefers the aisle", salience=1e-7)
    plan = make_record(
        "working", "small plan", goals=["book a hotel"], scratch={"nights": 2, "\U0001f3e8": "x"}
    )
    how = make_record(
        "procedural",
        "small how",
        name="book",
        body='def book(seat):\n\treturn f"{seat}"\n',
        language="python",
        parameters=[{"name": "seat", "type": "text"}],
    )
    persona = make_record(
        "identity",
        "small persona",
        persona={"name": "Guide"},
        language="en",
        mood_next_version="calm",
    )
    return {
        "episodic": [asked, booked],
        "identity": [persona],
        "procedural": [how],
        "semantic": [aisle, prefers],
        "working": [plan],
        "status": [
            make_record(
                "status",
                "small status",
                target=aisle["id"],
                state="superseded",
                by=prefers["id"],
                at="2025-03-04T05:06:10.000000Z",
            )
        ],
        "sources": [make_record("source", "small source", provider="mem0", format="get_all")],
        "edges": [
            make_record(
                "edge",
                "small edge",
                kind="similar_to",
                source=prefers["id"],
                target=aisle["id"],
                weight=0.25,
            )
        ],
        "acme_notes": [{"note": "a section that this version does not know", "n": 1.5}],
    }


def tiny(*extra: Record) -> dict[str, list[Record]]:
    """Return one entry, and more semantic entries if given."""
    return {"semantic": [make_record("semantic", "tiny", text="tea, not coffee"), *extra]}


def nested(depth: int) -> Any:
    """Return objects in objects, ``depth`` of them."""
    value: Record = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def deep(depth: int) -> dict[str, list[Record]]:
    """Return one entry that is nested ``depth`` deep, itself counted."""
    return {"semantic": [make_record("semantic", "deep", data=nested(depth - 1))]}
