"""Backups of OpenMemory: what the shared suite cannot know."""

import json
from pathlib import Path
from typing import Any

from satchel.crypto.sealed_records import Sealed
from satchel.ports.drafts import read_records
from satchel.ports.format import Place, ReadContext, formats

_SAMPLE = Path(__file__).parent.parent / "data" / "formats" / "openmemory" / "good-memories.json"


def _read(path: Path, **given: Any) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(**given)
    return list(read_records(formats["openmemory"], Place(path), reading)), reading


def test_what_the_tables_say_of_a_memory_is_with_it() -> None:
    """Whose it is, which app made it, its categories; the tables themselves are beside it."""
    found, reading = _read(_SAMPLE)
    tea = found[0].value
    assert tea["scope"] == {"user": "mira", "app": "cursor"}
    assert (tea["tags"], tea["metadata"]) == (["tea"], {"mood": "calm"})
    assert found[1].value["origin"]["as_written"]["state"] == "archived"
    assert reading.container["status_history"][0]["new_state"] == "archived"


def test_the_same_once_more_is_no_loss() -> None:
    """The archive has the memories twice; a receipt that names a loss would be wrong."""
    found, reading = _read(_SAMPLE.with_name("good-backup.zip"))
    assert (len(found), reading.report.total) == (2, 0)


def test_memories_deleted_at_the_source_are_not_imported(tmp_path: Path) -> None:
    """The server keeps the words of what somebody deleted; it is counted, not taken."""
    document = json.loads(_SAMPLE.read_bytes())
    document["memories"][0]["state"] = "deleted"
    path = tmp_path / "memories.json"
    path.write_text(json.dumps(document))
    found, reading = _read(path)

    assert [one.value["text"] for one in found] == ["Opens at nine."]
    (lost,) = reading.report.losses.values()
    assert (lost.name, lost.examples) == ("memories", ["m-1"])


def test_one_malformed_memory_can_be_skipped(tmp_path: Path) -> None:
    """The others are read, with their tables."""
    document = json.loads(_SAMPLE.read_bytes())
    document["memories"].insert(0, {"id": "x", "content": None})
    path = tmp_path / "memories.json"
    path.write_text(json.dumps(document))
    assert formats.recognize(Place(path)) == "openmemory"
    found, reading = _read(path, skip_bad=True)
    assert (len(found), reading.report.left_out) == (2, 1)
    assert reading.report.refused[0].field == "memories/0/content"
