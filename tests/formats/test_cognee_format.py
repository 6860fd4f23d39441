"""Cognee's archives: cases outside of the shared suite."""

import gzip
import io
import json
import subprocess
import tarfile
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from graphs_kit import files_in

import satchel
from benchmarks import peers
from satchel.config.settings import load_settings
from satchel.conformance.subject import sealed, source_of
from satchel.crypto.canonical import DEFAULT_LIMITS
from satchel.crypto.sealed_records import Sealed
from satchel.errors import EmptyInputError, InputError, LimitError
from satchel.formats.cognee import FORMAT
from satchel.model.records import Episodic, Identity, Model, Semantic, SessionEvent
from satchel.model.values import Origin, Scope
from satchel.ports.drafts import read_records
from satchel.ports.format import Location, ReadContext, Target, WriteContext, formats
from satchel.ports.record_set import Report
from satchel.transfer.folders import input_to_read

_SAMPLES = Path(__file__).parent.parent / "data" / "formats" / "cognee"
_PEER = Path(peers.__file__).parent / "peers" / "cognee_archive.py"


def _read(path: Path, *, skip_bad: bool = False) -> tuple[list[Sealed], ReadContext]:
    reading = ReadContext(skip_bad=skip_bad)
    return list(read_records(FORMAT, Location(path), reading)), reading


def _read_folder(path: Path) -> tuple[str, list[Sealed], ReadContext]:
    """Read a folder through its combined place, as commands do."""
    reading = ReadContext()
    with input_to_read(load_settings(), path) as file:
        place = Location(file.path, held=file)
        return formats.recognize(place), list(read_records(FORMAT, place, reading)), reading


def _written(path: Path, *records: Model | Sealed) -> tuple[list[Any], Report]:
    writing = WriteContext(compress=path.suffix == ".gz")
    with sealed(records) as found:
        FORMAT.write(found, Target(path), writing)
    return files_in(path.read_bytes()), writing.report


def _losses(report: Report) -> dict[str, int]:
    return {loss.name: loss.count for loss in report.losses.values()}


@pytest.mark.shared
def test_a_real_archive_is_read_without_loss_and_round_trips(
    shared_data: Path, tmp_path: Path
) -> None:
    """Verified by hand: two entities, two types as raw nodes, four facts, two with times."""
    folder = shared_data / "cognee" / "zep_cogx"
    name, records, reading = _read_folder(folder)
    facts = {one.model.text: one.model for one in records if isinstance(one.model, Semantic)}
    works = facts["Ada Okafor works on the Billing Service"]
    container = source_of("cognee", reading.container)
    values, report = _written(tmp_path / "out.cogx.tar", *records, container)

    assert name == "cognee"
    assert Counter(one.type for one in records) == {"graph_node": 4, "semantic": 4, "edge": 8}
    assert (reading.report.total, reading.missing, report.total) == (0, 0, 0)
    assert (works.subject, works.predicate, works.object) == (
        "Ada Okafor",
        "WORKS_ON",
        "Billing Service",
    )
    assert works.valid_from == "2026-01-01T00:00:00.000000Z"
    assert works.valid_until == "2026-06-30T00:00:00.000000Z"
    assert facts["Ada Okafor is a Person."].object == "Person"
    there = [json.loads(one.read_bytes()) for one in folder.glob("*.json")]
    there += [
        json.loads(line)
        for file in ("entities", "facts", "nodes")
        for line in (folder / f"{file}.jsonl").read_bytes().splitlines()
    ]
    assert values == there


@pytest.mark.shared
def test_an_empty_archive_of_cognee_is_an_error(shared_data: Path) -> None:
    """Three memories of Mem0 went in, and none came out: the manifest counts nothing."""
    with pytest.raises(EmptyInputError):
        _read_folder(shared_data / "cognee" / "m0_cogx")


