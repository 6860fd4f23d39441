"""The inputs of the benchmarks, the same in every run."""

import hashlib
import json
import random
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from satchel.artifact.encodings import (
    ArtifactBuilder,
    Encoding,
    Header,
    sign_statement,
    write_artifact,
)
from satchel.crypto.keys import SigningKey
from satchel.crypto.sealed_records import Sealed, seal, seeded_nonces
from satchel.model.records import Entry, Episodic, Identity, Procedural, Semantic, Working
from satchel.model.values import Origin, Scope, TrustClass, format_time
from satchel.runtime.files import atomic_write

KEY = SigningKey.from_seed(hashlib.sha256(b"satchel benchmarks").digest())
"""Signs every artifact that is measured."""

_START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
_USERS = ("ada", "bela", "chidi", "dina", "emi", "田中", "farid")
_TOPICS = (
    "prefers metric units and lives near the harbour in Accra",
    "asked for the weekly report as a table, not as prose",
    "runs the deployment from the staging branch every Thursday",
    "is allergic to peanuts and carries an adrenaline pen",
    "keeps the meeting notes in one shared folder, newest first",
    "wants answers in Japanese when the question is in Japanese",
    "東京オフィスの会議は毎週火曜日の午前十時に始まります",
    "先月から新しいプロジェクトの設計を担当しています",
    "reviewed the incident of last Friday; the cause was a full disk",
    "uses two monitors, a split keyboard and a dark theme",
)
_KINDS = ("preference", "fact", "plan", "routine", "incident")
_PROFILE = (42, 35, 20, 25, 5)


