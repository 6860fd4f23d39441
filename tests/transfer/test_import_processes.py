"""A large file is read by a separate process, with the same result whatever happens to it."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from import_kit import bring, opened, rows, write

from satchel.errors import SatchelError
from satchel.model.records import Entry
from satchel.runtime import processes
from satchel.transfer import import_source
from satchel.transfer.import_results import ImportSummary

SAMPLES = Path(__file__).parents[1] / "data" / "formats"
CHOSEN = ("mem0", "letta", "chatgpt", "graphiti", "mcp_memory", "ama", "openmemory", "claude")


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every import use the same seed, so that IDs can be compared."""
    monkeypatch.setattr(os, "urandom", lambda count: b"s" * count)


@pytest.fixture
def process_counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Read the smallest file in a separate process, and count the processes."""
    found, forked = list[int](), processes.run_in_fork

    def counted(frames: Any) -> Any:
        found.append(1)
        return forked(frames)

    monkeypatch.setattr(import_source, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(import_source, "may_fork", lambda: True)
    monkeypatch.setattr(import_source, "run_in_fork", counted)
    return found


def _ids(bank: str) -> list[str]:
    with opened(bank) as there, there.ledger.reading() as view:
        return [one.record.id for one in view.scan() if isinstance(one.model, Entry)]


def _summary(done: ImportSummary) -> Any:
    banks = [(one.done, one.conflicts) for one in done.banks]
    refused = [(one.place, one.message) for one in done.refused]
    losses = [(one.name, one.reason, one.count, one.examples) for one in done.losses]
    return banks, losses, refused, done.notes, done.secrets, done.agent


def _samples() -> list[Path]:
    found = (path for name in CHOSEN for path in sorted((SAMPLES / name).glob("good-*"))[:2])
    return [path for path in found if path.is_file()]


@pytest.mark.in_check(6)
@pytest.mark.parametrize("path", _samples(), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_file_read_by_a_separate_process_gives_the_same_import(
    path: Path, request: pytest.FixtureRequest
) -> None:
    """Records with the same IDs, in the same order, and the same losses."""

    def outcome(bank: str) -> Any:
        try:
            return _summary(bring(path, bank, accept_loss=("all",)))
        except SatchelError as error:
            return type(error), error.message, error.line, error.field

    here = outcome("here")
    forked = request.getfixturevalue("process_counts")
    there = outcome("there")
    assert there == here
    assert forked


def test_a_separate_process_reports_secrets_and_bad_records(
    tmp_path: Path, process_counts: list[int]
) -> None:
    """They are returned with the records."""
    key = "sk-proj-" + "a1B2" * 12
    good, bad = rows(("1", f"the key is {key}"), ("2", "tea")), [{"id": "3"}]
    path = write(tmp_path / "a.json", [*good, *bad])
    done = bring(path, "b", skip_bad=True)
    assert (process_counts, done.banks[0].done.added, len(done.refused)) == ([1], 2, 1)
    assert sum(done.secrets.values()) == 1


@pytest.mark.usefixtures("process_counts")
def test_an_error_in_the_file_is_the_same_from_a_separate_process(tmp_path: Path) -> None:
    """The file is read again in this process, which names the line."""
    path = tmp_path / "a.json"
    path.write_text('[{"id": "1", "memory": "tea"},\n{"id": "2", "memory": "tea" "x"}]')
    with pytest.raises(SatchelError) as caught:
        bring(path, "b")
    assert caught.value.line == 2


@pytest.mark.in_check(2)
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_killed_reader_process_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, process_counts: list[int], after: int
) -> None:
    """The same records, each once."""
    path = write(tmp_path / "a.json", rows(*((str(n), f"memory {n}") for n in range(1200))))
    bring(path, "whole")
    frames = import_source.ImportSource._frames

    def dying(self: Any, *given: Any) -> Iterator[bytes]:
        for number, frame in enumerate(frames(self, *given)):
            if number == after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield frame

    monkeypatch.setattr(import_source.ImportSource, "_frames", dying)
    assert bring(path, "b").banks[0].done.added == 1200
    assert _ids("b") == _ids("whole")
    assert process_counts == [1, 1]


def test_no_process_is_forked_while_other_threads_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork copies the locks that other threads hold."""
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not processes.may_fork()
