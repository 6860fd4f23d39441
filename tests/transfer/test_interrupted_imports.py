"""Interrupted imports: a killed one is resumed, and concurrent changes are respected."""

import os
from pathlib import Path
from typing import Any

import pytest
from import_kit import (
    A,
    B,
    KilledError,
    bring,
    killing,
    opened,
    rows,
    sealed_from,
    texts,
    write,
)

from satchel.bank.banks import list_banks
from satchel.bank.open_bank import OpenBank
from satchel.config.settings import load_settings
from satchel.crypto.sealed_records import seal
from satchel.errors import ConflictError, StoreDamagedError
from satchel.model.records import Entry, Semantic
from satchel.model.values import Origin, Scope
from satchel.ports.operations import ProgressStep
from satchel.ports.store import Commit
from satchel.stores.sqlite.store import SqliteTransaction
from satchel.transfer import import_stage
from satchel.transfer.import_job import ImportJob
from satchel.transfer.import_results import ConflictPolicy
from satchel.transfer.imports import list_imports, undo_import


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log seven records at a time, each in its own transaction."""
    monkeypatch.setattr(import_stage, "GROUP", 7)
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)


@pytest.fixture
def several_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the smallest import as too large for one transaction."""
    monkeypatch.setattr(import_stage, "COMMIT_BYTES", 1)


def _many(path: Path, *, users: int = 1) -> Path:
    parts = [
        rows(*((f"{user}.{n}", f"memory {n}") for n in range(40)), user=f"user{user}")
        for user in range(users)
    ]
    return write(path, *parts)


def _logged(bank: str) -> list[str]:
    with opened(bank) as there, there.ledger.reading() as view:
        return [one.record.id for one in view.scan() if isinstance(one.model, Entry)]


