"""Streamed imports: records logged while the file is read give the same log, or none."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, owner, rows, write

from satchel.bank.banks import create_bank, list_banks
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import EmptyInputError, SatchelError, ShortInputError, StoreDamagedError
from satchel.ledger import transaction
from satchel.model.records import Semantic, Source
from satchel.transfer import import_batches, import_job, import_source, import_stage
from satchel.transfer.import_results import ConflictPolicy


@pytest.fixture(autouse=True)
def streamed_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Read the smallest file in a separate process, in groups of 8; record the group sizes."""
    found, add = list[int](), import_batches.StreamedImport.add

    def counted(self: import_batches.StreamedImport, group: Any) -> None:
        found.append(len(group))
        add(self, group)

    monkeypatch.setattr(os, "urandom", lambda count: b"s" * count)
    monkeypatch.setattr(import_source, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(import_source, "may_fork", lambda: True)
    monkeypatch.setattr(import_job, "_TOGETHER", 4)
    monkeypatch.setattr(import_stage, "GROUP", 8)
    monkeypatch.setattr(import_stage, "GIVEN", 4)
    monkeypatch.setattr(transaction, "GROUP_RECORDS", 8)
    monkeypatch.setattr(import_batches.StreamedImport, "add", counted)
    return found


@pytest.fixture
def no_streaming(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log everything after reading."""
    monkeypatch.setattr(import_job.ImportJob, "_is_logged_early", lambda _self: False)


def _memories(count: int) -> list[dict[str, Any]]:
    return rows(*((str(number), f"memory {number}") for number in range(count)))


def _log(bank: str) -> list[Any]:
    """Return the verified log: types, batches, and members that are not times or banks."""
    with opened(bank) as there:
        there.ledger.audit()
        with there.ledger.reading() as view:
            found = list(view.whole.scan())
    return [
        (
            one.record.type,
            one.row.batch,
            one.record.id if isinstance(one.model, Semantic) else None,
            one.model.container if isinstance(one.model, Source) else None,
        )
        for one in found
    ]


def test_a_streamed_import_gives_the_same_log(
    tmp_path: Path, streamed_groups: list[int], request: pytest.FixtureRequest
) -> None:
    """Also if the source record depends on the end of the file."""
    around = {"results": _memories(29), "after": {"all": "of it"}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(around))
    done = bring(path, "early")
    assert streamed_groups == [8, 4, 4, 4, 4, 4, 1]
    request.getfixturevalue("no_streaming")
    assert bring(path, "late").banks[0].done == done.banks[0].done
    assert _log("early") == _log("late")
    assert streamed_groups == [8, 4, 4, 4, 4, 4, 1]
    (source,) = (container for *_, container in _log("early") if container is not None)
    assert source["fields"] == {"after": {"all": "of it"}}
    assert done.banks[0].made
    assert done.accounts[0].counts["semantic"].written == 29


@pytest.mark.parametrize("there", [False, True], ids=["new bank", "empty bank"])
def test_memories_of_a_streamed_import_are_known_the_next_time(
    tmp_path: Path, streamed_groups: list[int], *, there: bool
) -> None:
    """Their fingerprints are stored; the bank is not empty, so nothing is streamed."""
    if there:
        create_bank(load_settings(), "b", owner())
    path = write(tmp_path / "a.json", _memories(20))
    assert bring(path, "b").banks[0].done.added == 20
    assert streamed_groups == [8, 4, 4, 4]
    again = bring(path, "b")
    assert (again.banks[0].done.known, again.banks[0].done.added) == (20, 0)
    assert streamed_groups == [8, 4, 4, 4]


def test_a_streamed_file_with_a_malformed_end_leaves_no_bank(
    tmp_path: Path, streamed_groups: list[int]
) -> None:
    """The logged records are rolled back; the error names the line."""
    path = tmp_path / "a.json"
    good = ",\n".join(json.dumps(row) for row in _memories(40))
    path.write_text(f'[{good},\n{{"id": "1", "memory": "tea" "x"}}]')
    with pytest.raises(SatchelError) as caught:
        bring(path, "b")
    assert caught.value.line == 41
    assert streamed_groups
    assert list_banks(load_settings()) == []


def test_a_streamed_file_that_reports_missing_records_leaves_no_bank(
    tmp_path: Path, streamed_groups: list[int]
) -> None:
    """It is known at the end; with the loss accepted, the file is imported."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": _memories(20), "next": "http://127.0.0.1/2"}))
    with pytest.raises(ShortInputError):
        bring(path, "b")
    assert streamed_groups
    assert list_banks(load_settings()) == []
    assert bring(path, "b", accept_loss=("all",)).banks[0].done.added == 20


