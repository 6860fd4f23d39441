"""Passages of Letta's archival memory: what the shared suite cannot know."""

import json
import zipfile
from pathlib import Path
from typing import Any

import satchel
from satchel.conformance.subject import sealed
from satchel.crypto.sealed_records import Sealed
from satchel.formats.letta_passages import FORMAT
from satchel.model.records import Episodic, Model, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Place, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report

_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "letta_passages"


def _written(path: Path, *records: Model | Sealed) -> tuple[list[Any], Report]:
    writing = WriteContext()
    with sealed(records) as found:
        FORMAT.write(found, Target(path), writing)
    return json.loads(path.read_bytes()), writing.report


def test_memory_from_elsewhere_becomes_passages_that_the_server_takes(tmp_path: Path) -> None:
    """Text, tags, metadata and times; an id as Letta makes them; what has no place is counted."""
    origin = Origin(provider="mem0", id="m-1")
    (fact, talk), report = _written(
        tmp_path / "out.json",
        Semantic(text="Takes it cold.", tags=("tea",), scope=Scope(user="rosa"), origin=origin),
        Episodic(text="We spoke.", occurred_at="2026-05-04T03:02:01.000000Z"),
    )

    assert (fact["text"], fact["tags"]) == ("Takes it cold.", ["tea"])
    assert fact["id"].startswith("passage-")
    assert talk["text"] == "We spoke."
    assert {loss.name for loss in report.losses.values()} == {
        "scope",
        "origin",
        "occurred_at",
        "episodic",
    }


def test_a_vector_goes_with_the_words_that_it_was_made_of(tmp_path: Path) -> None:
    """A passage that says something else now goes without it."""
    records = list(read_records(FORMAT, Place(_SAMPLES / "good-list.json"), ReadContext()))
    old = records[0].model
    assert isinstance(old, Semantic)
    changed = Semantic(text="Rosa drinks coffee.", origin=old.origin)

    assert _written(tmp_path / "a.json", old)[0][0]["embedding"] == [0.25, -0.5]
    assert _written(tmp_path / "b.json", changed)[0][0]["embedding"] is None


def test_it_round_trips_through_a_bank(tmp_path: Path) -> None:
    """Imported, exported, and equal to what it was; again adds nothing."""
    source = _SAMPLES / "good-list.json"
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        added = [bank.import_(source).banks[0].done.added for _ in range(2)]
        bank.export(tmp_path / "tea.passages.json")

    assert added == [3, 0]
    back = json.loads((tmp_path / "tea.passages.json").read_bytes())
    assert back == json.loads(source.read_bytes())


def test_passages_that_lettas_page_packed_are_read(tmp_path: Path) -> None:
    """The page that takes archival memory out of Letta gives an archive with one list."""
    row = {
        "created_at": "2025-11-05 23:04:24.901468+00:00",
        "archive_id": "archive-1",
        "metadata": {},
        "tags": ["tea"],
        "id": "passage-1",
        "text": "Likes tea.",
    }
    path = tmp_path / "memories.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("agent-1.json", json.dumps([row]))
        archive.writestr("read me.txt", "words")
    assert formats.recognize(Place(path)) == "letta_passages"
    reading = ReadContext()
    (found,) = read_records(formats["letta_passages"], Place(path), reading)

    assert (found.value["text"], found.value["tags"]) == ("Likes tea.", ["tea"])
    assert found.value["created_at"] == "2025-11-05T23:04:24.901468Z"
    assert [loss.name for loss in reading.report.losses.values()] == ["read me.txt"]