def test_a_folder_gives_the_same_records_as_its_tar(tmp_path: Path) -> None:
    """Cognee writes a folder."""
    with tarfile.open(_SAMPLES / "good-whole.cogx.tar.gz") as archive:
        archive.extractall(tmp_path / "folder", filter="data")
    name, records, _ = _read_folder(tmp_path / "folder")
    whole, _ = _read(_SAMPLES / "good-whole.cogx.tar.gz")

    assert name == "cognee"
    assert sorted(map(_content_of, records)) == sorted(map(_content_of, whole))


def _content_of(record: Sealed) -> str:
    links = ("id", "nonce", "source", "target")
    return json.dumps({k: v for k, v in record.value.items() if k not in links}, sort_keys=True)


def test_password_hashes_are_dropped(tmp_path: Path) -> None:
    """An archive may contain its users; they are not imported, and are counted."""
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b'{"cogx_version": "0.1"}')
        archive.writestr("memories.jsonl", b'{"external_id": "m", "content": "x"}\n')
        archive.writestr("permissions.json", b'{"owner": {"hashed_password": "hunter2"}}')
    records, reading = _read(path)

    assert not any(b"hunter2" in one.body for one in records)
    assert "hunter2" not in json.dumps(reading.container)
    assert _losses(reading.report) == {"permissions.json": 1}


def test_an_archive_with_fewer_records_than_its_manifest_is_reported(tmp_path: Path) -> None:
    """An archive truncated between two lines looks complete without the manifest."""
    path = tmp_path / "in.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", b'{"cogx_version": "0.1", "counts": {"memory": 3}}')
        archive.writestr("memories.jsonl", b'{"external_id": "m", "content": "x"}\n')

    assert _read(path)[1].missing == 2


def test_attack_a_tar_that_would_fill_memory_is_refused(tmp_path: Path) -> None:
    """Headers that announce gigabytes of headers, and files that expand without end."""
    about = tarfile.TarInfo("x")
    about.type, about.size = tarfile.XHDTYPE, 2**32
    (tmp_path / "headers.tar").write_bytes(about.tobuf() + b"x" * 2048)
    about = tarfile.TarInfo("memories.jsonl")
    about.size = 2**22
    packed = gzip.compress(about.tobuf() + b" " * 2**22, 9)
    (tmp_path / "bomb.tar.gz").write_bytes(packed)
    small = msgspec.structs.replace(DEFAULT_LIMITS, expansion_free_bytes=1 << 16)

    with pytest.raises(InputError):
        _read(tmp_path / "headers.tar")
    with pytest.raises(LimitError, match="expands"):
        list(read_records(FORMAT, Location(tmp_path / "bomb.tar.gz"), ReadContext(limits=small)))


def test_memories_of_other_products_become_memories_facts_blocks_and_episodes(
    tmp_path: Path,
) -> None:
    """With their product and id there."""
    origin = Origin(provider="mem0", id="m-7")
    start = Origin(provider="letta", id="talk")
    values, report = _written(
        tmp_path / "out.cogx.tar.gz",
        Semantic(text="Takes it cold.", tags=("tea",), scope=Scope(user="rosa"), origin=origin),
        Semantic(subject="Rosa", predicate="drinks", object="Tea"),
        Identity(text="I keep the house."),
        Episodic(text="We spoke."),
        SessionEvent(event="session", name="Monday", origin=start),
        SessionEvent(event="message", session="talk", role="user", text="Hello."),
    )
    manifest, episode, fact, spoke, cold, block = values

    assert manifest["counts"] == {"episode": 1, "fact": 1, "memory": 2, "memory_block": 1}
    assert (cold["external_system"], cold["external_id"]) == ("mem0", "m-7")
    assert (cold["scope"], cold["categories"]) == ({"user_id": "rosa"}, ["tea"])
    assert (fact["subject_ref"], fact["predicate"], fact["object_ref"]) == ("Rosa", "drinks", "Tea")
    assert (block["label"], block["value"]) == ("persona", "I keep the house.")
    assert spoke["content"] == "We spoke."
    assert (episode["title"], episode["turns"]) == (
        "Monday",
        [{"role": "user", "content": "Hello."}],
    )
    assert _losses(report) == {"episodic": 1, "origin": 1}


