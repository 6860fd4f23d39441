"""Export, import and undo of whole agents: copies are equal, on every store."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from bank_kit import filled, keep
from hypothesis import given
from hypothesis import strategies as st
from sessions_kit import begun, distilled, say, texts_of
from whole_agents_kit import (
    SAMPLES,
    arrive,
    leave,
    settings,
    syn,
    talk,
    undo_import_into,
    without_ids,
    workspace,
    written,
)

from satchel.agents.imports import OnAgent
from satchel.agents.workspace import WorkspaceRules
from satchel.bank.open_bank import OpenBank, open_bank
from satchel.conformance.strategies import json_objects
from satchel.errors import EmptyInputError
from satchel.model.text import Note, SessionChange
from satchel.sessions.branches import archive_session, create_checkpoint, fork, rename_session
from satchel.sessions.distillation import distill
from satchel.sessions.queries import diff_sessions, list_sessions, show_session
from satchel.sessions.record import record

if TYPE_CHECKING:
    from pathlib import Path


ALL = WorkspaceRules(binary=True)
STEPS = st.tuples(
    st.sampled_from(["say", "state", "note", "point", "fork", "distill", "rename", "archive"]),
    st.integers(0, 3),
    st.sampled_from(["I live in Oslo.", "We decided to go.", "x", "\u2603 \x1b[1m", "TODO: a"]),
)


def export_copies(folder: Path, **options: Any) -> list[Any]:
    """Export an agent, a copy of it, and a copy of the copy; return the three files."""
    for agent, copy in (("syn", "copy"), ("copy", "third"), ("third", None)):
        leave(agent, folder / f"{agent}.agent.json", **options)
        if copy is not None:
            arrive(folder / f"{agent}.agent.json", name=copy)
    files = (folder / f"{agent}.agent.json" for agent in ("syn", "copy", "third"))
    return [without_ids(written(path)) for path in files]


def change_conversation(bank: OpenBank, names: list[str], what: str, which: int, text: str) -> None:
    """Change one of the conversations."""
    name = names[which % len(names)]
    if what == "say":
        say(bank, name, text, f"and {text}")
    elif what == "state":
        record(bank, name, [SessionChange(working_state={"at": text}, thread_summary=text)])
    elif what == "note":
        record(bank, name, [SessionChange(note=Note(content=text, category="task"))])
    elif what == "point":
        create_checkpoint(bank, name, name=text, at=None if which else "1")
    elif what == "fork":
        names.append(f"fork {len(names)}")
        fork(
            bank,
            name,
            name=names[-1],
            at=None if which else "1",
            memories="as-of" if which == 1 else "all",
        )
    elif what == "distill":
        try:
            distill(bank, name)
        except EmptyInputError:
            say(bank, name, text)
    elif what == "rename":
        names[names.index(name)] = f"renamed {len(names)} {which}"
        rename_session(bank, name, names[which % len(names)])
    else:
        archive_session(bank, name, restore=which % 2 == 0)


@pytest.mark.prove
@pytest.mark.timeout(900)
@hypothesis.settings(max_examples=15)
@given(
    texts=st.lists(st.text(max_size=20).filter(str.strip), min_size=1, max_size=3, unique=True),
    metadata=json_objects(),
    said=st.lists(st.text(max_size=20), min_size=1, max_size=4),
    steps=st.lists(STEPS, max_size=8),
    how=st.sampled_from(["short", "full"]),
)
def test_copies_of_an_agent_are_equal(
    tmp_path_factory: pytest.TempPathFactory,
    texts: list[str],
    metadata: dict[str, Any],
    said: list[str],
    steps: list[tuple[str, int, str]],
    how: str,
) -> None:
    """For any memories, messages, checkpoints and forks; for a full and a default export."""
    folder = tmp_path_factory.mktemp("agents")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("SATCHEL_HOME", "SATCHEL_WITNESS", "XDG_CONFIG_HOME"):
            patch.setenv(name, str(folder / name))
        syn(folder, talk(*said, distilled_after=1))
        with filled("syn") as bank:
            for text in texts:
                keep(bank, text, metadata=metadata)
            names = ["main"]
            for one in steps:
                change_conversation(bank, names, *one)
        first, second, third = export_copies(folder, full=how == "full")
    if how == "full":
        assert second == first
    assert third == second


@pytest.mark.parametrize("fork_first", [False, True])
def test_a_checkpoint_of_an_earlier_message_is_in_the_fork_of_every_copy(
    tmp_path: Path, *, fork_first: bool
) -> None:
    """Whether it was created before or after the fork."""
    syn(tmp_path, talk("a", "b", distilled_after=1))
    with filled("syn") as bank:
        steps = [("point", 0, "at the first message"), ("fork", 1, "x"), ("rename", 0, "x")]
        names = ["main"]
        for each in (steps[1], steps[0], steps[2]) if fork_first else steps:
            change_conversation(bank, names, *each)

    first, second, third = export_copies(tmp_path, full=True)

    conversations = [first["sessions"]["primary"], *first["sessions"]["others"]]
    (forked,) = (row for row in conversations if "forkedFrom" in row)
    points = [moment.get("checkpoint", {}).get("name") for moment in forked["timeline"]]
    assert "at the first message" in points
    assert second == first
    assert third == first


@pytest.mark.parametrize("how", ["short", "full"])
def test_a_copy_of_a_copy_is_equal_and_reports_the_same_omissions(tmp_path: Path, how: str) -> None:
    """Data that the first file omits is missing in the copies as well."""
    files = syn(tmp_path, talk(*"abcdef", distilled_after=4), talk("tick", name="cron"))
    workspace(files, a_bin=b"\x00\x01", draft_md="x")
    (files / ".env").write_text("A=1")
    (files / ".gitignore").write_text("draft.md\n")
    first, second, third = export_copies(tmp_path, full=how == "full")
    assert second == first
    assert third == first
    assert first["workspace"]["binaryFiles"] == ["a.bin"]
    assert first["exportMetadata"]["lossless"] is False
    if how == "short":
        assert [one["key"] for one in first["sessions"]["background"]] == ["cron"]
        (cut,) = first["exportMetadata"]["truncations"]
        assert (cut["original"], cut["kept"], cut["itemId"]) == (6, 2, "#2")


@pytest.mark.parametrize("program", ["typescript", "rust"])
def test_agents_of_other_programs_are_equal_after_round_trips(tmp_path: Path, program: str) -> None:
    """The first export, in version 1, equals the exports of the copies."""
    arrive(SAMPLES / f"other-{program}.agent.json", name="syn")
    first, second, third = export_copies(tmp_path, full=True, rules=ALL)
    assert second == first
    assert third == first


def test_truncation_counts_include_messages_added_to_a_copy(tmp_path: Path) -> None:
    """The report of a continued copy has the number of all messages."""
    syn(tmp_path, talk(*"abcdef", distilled_after=4))
    leave("syn", tmp_path / "a.agent.json")
    arrive(tmp_path / "a.agent.json", name="copy")
    with open_bank(settings(), "copy", writes=True) as bank:
        say(bank, "main", "g")
    done = leave("copy", tmp_path / "b.agent.json", full=True)
    (cut,) = done.report["truncations"]
    assert (cut["original"], cut["kept"]) == (7, 3)
    assert not done.lossless


# -- every store -------------------------------------------------------------------------


_SLOW_STORES = [pytest.param(name, marks=pytest.mark.prove) for name in ("ladybug", "postgresql")]
BATCHES = [[f"We decided on {number}.", f"I prefer {number}."] for number in range(1, 6)]
MODEL = {"lodging": [1], "rail": [2]}


def create_forks() -> list[Any]:
    """Distill five times, fork from each, continue the forks; return the resulting state."""
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


@pytest.mark.parametrize("any_store", ["sqlite", *_SLOW_STORES], indirect=True)
@pytest.mark.usefixtures("any_store")
def test_export_import_merge_and_undo_are_the_same_on_every_store(tmp_path: Path) -> None:
    """Five distillations with a fork each, a full export, a copy, a merge, and undo of both."""
    files = workspace(syn(tmp_path), a_bin=b"\x00\x01")
    found = create_forks()
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