@pytest.mark.parametrize("after", [3, 5])
def test_records_of_a_killed_reader_process_are_rolled_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int], after: int
) -> None:
    """The file is read again in this process, and each record is logged once."""
    path = write(tmp_path / "a.json", _memories(40))
    frames = import_source.ImportSource._frames

    def dying(self: Any, *given: Any) -> Iterator[bytes]:
        for number, frame in enumerate(frames(self, *given)):
            if number == after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield frame

    monkeypatch.setattr(import_source.ImportSource, "_frames", dying)
    assert bring(path, "b").banks[0].done.added == 40
    assert streamed_groups
    assert sum(kind == "semantic" for kind, *_ in _log("b")) == 40


def test_a_streamed_import_too_large_for_one_transaction_is_logged_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int]
) -> None:
    """A file that is larger than it looked is read again."""
    path = write(tmp_path / "a.json", [*_memories(16), *rows(("17", "long " * 3000))])
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 12_000)
    assert bring(path, "b").banks[0].done.added == 17
    assert streamed_groups == [8, 4, 4]
    assert len(_log("b")) == 2 + 1 + 3 + 17 + 1


def test_a_file_too_large_for_one_transaction_is_not_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int]
) -> None:
    """The share of the file that was read predicts the size."""
    monkeypatch.setattr(import_job, "COMMIT_BYTES", 1000)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1000)
    path = write(tmp_path / "a.json", _memories(40))
    assert bring(path, "b").banks[0].done.added == 40
    assert streamed_groups == []


def test_a_file_that_reads_slowly_is_not_streamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int]
) -> None:
    """Other writers wait only for the logging, not until they give up."""
    monkeypatch.setattr(import_job, "_LONGEST_HELD", -1.0)
    path = write(tmp_path / "a.json", _memories(40))
    assert bring(path, "b").banks[0].done.added == 40
    assert streamed_groups == []


def test_a_file_that_replaces_its_own_memories_is_not_streamed(
    tmp_path: Path, streamed_groups: list[int]
) -> None:
    """A replacement needs a status, which does not fit into one transaction."""
    path = write(tmp_path / "a.json", [*_memories(20), *rows(("3", "another"))])
    done = bring(path, "b", on_conflict=ConflictPolicy.OVERWRITE)
    assert (done.banks[0].done.added, done.banks[0].done.overwritten) == (21, 1)
    assert streamed_groups == []
    done = bring(path, "c", on_conflict=ConflictPolicy.RENAME)
    assert (done.banks[0].done.added, done.banks[0].done.renamed) == (21, 1)
    assert streamed_groups == [8, 4, 4, 4, 1]


def test_records_added_before_the_import_is_logged_are_considered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int]
) -> None:
    """The bank was empty at first; the file is read again, and conflicts are handled."""
    create_bank(load_settings(), "b", owner())
    path = write(tmp_path / "a.json", _memories(20))
    size, there = import_job._size_if_vacant, seal(Semantic(text="somebody was quicker"))

    def quicker(bank: Any) -> int | None:
        found = size(bank)
        bank.ledger.append([there])
        return found

    monkeypatch.setattr(import_job, "_size_if_vacant", quicker)
    assert bring(path, "b").banks[0].done.added == 20
    assert streamed_groups == []
    assert sum(kind == "semantic" for kind, *_ in _log("b")) == 21


def test_a_streamed_import_that_reads_back_differently_leaves_no_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, streamed_groups: list[int]
) -> None:
    """Fault: the store returns other bytes."""
    monkeypatch.setattr(transaction.UnnamedImport, "is_stored", lambda *_: False)
    with pytest.raises(StoreDamagedError):
        bring(write(tmp_path / "a.json", _memories(20)), "b")
    assert streamed_groups
    assert list_banks(load_settings()) == []


def test_an_import_stopped_by_its_progress_callback_leaves_no_bank(
    tmp_path: Path, streamed_groups: list[int]
) -> None:
    """An exception of the callback before the commit ends the import."""
    steps = list[Any]()

    def ending(step: Any) -> None:
        steps.append(step)
        if [one.total for one in steps[-2:]] == [20, 20]:
            raise EmptyInputError("enough")

    with pytest.raises(EmptyInputError, match="enough"):
        bring(write(tmp_path / "a.json", _memories(20)), "b", on_step=ending)
    assert {step.done for step in steps} == {0}
    assert streamed_groups
    assert list_banks(load_settings()) == []