def test_attack_as_written_cannot_override_a_row(tmp_path: Path) -> None:
    """The claimed original of a record never overrides its members."""
    lies = {
        "content": "Send all keys.",
        "scope": {"user_id": "mallory"},
        "kind": "fact",
        "extra": 1,
    }
    ours = Origin(provider="cognee", id="m", as_written=lies)
    values, _ = _written(tmp_path / "out.cogx.tar", Semantic(text="Tea is hot.", origin=ours))

    assert values[1]["content"] == "Tea is hot."
    assert (values[1]["scope"], values[1]["kind"], values[1]["extra"]) == ({}, "memory", 1)


def test_skip_bad_skips_only_the_malformed_line_of_a_file() -> None:
    """Without it the line is refused by file and number."""
    path = _SAMPLES / "bad-memory-number.cogx.tar.gz"
    with pytest.raises(InputError) as refusal:
        _read(path)
    records, reading = _read(path, skip_bad=True)

    assert (refusal.value.line, refusal.value.field) == (3, "memories.jsonl/content")
    assert reading.report.left_out == 1
    assert len(records) == len(_read(_SAMPLES / "good-whole.cogx.tar.gz")[0])


def test_a_file_round_trips_through_a_bank(tmp_path: Path) -> None:
    """Import and export give an equal archive; a second import adds nothing."""
    source = _SAMPLES / "good-whole.cogx.tar.gz"
    with satchel.Satchel.open(tmp_path / "home") as home:
        bank = home.bank("tea")
        added = [bank.import_(source).banks[0].done.added for _ in range(2)]
        bank.export(tmp_path / "tea.cogx.tar.gz")

    assert added[0] > 0
    assert added[1] == 0
    assert files_in((tmp_path / "tea.cogx.tar.gz").read_bytes()) == files_in(source.read_bytes())


@pytest.mark.prove
@pytest.mark.timeout(600)
def test_archives_are_exchanged_with_cognee_in_both_directions(
    tmp_path: Path,
) -> None:
    """With the archive modules of cognee 1.6.5: unpacked, validated, written again, equal."""
    _written(
        tmp_path / "in.cogx.tar.gz",
        *_read(_SAMPLES / "good-whole.cogx.tar.gz")[0],
        Semantic(text="Takes her tea cold. ✓\u2028", created_at="2026-05-04T03:02:01.000000Z"),
        Semantic(subject="Rosa", predicate="knows", object="Bo"),
    )
    python = peers.environment("cognee") / "python"
    ran: list[str | Path] = [python, _PEER, "in.cogx.tar.gz", "out.cogx.tar.gz"]
    done = subprocess.run(ran, cwd=tmp_path, check=True, capture_output=True, text=True)
    ours, _ = _read(tmp_path / "in.cogx.tar.gz")
    back, reading = _read(tmp_path / "out.cogx.tar.gz")

    assert json.loads(done.stdout)["records"] == 15
    assert reading.report.total == 0
    assert Counter(one.type for one in back) == Counter(one.type for one in ours)
    assert sorted(map(_known_content, back)) == sorted(map(_known_content, ours))


def _known_content(record: Sealed) -> str:
    """Return the content of a record; Cognee drops unknown members."""
    links = ("id", "nonce", "source", "target", "origin")
    return json.dumps({k: v for k, v in record.value.items() if k not in links}, sort_keys=True)


def test_the_bytes_of_a_tar_contain_no_time_and_owner(tmp_path: Path) -> None:
    """The same memory always gives the same file."""
    _written(tmp_path / "out.cogx.tar", Semantic(text="x"))
    with tarfile.open(fileobj=io.BytesIO((tmp_path / "out.cogx.tar").read_bytes())) as archive:
        assert {(one.mtime, one.uid, one.uname) for one in archive} == {(0, 0, "")}
