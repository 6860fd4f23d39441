"""``satchel.ama``: the header and the memories of an archive, read as a stream."""

import gzip
import os
import tracemalloc
from pathlib import Path

import pytest
from ama_kit import archive, memory

from satchel.ama import AmaMemory, iter_ama_memories, read_ama_header
from satchel.errors import (
    EmptyInputError,
    LimitError,
    MalformedError,
    PathRefusedError,
    UnreadableError,
)


def test_the_header_has_all_fields(tmp_path: Path) -> None:
    """Also members that Astrocyte does not know."""
    header = read_ama_header(
        archive(tmp_path / "a.ama.jsonl", memory(), note=[2**70]), allow_uncontained=True
    )
    assert (header.version, header.bank_id, header.provider) == (1, "noor", "mem0")
    assert (header.exported_at, header.memory_count) == ("2026-04-03T12:00:00Z", 1)
    assert header.extra == {"note": [2**70]}


def test_memories_are_read_one_at_a_time(tmp_path: Path) -> None:
    """The next memory is read only when it is requested, even from a large file."""
    first = memory(embedding=[0.5], more={"$int": "5"})
    huge = b"x" * 50_000_000
    path = archive(tmp_path / "a.ama.jsonl", first, b'{"id": "m-2"}', memory("m-3"), huge)
    tracemalloc.start()
    found = iter_ama_memories(path, allow_uncontained=True)
    assert iter(found) is found
    assert next(found) == AmaMemory(
        id="m-1", text="Noor keeps bees.", embedding=[0.5], extra={"more": {"$int": "5"}}
    )
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()
    with pytest.raises(MalformedError) as refusal:
        next(found)
    assert (refusal.value.line, refusal.value.field) == (3, "text")
    assert next(found).id == "m-3"
    found.close()
    with pytest.raises(StopIteration):
        next(found)


def test_header_and_memories_come_from_the_same_open_file(tmp_path: Path) -> None:
    """A file that replaces it later is not read; Astrocyte opens the path twice."""
    path = archive(tmp_path / "a.ama.jsonl", memory(text="ours"), bank_id="ours")
    with iter_ama_memories(path, allow_uncontained=True) as found:
        os.replace(archive(tmp_path / "b", memory(text="theirs"), bank_id="theirs"), path)  # noqa: PTH105
        assert (found.header.bank_id, next(found).text) == ("ours", "ours")


@pytest.mark.parametrize("counted", [0, 1, 3])
def test_a_wrong_memory_count_is_an_error_at_the_end(counted: int, tmp_path: Path) -> None:
    """A program that reads all memories learns that some are missing."""
    path = archive(tmp_path / "a.ama.jsonl", memory(), memory("m-2"), memory_count=counted)
    found = iter_ama_memories(path, allow_uncontained=True)
    with pytest.raises(MalformedError, match="counts"):
        list(found)
    assert list(found) == []


def test_an_empty_archive_has_no_memories(tmp_path: Path) -> None:
    """It is not an error to read one."""
    path = archive(tmp_path / "a.ama.jsonl")
    assert list(iter_ama_memories(path, allow_uncontained=True)) == []


def test_compressed_archives_are_read(tmp_path: Path) -> None:
    """Without a temporary file."""
    path = tmp_path / "a.ama.jsonl.gz"
    path.write_bytes(gzip.compress(archive(tmp_path / "a", memory()).read_bytes()))
    assert [one.id for one in iter_ama_memories(path, allow_uncontained=True)] == ["m-1"]


def test_a_path_is_refused_without_containment(tmp_path: Path) -> None:
    """Before the file is opened."""
    for call in (read_ama_header, iter_ama_memories):
        with pytest.raises(PathRefusedError):
            call(tmp_path / "none")
        with pytest.raises(PathRefusedError):
            call(tmp_path / "none", allowed_roots=[tmp_path / "b"], allow_uncontained=True)


def test_a_file_that_is_not_an_archive_is_refused_immediately(tmp_path: Path) -> None:
    """A pipe does not block; missing, empty and other files each have an error of their own."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    (tmp_path / "long").write_bytes(b"x" * 2_000_000)
    (tmp_path / "other").write_text('{"a": 1}\n')
    kinds = {
        "pipe": UnreadableError,
        "none": UnreadableError,
        "": UnreadableError,
        "empty": EmptyInputError,
        "long": LimitError,
        "other": MalformedError,
    }
    for name, kind in kinds.items():
        for call in (read_ama_header, iter_ama_memories):
            with pytest.raises(kind) as refusal:
                call(tmp_path / name, allow_uncontained=True)
            assert refusal.value.file == str(tmp_path / name)