@pytest.fixture
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every import use the same seed, so that IDs can be compared between homes."""
    monkeypatch.setattr(os, "urandom", lambda count: b"s" * count)


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("small_groups", "seeded")
@pytest.mark.parametrize("at", range(6))
def test_a_killed_import_is_resumed_with_the_same_ids(tmp_path: Path, at: int) -> None:
    """In the same order, each once; until it is complete nobody sees any of it."""
    path = _many(tmp_path / "a.json")
    bring(path, "whole")
    with pytest.raises(KilledError):
        bring(path, "b", on_logging=killing(at))
    assert texts() == []
    assert list_imports(load_settings(), "b")[0].state == "begun"
    done = bring(path, "b")
    assert done.banks[0].resumed == min(7 * (at + 1), 40)
    assert _logged("b") == _logged("whole")
    assert bring(path, "b").banks[0].done.known == 40


@pytest.mark.in_check(2)
@pytest.mark.usefixtures("small_groups")
@pytest.mark.parametrize("at", [0, 5, 6, 11, 12, 17])
def test_an_import_into_several_banks_is_resumed(tmp_path: Path, at: int) -> None:
    """Whichever bank it was killed in; none of them shows a part of it."""
    path = _many(tmp_path / "a.json", users=3)
    with pytest.raises(KilledError):
        bring(path, None, on_logging=killing(at))
    for name in ("user0", "user1", "user2")[: at // 6 + 1]:
        assert texts(name) == []
    bring(path, None)
    for name in ("user0", "user1", "user2"):
        assert texts(name) == [f"memory {n}" for n in range(40)]
        assert [line.state for line in list_imports(load_settings(), name)] == ["complete"]


@pytest.mark.usefixtures("small_groups")
def test_a_killed_import_starts_again_if_the_bank_changed(tmp_path: Path) -> None:
    """Its records are retired; the plan is made for the current bank."""
    path = _many(tmp_path / "a.json")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    with opened() as there:
        origin = Origin(provider="mem0", id="0.3")
        mine = Semantic(text="mine", scope=Scope(user="user0"), origin=origin)
        there.ledger.append([seal(mine)])
    done = bring(path).banks[0]
    assert (done.done.skipped, done.done.added, done.resumed) == (1, 39, 0)
    assert sorted(map(str, texts())) == sorted(
        ["mine", *(f"memory {n}" for n in range(40) if n != 3)]
    )
    assert [line.state for line in list_imports(load_settings(), "b")] == ["undone", "complete"]


@pytest.mark.usefixtures("small_groups")
def test_a_killed_import_can_be_undone_instead(tmp_path: Path) -> None:
    """Then it is not resumed."""
    path = _many(tmp_path / "a.json")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    undo_import(load_settings(), "b")
    assert texts() == []
    assert bring(path).banks[0].resumed == 0
    assert len(texts()) == 40


@pytest.mark.usefixtures("small_groups")
def test_an_import_with_other_options_does_not_resume_a_killed_one(tmp_path: Path) -> None:
    """The incomplete one stays invisible until it is undone."""
    path = _many(tmp_path / "a.json")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    assert bring(path, on_conflict=ConflictPolicy.OVERWRITE).banks[0].resumed == 0
    assert len(texts()) == 40


def _when_done(act: Any) -> Any:
    def told(done: int, total: int) -> None:
        if done == total:
            act()

    return told


def _add_version(text: str, store: OpenBank) -> None:
    origin = Origin(provider="mem0", id="1")
    store.ledger.append([seal(Semantic(text=text, scope=Scope(user="ada"), origin=origin))])


@pytest.mark.usefixtures("several_commits")
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConflictPolicy.SKIP, ["quicker", "coffee"]),
        (ConflictPolicy.OVERWRITE, ["coffee", "tea"]),
    ],
)
def test_a_version_added_during_an_import_is_a_conflict(
    tmp_path: Path, mode: ConflictPolicy, expected: list[str]
) -> None:
    """Fault: another program adds a version between the plan and the end."""
    bring(write(tmp_path / "b.json", rows(B)))

    def quicker() -> None:
        with opened() as there:
            _add_version("quicker", there)

    path = write(tmp_path / "a.json", rows(A))
    bring(path, on_conflict=mode, on_logging=_when_done(quicker))
    assert sorted(map(str, texts())) == sorted(expected)


@pytest.mark.usefixtures("several_commits")
def test_a_version_added_during_an_import_stops_the_error_policy(tmp_path: Path) -> None:
    """The records it had logged are retired."""
    bring(write(tmp_path / "b.json", rows(B)))

    def quicker() -> None:
        with opened() as there:
            _add_version("quicker", there)

    path = write(tmp_path / "a.json", rows(A))
    with pytest.raises(ConflictError):
        bring(path, on_conflict=ConflictPolicy.ERROR, on_logging=_when_done(quicker))
    assert texts() == ["coffee", "quicker"]


@pytest.mark.usefixtures("small_groups")
def test_a_record_of_an_open_import_is_not_logged_twice(
    tmp_path: Path,
) -> None:
    """The error names the other import, and what to do."""
    path = sealed_from(_many(tmp_path / "a.json"), tmp_path / "a.pam.jsonl")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    with pytest.raises(ConflictError, match="incomplete"):
        bring(path, on_conflict=ConflictPolicy.OVERWRITE)
    assert bring(path).banks[0].resumed == 21
    assert len(texts()) == 40


@pytest.mark.parametrize("at", [0, 3, 5])
def test_a_killed_import_of_one_transaction_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """Nothing was acknowledged; run again, it is complete."""
    path = _many(tmp_path / "a.json")
    with monkeypatch.context() as patched:
        patched.setattr(import_stage, "GROUP", 7)
        with pytest.raises(KilledError):
            bring(path, "b", on_logging=killing(at))
    assert _logged("b") == []
    assert list_imports(load_settings(), "b") == []
    done = bring(path, "b").banks[0]
    assert (done.resumed, done.done.added) == (0, 40)
    assert [line.state for line in list_imports(load_settings(), "b")] == ["complete"]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ConflictPolicy.SKIP, ["quicker", "coffee"]),
        (ConflictPolicy.OVERWRITE, ["coffee", "tea"]),
    ],
)
def test_a_version_added_before_the_transaction_is_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: ConflictPolicy, expected: list[str]
) -> None:
    """The same result as for an import of several transactions."""
    bring(write(tmp_path / "b.json", rows(B)))
    plan = ImportJob.plan

    def then_overtaken(work: ImportJob) -> None:
        plan(work)
        with opened() as there:
            _add_version("quicker", there)

    monkeypatch.setattr(ImportJob, "plan", then_overtaken)
    bring(write(tmp_path / "a.json", rows(A)), on_conflict=mode)
    assert sorted(map(str, texts())) == sorted(expected)


@pytest.mark.parametrize("commit_bytes", [1, import_stage.COMMIT_BYTES])
@pytest.mark.parametrize("damage", ["body", "node"])
def test_attack_records_that_read_back_differently_are_never_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, commit_bytes: int, damage: str
) -> None:
    """Attack: the disk or the store keeps other bytes."""
    append = SqliteTransaction.append

    def damaging(self: SqliteTransaction, bank: str, commit: Commit) -> None:
        append(self, bank, commit)
        if len(commit.rows) > 5 and damage == "body":
            self._all("UPDATE record SET body = CAST(replace(body, 'y 3', 'y 4') AS BLOB)")
        elif len(commit.rows) > 5:
            self._all("UPDATE node SET hash = zeroblob(32) WHERE place % 7 = 3")

    with monkeypatch.context() as patched:
        patched.setattr(import_stage, "COMMIT_BYTES", commit_bytes)
        patched.setattr(SqliteTransaction, "append", damaging)
        with pytest.raises(StoreDamagedError, match="read back differently"):
            bring(_many(tmp_path / "a.json"), "b")
    assert texts() == []
    assert bring(_many(tmp_path / "a.json"), "b").banks[0].done.added == 40


def test_an_exception_of_the_progress_callback_ends_an_import(
    tmp_path: Path,
) -> None:
    """Before the commit nothing is stored; after it the import is complete, as the error says."""
    path = _many(tmp_path / "a.json")

    def raising(at: int, times: int) -> Any:
        steps = list[ProgressStep]()

        def told(step: ProgressStep) -> None:
            steps.extend([step] * (step.done == at))
            if len(steps) == times:
                raise RuntimeError("enough")

        return told

    for times in (1, 2):  # while it is read, and when all of it is
        with pytest.raises(RuntimeError):
            bring(path, on_step=raising(0, times))
        assert list_banks(load_settings()) == [] or _logged("b") == []
    with pytest.raises(RuntimeError) as caught:
        bring(path, on_step=raising(40, 1))
    assert "satchel undo" in caught.value.__notes__[0]
    assert len(texts()) == 40
