"""Whole agents and their conversations on every store: one scenario, and the same comes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sessions_kit import begun, distilled, say, texts_of
from whole_agents_kit import (
    arrive,
    leave,
    settings,
    syn,
    undo_import_into,
    without_ids,
    workspace,
    written,
)

from satchel.agents.imports import OnAgent
from satchel.bank.open_bank import open_bank
from satchel.model.text import SessionChange
from satchel.sessions.branches import archive_session, create_checkpoint, fork
from satchel.sessions.queries import diff_sessions, list_sessions, show_session
from satchel.sessions.record import record

BATCHES = [[f"We decided on {number}.", f"I prefer {number}."] for number in range(1, 6)]
MODEL = {"lodging": [1], "rail": [2]}


def conversation() -> list[Any]:
    """Distill five times, fork from each, go on in the forks; return what there is then."""
    with open_bank(settings(), "syn", writes=True) as bank:
        begun(bank, name="trip")
        distilled(bank, "trip", BATCHES)
        record(bank, "trip", [SessionChange(working_state=MODEL)])
        create_checkpoint(bank, "trip", name="point")
        before = texts_of(bank, "trip")
        for number in range(1, 6):
            made = fork(bank, "trip", at=f"distillation:{number}", name=f"from {number}")
            assert made.messages == 2 * number
            say(bank, f"from {number}", "another way")
        fork(bank, "from 3", at="1", name="deep", memories="as-of")
        archive_session(bank, "deep")
        assert texts_of(bank, "trip") == before
        diff = diff_sessions(bank, "trip", "from 2")
        listed = list_sessions(bank, include_archived=True)
        states = [show_session(bank, one.id).state.thread_summary for one in listed]
        return [
            *(
                (one.name, one.messages, one.depth, one.archived, one.distillations)
                for one in listed
            ),
            *states,
            (diff.common, diff.one.messages, diff.other.messages, diff.same_state),
        ]


EXPECTED = [
    ("main", 2, 0, False, 0),
    ("trip", 10, 0, False, 5),
    *((f"from {number}", 2 * number + 1, 1, False, 0) for number in (1, 2, 3)),
    ("deep", 1, 2, True, 0),
    *((f"from {number}", 2 * number + 1, 1, False, 0) for number in (4, 5)),
]


@pytest.mark.usefixtures("any_store")
def test_an_agent_is_exported_imported_and_the_import_undone(tmp_path: Path) -> None:
    """Five distillations, a fork from each, a file of all of it, a copy, a merge, and undo."""
    files = workspace(syn(tmp_path), a_bin=b"\x00\x01")
    found = conversation()
    assert found[: len(EXPECTED)] == EXPECTED
    assert found[-1] == (4, 6, 1, False)
    assert len({one for one in found[len(EXPECTED) : -1] if one}) == 5
    done = leave("syn", tmp_path / "a.agent.json", full=True)
    assert done.export.losses == []
    arrived = arrive(tmp_path / "a.agent.json", name="copy", embed=True)
    assert len(arrived.sessions) == len(EXPECTED)
    leave("copy", tmp_path / "b.agent.json", full=True)
    first, second = (without_ids(written(tmp_path / f"{one}.agent.json")) for one in "ab")
    assert second == first
    with open_bank(settings(), "copy") as bank:
        shapes = {
            (one.name, one.messages, one.depth)
            for one in list_sessions(bank, include_archived=True)
        }
    assert shapes == {one[:3] for one in EXPECTED}
    assert arrive(tmp_path / "a.agent.json", name="copy").how == "known"
    merged = arrive(tmp_path / "b.agent.json", name="syn", on_conflict=OnAgent.MERGE)
    assert merged.memory is not None
    undo_import_into("syn", merged.undo)
    undo_import_into("copy", arrived.undo)
    assert set(settings().options.agents) == {"syn"}
    with open_bank(settings(), "copy") as bank:
        assert list(list_sessions(bank, include_archived=True)) == []
    with open_bank(settings(), "syn") as bank:
        assert len(list_sessions(bank, include_archived=True)) == len(EXPECTED)
    assert sorted(path.name for path in files.rglob("*.md")) == ["SOUL.md", "tea.md"]
