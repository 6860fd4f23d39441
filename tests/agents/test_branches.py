"""Conversations in an agent file: forks, checkpoints, state, notes and archived sessions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from bank_kit import owner
from sessions_kit import say
from whole_agents_kit import agent_file, arrive, leave, settings, syn, talk, without_ids, written

from satchel.bank.open_bank import open_bank
from satchel.model.text import Message, Note, SessionChange
from satchel.ports.rows import Filter
from satchel.sessions import lookup
from satchel.sessions.branches import archive_session, create_checkpoint, fork, rename_session
from satchel.sessions.chains import element_of
from satchel.sessions.distillation import distill
from satchel.sessions.elements import event_of
from satchel.sessions.lookup import point_at
from satchel.sessions.record import NewSession, begin, record
from satchel.transfer.export_records import ExportOptions

if TYPE_CHECKING:
    from pathlib import Path

    from satchel.bank.open_bank import OpenBank
    from satchel.ledger.projection import VerifiedRecord
    from satchel.ledger.view import View
    from satchel.sessions.views import StateInfo


def conversations(bank: str) -> list[dict[str, Any]]:
    """Return all conversations of a bank with their state, by name instead of by ID."""
    with open_bank(settings(), bank) as opened, opened.ledger.reading() as view:
        known = lookup.sessions(view)
        names = {conversation.id: conversation.name for conversation in known}
        found = []
        for conversation in known:
            start = lookup.find(view, conversation.id)
            end = point_at(view, start, None)
            found.append(
                {
                    "name": conversation.name,
                    "agent": conversation.agent,
                    "archived": conversation.archived,
                    "memories": conversation.memories,
                    "from": conversation.origin
                    and (names.get(conversation.origin.session), conversation.origin.number),
                    "to a point": conversation.origin is not None
                    and conversation.origin.checkpoint is not None,
                    "said": [m.content for m in lookup.messages(view, end.element)][::-1],
                    "state": _state(lookup.state(view, end.element)),
                    "then": _state(lookup.state(view, _fork_point(view, start))),
                    "points": [
                        (
                            point.number,
                            point.name,
                            point.why,
                            _state(lookup.state(view, view.get([point.element])[point.element])),
                        )
                        for point in lookup.checkpoints(view, start)
                    ],
                }
            )
    return found


def _fork_point(view: View, start: VerifiedRecord) -> VerifiedRecord:
    """Return the element that a fork continues from, or the start of the session."""
    return element_of(view, start) or start if event_of(start.model) == "fork" else start


def _state(state: StateInfo) -> list[Any]:
    notes = [(note.content, note.category) for note in state.notes]
    return [state.working_state, state.thread_summary, notes]


def branch_conversations(bank: OpenBank) -> None:
    """Fork, archive and rename conversations of a bank; the last fork is the primary one."""
    begin(
        bank, NewSession(name="trip", agent="syn", user="ada"), [Message(role="user", content="hi")]
    )
    say(bank, "trip", "I live in Oslo.", "We decided to go by train.")
    record(bank, "trip", [SessionChange(working_state={"at": 3}, note=Note(content="no bus"))])
    distill(bank, "trip", name="first")
    record(bank, "trip", [SessionChange(working_state={"at": "later"})])
    create_checkpoint(bank, "trip", at="3", name="looking back")
    say(bank, "trip", "I prefer tea.", "We need to book a room.")
    distill(bank, "trip")
    fork(bank, "trip", at="first", name="by bus")
    say(bank, "by bus", "Is there a bus?")
    record(bank, "by bus", [SessionChange(thread_summary="A bus")])
    fork(bank, "by bus", at="2", name="before both", memories="as-of")
    fork(bank, "trip", at="0", name="from nothing")
    fork(bank, "by bus", name="unchanged")
    say(bank, "unchanged", "and on")
    archive_session(bank, "from nothing")
    rename_session(bank, "trip", "travel")
    archive_session(bank, "travel")
    archive_session(bank, "travel", restore=True)
    rename_session(bank, "travel", "trip to Bergen")
    fork(bank, "by bus", at="4", name="primary")
    say(bank, "primary", "The main one.")
    record(bank, "primary", [SessionChange(working_state={"at": "the end"})])


@pytest.mark.parametrize("name", ["syn.agent.json", "syn.pam"])
def test_forks_are_imported_as_forks(tmp_path: Path, name: str) -> None:
    """With origin, checkpoints, state and messages; the primary conversation included."""
    syn(tmp_path, talk("hello"))
    with open_bank(settings(), "syn", writes=True) as bank:
        branch_conversations(bank)
    key = owner() if name.endswith(".pam") else None
    done = leave("syn", tmp_path / name, full=True, export=ExportOptions(key=key))
    assert done.export.losses == []
    arrive(tmp_path / name, name="copy")
    before, after = conversations("syn"), conversations("copy")
    assert len(before) == 7
    by_name = [sorted(one, key=lambda each: each["name"]) for one in (before, after)]
    assert by_name[1] == by_name[0]


def test_shared_history_of_forks_is_stored_once_in_a_file(tmp_path: Path) -> None:
    """Ten forks of one message reference it."""
    syn(tmp_path, talk(*(f"message {number} of many" for number in range(50))))
    with open_bank(settings(), "syn", writes=True) as bank:
        for number in range(10):
            fork(bank, "main", at="40", name=f"fork {number}")
    leave("syn", tmp_path / "a.agent.json", full=True)
    text = (tmp_path / "a.agent.json").read_text()
    assert text.count("message 7 of many") == 1
    assert text.count('"forkedFrom"') == 10


def test_links_of_distilled_memories_to_messages_survive_copies(tmp_path: Path) -> None:
    """In a copy, and in a copy of the copy."""
    syn(tmp_path, talk("hello"))
    with open_bank(settings(), "syn", writes=True) as bank:
        say(bank, "main", "I live in Oslo.")
        distill(bank, "main")
    for source, copy in (("syn", "copy"), ("copy", "third")):
        done = leave(source, tmp_path / f"{source}.agent.json", full=True)
        assert done.export.losses == []
        arrive(tmp_path / f"{source}.agent.json", name=copy)
    with open_bank(settings(), "third") as opened, opened.ledger.reading() as view:
        (edge,) = (one.record.value for one in view.scan(Filter(types=frozenset({"edge"}))))
        there = view.get([edge["source"], edge["target"]])
        found = [there[edge[side]].record.value for side in ("source", "target")]
    assert [one["type"] for one in found] == ["semantic", "session_event"]
    assert {one["text"] for one in found} == {"I live in Oslo."}


def test_a_forked_primary_conversation_is_exported_with_its_history(tmp_path: Path) -> None:
    """A reader of version 1 reads the primary conversation alone."""
    syn(tmp_path, talk("a", "b", "c", name="first"))
    with open_bank(settings(), "syn", writes=True) as bank:
        fork(bank, "first", at="2", name="main")
        say(bank, "main", "other")
    done = leave("syn", tmp_path / "syn.agent.json")
    primary = written(tmp_path / "syn.agent.json")["sessions"]["primary"]
    assert [one["content"] for one in primary["messages"]] == ["a", "b", "other"]
    assert primary["wasForkedFrom"]["after"] == 2
    assert {one.reason for one in done.export.losses} == {
        "its parent conversation is only referenced"
    }
    arrive(tmp_path / "syn.agent.json", name="copy")
    (copy,) = conversations("copy")
    assert (copy["name"], copy["from"], copy["said"]) == ("main", None, ["a", "b", "other"])


@pytest.mark.parametrize("how", ["edited", "missing", "ring", "count"])
def test_a_fork_that_contradicts_its_parent_is_imported_as_a_full_conversation(
    tmp_path: Path, how: str
) -> None:
    """An edited file: no message is dropped."""

    def conversation(name: str, *texts: str, **more: Any) -> dict[str, Any]:
        said = [{"role": "user", "content": text, "id": text, "metadata": {}} for text in texts]
        return {"id": name, "name": name, "messages": said, **more}

    begins = {"session": "other", "at": "other/b", "after": 2, "included": True}
    primary = conversation("main", "a", "b", "mine", forkedFrom=begins)
    other = conversation("other", "a", "b", "c")
    if how == "edited":
        primary["messages"][0]["content"] = "forged"
    elif how == "missing":
        begins["at"] = "other/x"
    elif how == "ring":
        other["forkedFrom"] = {"session": "main", "at": "main/a", "after": 1}
    else:
        begins["after"] = 3
    sessions = {"primary": primary, "background": [], "others": [other]}
    arrive(agent_file(tmp_path / "a.agent.json", sessions=sessions), name="copy")
    found = {each["name"]: each for each in conversations("copy")}
    assert found["main"]["from"] is None
    assert found["main"]["said"][-1] == "mine"
    assert len(found["main"]["said"]) == 3
    assert found["other"]["said"][-3:] == ["a", "b", "c"]


def test_a_checkpoint_created_later_keeps_its_position(tmp_path: Path) -> None:
    """It does not move behind the changes that came before it was created."""
    syn(tmp_path, talk("a", "b"))
    with open_bank(settings(), "syn", writes=True) as bank:
        record(bank, "main", [SessionChange(working_state={"later": True})])
        create_checkpoint(bank, "main", at="1", name="then")
        create_checkpoint(bank, "main", at="2", name="as well")
    leave("syn", tmp_path / "a.agent.json", full=True)
    arrive(tmp_path / "a.agent.json", name="copy")
    before, after = conversations("syn"), conversations("copy")
    assert [point[:2] for point in before[0]["points"]] == [(1, "then"), (2, "as well")]
    assert after == before


def test_forks_survive_repeated_export_and_import(tmp_path: Path) -> None:
    """Copies are equal except for IDs and transfer times."""
    syn(tmp_path, talk("hello"))
    with open_bank(settings(), "syn", writes=True) as bank:
        branch_conversations(bank)
    for agent, copy in (("syn", "copy"), ("copy", "third")):
        leave(agent, tmp_path / f"{agent}.agent.json", full=True)
        arrive(tmp_path / f"{agent}.agent.json", name=copy)
    leave("third", tmp_path / "third.agent.json", full=True)
    files = [written(tmp_path / f"{one}.agent.json") for one in ("syn", "copy", "third")]
    first, second, third = (json.dumps(without_ids(one)) for one in files)
    assert third == second
    assert len(second) > 1000
    assert first.count("forkedFrom") == second.count("forkedFrom")
