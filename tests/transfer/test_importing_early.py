"""What is logged while its file is still read: the same as what is logged after it, or nothing."""

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
def early(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the smallest file read by a process of its own, in groups of 8; count what is logged."""
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
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have everything be logged after it was read."""
    monkeypatch.setattr(import_job.ImportJob, "_is_logged_early", lambda _self: False)


def _memories(count: int) -> list[dict[str, Any]]:
    return rows(*((str(number), f"memory {number}") for number in range(count)))


def _log(bank: str) -> list[Any]:
    """Return what is in the log, all verified: types, batches and what is no moment or bank."""
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


def test_it_is_the_same_log_as_when_it_is_logged_afterwards(
    tmp_path: Path, early: list[int], request: pytest.FixtureRequest
) -> None:
    """Also where the source record says what only the end of the file tells."""
    around = {"results": _memories(29), "after": {"all": "of it"}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps(around))
    done = bring(path, "early")
    assert early == [8, 4, 4, 4, 4, 4, 1]
    request.getfixturevalue("late")
    assert bring(path, "late").banks[0].done == done.banks[0].done
    assert _log("early") == _log("late")
    assert early == [8, 4, 4, 4, 4, 4, 1]
    (source,) = (container for *_, container in _log("early") if container is not None)
    assert source["fields"] == {"after": {"all": "of it"}}
    assert done.banks[0].made
    assert done.accounts[0].counts["semantic"].written == 29


@pytest.mark.parametrize("there", [False, True], ids=["bank is made", "bank has nothing yet"])
def test_what_was_imported_early_is_known_the_next_time(
    tmp_path: Path, early: list[int], *, there: bool
) -> None:
    """Its fingerprints are kept; the bank has something now, so nothing is logged early."""
    if there:
        create_bank(load_settings(), "b", owner())
    path = write(tmp_path / "a.json", _memories(20))
    assert bring(path, "b").banks[0].done.added == 20
    assert early == [8, 4, 4, 4]
    again = bring(path, "b")
    assert (again.banks[0].done.known, again.banks[0].done.added) == (20, 0)
    assert early == [8, 4, 4, 4]


def test_a_file_that_is_bad_at_its_end_leaves_no_bank(tmp_path: Path, early: list[int]) -> None:
    """What was logged of it is taken back; the error names the line."""
    path = tmp_path / "a.json"
    good = ",\n".join(json.dumps(row) for row in _memories(40))
    path.write_text(f'[{good},\n{{"id": "1", "memory": "tea" "x"}}]')
    with pytest.raises(SatchelError) as caught:
        bring(path, "b")
    assert caught.value.line == 41
    assert early
    assert list_banks(load_settings()) == []


def test_a_file_that_says_it_lacks_something_leaves_no_bank(
    tmp_path: Path, early: list[int]
) -> None:
    """It is known at the end; accepted, it is imported."""
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"results": _memories(20), "next": "http://127.0.0.1/2"}))
    with pytest.raises(ShortInputError):
        bring(path, "b")
    assert early
    assert list_banks(load_settings()) == []
    assert bring(path, "b", accept_loss=("all",)).banks[0].done.added == 20


@pytest.mark.parametrize("after", [3, 5])
def test_records_of_a_killed_reading_process_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int], after: int
) -> None:
    """It is read again here, and each record is there once."""
    path = write(tmp_path / "a.json", _memories(40))
    frames = import_source.ImportSource._frames

    def dying(self: Any, *given: Any) -> Iterator[bytes]:
        for number, frame in enumerate(frames(self, *given)):
            if number == after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield frame

    monkeypatch.setattr(import_source.ImportSource, "_frames", dying)
    assert bring(path, "b").banks[0].done.added == 40
    assert early
    assert sum(kind == "semantic" for kind, *_ in _log("b")) == 40


def test_what_does_not_fit_into_one_transaction_is_logged_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int]
) -> None:
    """A file that turns out to be larger than it looked is read again."""
    path = write(tmp_path / "a.json", [*_memories(16), *rows(("17", "long " * 3000))])
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 12_000)
    assert bring(path, "b").banks[0].done.added == 17
    assert early == [8, 4, 4]
    assert len(_log("b")) == 2 + 1 + 3 + 17 + 1


def test_a_file_that_is_too_large_for_one_transaction_is_not_logged_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int]
) -> None:
    """How much there is going to be is told by how much of the file was read."""
    monkeypatch.setattr(import_job, "COMMIT_BYTES", 1000)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1000)
    path = write(tmp_path / "a.json", _memories(40))
    assert bring(path, "b").banks[0].done.added == 40
    assert early == []


def test_a_file_that_takes_long_to_read_is_not_logged_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int]
) -> None:
    """Who writes meanwhile waits for the logging alone, not until they give up."""
    monkeypatch.setattr(import_job, "_LONGEST_HELD", -1.0)
    path = write(tmp_path / "a.json", _memories(40))
    assert bring(path, "b").banks[0].done.added == 40
    assert early == []


def test_a_memory_that_replaces_another_of_the_file_is_settled_afterwards(
    tmp_path: Path, early: list[int]
) -> None:
    """To replace is said by a status, which does not go into one transaction."""
    path = write(tmp_path / "a.json", [*_memories(20), *rows(("3", "another"))])
    done = bring(path, "b", on_conflict=ConflictPolicy.OVERWRITE)
    assert (done.banks[0].done.added, done.banks[0].done.overwritten) == (21, 1)
    assert early == []
    done = bring(path, "c", on_conflict=ConflictPolicy.RENAME)
    assert (done.banks[0].done.added, done.banks[0].done.renamed) == (21, 1)
    assert early == [8, 4, 4, 4, 1]


def test_records_added_before_the_import_is_logged_are_considered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int]
) -> None:
    """The bank had nothing when it was looked at; it is read again, and settled with."""
    create_bank(load_settings(), "b", owner())
    path = write(tmp_path / "a.json", _memories(20))
    size, there = import_job._size_if_vacant, seal(Semantic(text="somebody was quicker"))

    def quicker(bank: Any) -> int | None:
        found = size(bank)
        bank.ledger.append([there])
        return found

    monkeypatch.setattr(import_job, "_size_if_vacant", quicker)
    assert bring(path, "b").banks[0].done.added == 20
    assert early == []
    assert sum(kind == "semantic" for kind, *_ in _log("b")) == 21


def test_what_reads_back_otherwise_leaves_no_bank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, early: list[int]
) -> None:
    """Attack by accident: the store reads back something else."""
    monkeypatch.setattr(transaction.UnnamedImport, "is_stored", lambda *_: False)
    with pytest.raises(StoreDamagedError):
        bring(write(tmp_path / "a.json", _memories(20)), "b")
    assert early
    assert list_banks(load_settings()) == []


def test_an_import_stopped_by_its_progress_callback_leaves_no_bank(
    tmp_path: Path, early: list[int]
) -> None:
    """What the watcher raises before the commit, when all is read, ends the import."""
    steps = list[Any]()

    def ending(step: Any) -> None:
        steps.append(step)
        if [one.total for one in steps[-2:]] == [20, 20]:
            raise EmptyInputError("enough")

    with pytest.raises(EmptyInputError, match="enough"):
        bring(write(tmp_path / "a.json", _memories(20)), "b", on_step=ending)
    assert {step.done for step in steps} == {0}
    assert early
    assert list_banks(load_settings()) == []