def mem0_records(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Yield memories as ``get_all()`` shows them.

    Several users, nested metadata, Japanese text, an expiry on one in nine.
    """
    chance = random.Random(seed)  # noqa: S311 - the same data in every run is the point
    for index in range(count):
        text = f"{chance.choice(_TOPICS)} ({index}); also {chance.choice(_TOPICS)}."
        created = _START + timedelta(seconds=61 * index, microseconds=chance.randrange(1, 10**6))
        changed = created + timedelta(seconds=chance.randrange(90_000), microseconds=1)
        row = {
            "id": str(uuid.UUID(int=chance.getrandbits(128), version=4)),
            "memory": text,
            "hash": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
            "metadata": _metadata(chance, index),
            "created_at": created.isoformat(),
            "updated_at": changed.isoformat(),
            "user_id": chance.choice(_USERS),
            "role": "user",
        }
        if index % 4 == 1:
            row |= {"agent_id": "ops-bot", "run_id": f"run-{index // 50}"}
        if index % 9 == 4:
            row["expiration_date"] = (created + timedelta(days=30)).date().isoformat()
        yield row


def _metadata(chance: random.Random, index: int) -> dict[str, Any] | None:
    if index % 3 == 2:
        return None
    return {
        "category": chance.choice(_KINDS),
        "confidence": chance.randrange(100) / 100,
        "nested": {"source": {"channel": "チャット", "turn": index}, "tags": ["home", None, True]},
    }


def write_mem0(path: Path, count: int, *, bare_list: bool = False) -> Path:
    """Write a saved ``get_all()`` of ``count`` memories, one a line, and return its path."""
    before, after = ("[\n", "\n]\n") if bare_list else ('{"results": [\n', "\n]}\n")
    with path.open("w", encoding="utf-8") as sink:
        sink.write(before)
        for index, row in enumerate(mem0_records(count)):
            sink.write(("," if index else "") + json.dumps(row, ensure_ascii=False) + "\n")
        sink.write(after)
    return path


def entries(count: int, seed: int = 11) -> Iterator[Entry]:
    """Yield drafts of all five components in the shares of the paper's mix, about 500 bytes each.

    Args:
        count: How many.
        seed: Of the chance in them.
    """
    chance = random.Random(seed)  # noqa: S311
    makers = (_episodic, _semantic, _procedural, _working, _identity)
    for index in range(count):
        created = format_time(_START + timedelta(seconds=17 * index, microseconds=index + 1))
        share_left = index % sum(_PROFILE)
        for maker, share in zip(makers, _PROFILE, strict=True):
            if share_left < share:
                yield maker(chance, index, created)
                break
            share_left -= share


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choice(_WORDS) for _ in range(count))


def _episodic(chance: random.Random, index: int, made: str) -> Entry:
    return Episodic(
        created_at=made,
        occurred_at=made,
        actor=f"user:{chance.choice(_USERS[:5])}",
        event_type=("interaction", "observation", "outcome", "reflection")[index % 4],
        observation=f"In session {index} the user said: {_words(chance, 26)}.",
        salience=chance.randrange(1, 100) / 100,
        tags=(chance.choice(_KINDS),),
    )


def _semantic(chance: random.Random, index: int, made: str) -> Entry:
    return Semantic(
        created_at=made,
        subject=f"project-{index}",
        predicate=chance.choice(("depends_on", "is_owned_by", "was_decided_in", "replaces")),
        object=_words(chance, 24),
        confidence=chance.randrange(50, 100) / 100,
        tags=(chance.choice(_KINDS),),
    )


def _procedural(chance: random.Random, index: int, made: str) -> Entry:
    return Procedural(
        created_at=made,
        name=f"routine_{index}",
        description=_words(chance, 9),
        body=f"First {_words(chance, 10)}; then {_words(chance, 8)}.",
        language="natural",
        preconditions=(_words(chance, 4),),
        tags=(chance.choice(_KINDS),),
    )


def _working(chance: random.Random, index: int, made: str) -> Entry:
    return Working(
        created_at=made,
        goals=(f"finish task {index}: {_words(chance, 8)}",),
        subgoals=(_words(chance, 6), _words(chance, 6)),
        pending_actions=(_words(chance, 5),),
        tags=(chance.choice(_KINDS),),
    )


def _identity(chance: random.Random, index: int, made: str) -> Entry:
    return Identity(
        created_at=made,
        persona=f"Assistant {index}, {_words(chance, 10)}",
        communication_style="short sentences, no jargon",
        preferences={"units": "metric", "language": chance.choice(("en", "fr", "ja"))},
        policies=(_words(chance, 10), _words(chance, 10)),
        tags=(chance.choice(_KINDS),),
    )


def as_imported(entry: Entry) -> Entry:
    """Return a draft as an import from another product leaves it: with scope and origin."""
    return msgspec.structs.replace(
        entry,
        scope=Scope(user="ada", agent="ops-bot"),
        origin=Origin(
            provider="mem0",
            id=str(uuid.uuid5(uuid.NAMESPACE_URL, repr(entry))),
            trust=TrustClass.IMPORTED,
        ),
    )


def sealed(drafts: Iterator[Entry] | list[Entry]) -> Iterator[Sealed]:
    """Seal drafts with nonces that are the same in every run."""
    nonces = seeded_nonces(b"satchel benchmarks")
    for draft in drafts:
        yield seal(draft, nonces=nonces)


def write_artifact_of(
    path: Path, records: Iterator[Sealed], encoding: Encoding = Encoding.JSONL
) -> Path:
    """Write records as a signed artifact, and return its path."""
    with ArtifactBuilder() as builder:
        for record in records:
            builder.add(record)
        body, totals = builder.finish()
        statement = Header().statement(totals)
        with atomic_write(path) as sink:
            write_artifact(sink, encoding, body, statement, sign_statement(statement, [KEY]))
    return path


_TEXT = (
    "the report deploy review branch staging window before after Thursday Monday harbour table "
    "summary approval manager customer latency threshold alert disk backup restore region cluster "
    "database index query timeout retry budget invoice contract meeting agenda notes folder "
    "prefers avoids requires confirms schedules archives compares updates checks writes reads "
    "when until because unless every weekly daily metric imperial Japanese French English short "
    "long urgent optional shared private draft final"
)
_WORDS = _TEXT.split()


_FACTS = ("world", "experience", "observation")


def ama_records(count: int, seed: int = 13) -> Iterator[dict[str, Any]]:
    """Yield memories as an Astrocyte archive has them, about 450 bytes each.

    Args:
        count: How many.
        seed: Of the chance in them.
    """
    chance = random.Random(seed)  # noqa: S311
    for index in range(count):
        created = _START + timedelta(seconds=61 * index)
        yield {
            "id": f"{chance.getrandbits(64):016x}",
            "text": f"Fact {index}: {_words(chance, 22)}.",
            "fact_type": _FACTS[chance.randrange(3)],
            "tags": ["bench", chance.choice(_KINDS)],
            "metadata": {"i": index, "channel": "チャット", "sure": chance.randrange(100) / 100},
            "occurred_at": created.isoformat(),
            "created_at": (created + timedelta(seconds=5)).isoformat(),
            "source": "bench",
            "bank_id": "bank",
            "entities": [{"name": chance.choice(_USERS), "entity_type": "PERSON", "aliases": []}],
        }


def write_ama(path: Path, count: int) -> Path:
    """Write an archive of ``count`` memories, and return its path."""
    header = {
        "_ama_version": 1,
        "bank_id": "bank",
        "exported_at": "2026-03-01T09:30:00Z",
        "provider": "benchmark",
        "memory_count": count,
    }
    with path.open("w", encoding="utf-8") as sink:
        for row in (header, *ama_records(count)):
            sink.write(json.dumps(row) + "\n")
    return path
