"""An import that is killed is gone on with; one that is overtaken settles with who was quicker."""

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

from satchel.actions.config import load_settings
from satchel.actions.importing.undoing import list_imports, undo_import
from satchel.actions.opened import OpenBank
from satchel.errors import (
    ConflictError,
)
from satchel.memory.entries import Entry, Semantic
from satchel.memory.parts import Origin, Scope
from satchel.seal.sealing import seal
from satchel.transfer.incoming import stage
from satchel.transfer.incoming.planned import OnConflict


@pytest.fixture
def in_small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log seven records at a time."""
    monkeypatch.setattr(stage, "GROUP", 7)


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
    """Let every import draw the same seed, so that ids can be compared between homes."""
    monkeypatch.setattr(os, "urandom", lambda count: b"s" * count)


@pytest.mark.usefixtures("in_small_groups", "seeded")
@pytest.mark.parametrize("at", range(6))
def test_a_killed_import_is_gone_on_with_and_gives_the_same_ids(tmp_path: Path, at: int) -> None:
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


@pytest.mark.usefixtures("in_small_groups")
@pytest.mark.parametrize("at", [0, 5, 6, 11, 12, 17])
def test_an_import_into_several_banks_is_gone_on_with(tmp_path: Path, at: int) -> None:
    """Whichever of them it was killed in; none of them shows a part of it."""
    path = _many(tmp_path / "a.json", users=3)
    with pytest.raises(KilledError):
        bring(path, None, on_logging=killing(at))
    for name in ("user0", "user1", "user2")[: at // 6 + 1]:
        assert texts(name) == []
    bring(path, None)
    for name in ("user0", "user1", "user2"):
        assert texts(name) == [f"memory {n}" for n in range(40)]
        assert [line.state for line in list_imports(load_settings(), name)] == ["complete"]


@pytest.mark.usefixtures("in_small_groups")
def test_a_killed_import_after_which_the_bank_changed_begins_anew(tmp_path: Path) -> None:
    """What was logged of it is retired; the plan is made for the bank as it is now."""
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


@pytest.mark.usefixtures("in_small_groups")
def test_a_killed_import_can_be_taken_back_instead(tmp_path: Path) -> None:
    """Then it is not gone on with."""
    path = _many(tmp_path / "a.json")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    undo_import(load_settings(), "b")
    assert texts() == []
    assert bring(path).banks[0].resumed == 0
    assert len(texts()) == 40


@pytest.mark.usefixtures("in_small_groups")
def test_a_killed_import_with_other_options_is_another_one(tmp_path: Path) -> None:
    """The half one stays invisible beside it, until somebody takes it back."""
    path = _many(tmp_path / "a.json")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    assert bring(path, on_conflict=OnConflict.OVERWRITE).banks[0].resumed == 0
    assert len(texts()) == 40


def _at_the_end(act: Any) -> Any:
    def told(done: int, total: int) -> None:
        if done == total:
            act()

    return told


def _beside(text: str, store: OpenBank) -> None:
    origin = Origin(provider="mem0", id="1")
    store.ledger.append([seal(Semantic(text=text, scope=Scope(user="ada"), origin=origin))])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (OnConflict.SKIP, ["quicker", "coffee"]),
        (OnConflict.OVERWRITE, ["coffee", "tea"]),
    ],
)
def test_who_is_quicker_with_another_version_is_settled_with(
    tmp_path: Path, mode: OnConflict, expected: list[str]
) -> None:
    """Attack by accident: another program adds a version between the plan and the end."""
    bring(write(tmp_path / "b.json", rows(B)))

    def quicker() -> None:
        with opened() as there:
            _beside("quicker", there)

    path = write(tmp_path / "a.json", rows(A))
    bring(path, on_conflict=mode, on_logging=_at_the_end(quicker))
    assert sorted(map(str, texts())) == sorted(expected)


def test_who_is_quicker_stops_an_import_that_was_to_have_no_conflict(tmp_path: Path) -> None:
    """What it had logged is retired."""
    bring(write(tmp_path / "b.json", rows(B)))

    def quicker() -> None:
        with opened() as there:
            _beside("quicker", there)

    path = write(tmp_path / "a.json", rows(A))
    with pytest.raises(ConflictError):
        bring(path, on_conflict=OnConflict.ERROR, on_logging=_at_the_end(quicker))
    assert texts() == ["coffee", "quicker"]


@pytest.mark.usefixtures("in_small_groups")
def test_a_record_of_an_import_under_way_is_not_logged_twice(
    tmp_path: Path,
) -> None:
    """The error says which import is in the way, and what to do."""
    path = sealed_from(_many(tmp_path / "a.json"), tmp_path / "a.pam.jsonl")
    with pytest.raises(KilledError):
        bring(path, on_logging=killing(2))
    with pytest.raises(ConflictError, match="not complete"):
        bring(path, on_conflict=OnConflict.OVERWRITE)
    assert bring(path).banks[0].resumed == 21
    assert len(texts()) == 40
